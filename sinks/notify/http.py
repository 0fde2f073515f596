"""HTTP POST for targets: the answer's body, or an error that says whether to retry."""

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
RETRYABLE: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
_HIDDEN: Final = "(secret)"


class Http:
    """Posts JSON, without following redirects and without retries: the caller retries.

    Errors name only the host, because the whole address may be a secret; `secrets` are redacted too.
    """

    def __init__(self, clock: Clock, secrets: Sequence[str] = (), timeout: aiohttp.ClientTimeout = TIMEOUT):
        self._clock = clock
        self._secrets = secrets
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """The first MiB of a 2xx answer.

        Raises:
            TransientError: no answer, or 408, 425, 429 or 5xx; with `retry_after_s` from `Retry-After`.
            RejectedError: any other status.
        """
        self._session = self._session or aiohttp.ClientSession(
            timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
        )
        all_headers = {"Content-Type": "application/json", "User-Agent": "epicenter", **(headers or {})}
        host = host_of(url)
        try:
            async with self._session.post(url, data=body, headers=all_headers, allow_redirects=False) as answer:
                content = await _first_bytes(answer.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"{host} is unreachable: {_kind(error)}") from None
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._error(host, answer, self._redacted(content, url, all_headers))
        return content

    async def post_to_api(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """As `post`, to a service that never answers with a web page: a proxy does, for a person to sign in.

        Raises:
            TransientError, RejectedError: as `post`; also for a web page.
        """
        content = await self.post(url, body, headers)
        if content.lstrip().startswith(b"<"):
            raise TransientError(f"{host_of(url)} answered with a web page: check url, and any proxy on the way")
        return content

    async def close(self) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()

    def _error(self, host: str, answer: aiohttp.ClientResponse, text: str) -> TransientError | RejectedError:
        status = answer.status
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in RETRYABLE:
            return transient(f"{host} returned {status}: {text}", self._wait_s(answer.headers))
        if status == HTTPStatus.GONE:
            return RejectedError(f"{host} returned 410 (gone): remove this target from alerts.yaml: {text}")
        if status >= HTTPStatus.BAD_REQUEST:
            return RejectedError(f"{host} rejected it with {status}: {text}")
        return RejectedError(
            f"{host} redirects ({status}), which epicenter does not follow: set url to the new address"
        )

    def _wait_s(self, headers: Mapping[str, str]) -> float | None:
        """A date counts from the answer's own, so that our clock may be wrong."""
        answered_ns = _date_ns(headers.get("Date", "")) or self._clock()
        return retry_after_s(headers["Retry-After"], answered_ns) if "Retry-After" in headers else None

    def _redacted(self, content: bytes, url: str, headers: Mapping[str, str]) -> str:
        """The start of an answer, sanitized and with our secrets redacted."""
        text = content.decode("utf-8", "replace")
        parts = urlsplit(url)
        path = parts.path if len(parts.path) > len("/short") else ""
        password = headers.get("Authorization", "").rpartition(" ")[2]
        secrets = filter(None, (url, path, parts.query, password, *self._secrets))
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return sanitize(text[:MAX_SHOWN_CHARACTERS])[:MAX_SHOWN_CHARACTERS]


class PostingTarget:
    """Base of targets that post: they need no refresh and close their connections."""

    refresh_every_s: float | None = None

    def __init__(self, name: str, http: Http):
        self.name = name
        self._http = http

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Do nothing: the receiver keeps its state."""

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def host_of(url: str) -> str:
    """The host of an address, the part that is not secret."""
    return urlsplit(url).hostname or "the target"


def transient(message: str, wait_s: float | None = None) -> TransientError:
    """A `TransientError` with the seconds to wait, if known."""
    error = TransientError(message)
    error.retry_after_s = wait_s
    return error


def retry_after_s(header: str, now_ns: int) -> float | None:
    """The seconds of a `Retry-After`, from a number or a date, at most a day; None if invalid."""
    if re.fullmatch(r"[0-9]{1,9}", text := header.strip()):
        return min(float(text), MAX_WAIT_S)
    until_ns = _date_ns(text)
    return None if until_ns is None else min(max(0.0, (until_ns - now_ns) / NS_PER_S), MAX_WAIT_S)


def _date_ns(text: str) -> int | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return round(date.replace(tzinfo=date.tzinfo or UTC).timestamp() * NS_PER_S)


async def _first_bytes(content: aiohttp.StreamReader) -> bytes:
    received = bytearray()
    async for chunk in content.iter_chunked(1 << 16):
        received += chunk
        if len(received) >= READ_BYTES:
            break
    return bytes(received[:READ_BYTES])


def _kind(error: Exception) -> str:
    """The kind of error; its own text may contain the address."""
    reason = getattr(getattr(error, "os_error", None), "strerror", None)
    return f"{type(error).__name__}: {sanitize(reason)}" if reason else type(error).__name__
