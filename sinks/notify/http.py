"""The one place that posts: an answer comes back as it is, or as an error that says what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from epicenter.rules.errors import RejectedError, TransientError
from epicenter.rules.model.notification import Notification
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.text.sanitize import sanitize

Clock = Callable[[], int]
"""Nanoseconds since the epoch."""

TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0, connect=5.0)
MAX_SHOWN_CHARACTERS: Final = 200
READ_BYTES: Final = 1 << 20
MAX_WAIT_S: Final = 86_400.0
TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
_HIDDEN: Final = "(secret)"


class Http:
    """Posts JSON. Redirects are not followed, and nothing is tried twice: the caller does that.

    An address may be a secret as a whole, so only its host is ever told; `secrets` are kept out of every error too.
    """

    def __init__(self, clock: Clock, secrets: Sequence[str] = (), timeout: aiohttp.ClientTimeout = TIMEOUT):
        self._clock = clock
        self._secrets = secrets
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """What a 2xx answer says, its first MiB.

        Raises:
            TransientError: nobody answers, or with 408, 425, 429 or 5xx; with `retry_after_s` when it was told.
            RejectedError: any other answer.
        """
        self._session = self._session or aiohttp.ClientSession(
            timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
        )
        all_headers = {"Content-Type": "application/json", "User-Agent": "epicenter", **(headers or {})}
        host = host_of(url)
        try:
            async with self._session.post(url, data=body, headers=all_headers, allow_redirects=False) as answer:
                said = await _beginning(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"{host} is away: {_kind(error)}") from None
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._error(host, answer, self._shown(said, url, all_headers))
        return said

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session:
            await self._session.close()

    def _error(self, host: str, answer: aiohttp.ClientResponse, said: str) -> TransientError | RejectedError:
        status = answer.status
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in TRY_LATER:
            return transient(f"{host} answers {status}: {said}", self._wait_s(answer.headers.get("Retry-After")))
        if status == HTTPStatus.GONE:
            return RejectedError(f"{host} is gone for good (410): take this target out of alerts.yaml: {said}")
        if status >= HTTPStatus.BAD_REQUEST:
            return RejectedError(f"{host} refuses with {status}: {said}")
        return RejectedError(f"{host} redirects ({status}), which is not followed: set the new address as the url")

    def _wait_s(self, header: str | None) -> float | None:
        return retry_after_s(header, self._clock()) if header else None

    def _shown(self, said: bytes, url: str, headers: Mapping[str, str]) -> str:
        """The first characters of an answer, inert, without our secrets should it repeat them."""
        text = said.decode("utf-8", "replace")
        parts = urlsplit(url)
        path = parts.path if len(parts.path) > len("/short") else ""
        password = headers.get("Authorization", "").rpartition(" ")[2]
        secrets = filter(None, (url, path, parts.query, password, *self._secrets))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return sanitize(text[:MAX_SHOWN_CHARACTERS])[:MAX_SHOWN_CHARACTERS]


class Posting:
    """What targets that post have in common: the other side keeps what it was told, and connections are let go."""

    refresh_every_s: float | None = None

    def __init__(self, name: str, http: Http):
        self.name = name
        self._http = http

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.close()


def host_of(url: str) -> str:
    """The part of an address that is no secret."""
    return urlsplit(url).hostname or "the target"


def transient(message: str, wait_s: float | None = None) -> TransientError:
    """The error for what may pass, with the seconds that were asked for."""
    error = TransientError(message)
    error.retry_after_s = wait_s
    return error


def retry_after_s(header: str, now_ns: int) -> float | None:
    """The seconds of a `Retry-After`, given as such or as a date, a day at most; None when it is neither."""
    if re.fullmatch(r"[0-9]{1,9}", text := header.strip()):
        return min(float(text), MAX_WAIT_S)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    left_s = until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now_ns / NS_PER_S
    return min(max(0.0, left_s), MAX_WAIT_S)


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    found = bytearray()
    async for chunk in content.iter_chunked(1 << 16):
        found += chunk
        if len(found) >= READ_BYTES:
            break
    return bytes(found[:READ_BYTES])


def _kind(error: Exception) -> str:
    """What went wrong, without the address that the error's own text may hold."""
    reason = getattr(getattr(error, "os_error", None), "strerror", None)
    return f"{type(error).__name__}: {sanitize(reason)}" if reason else type(error).__name__
