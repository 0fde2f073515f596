"""A notification as a POST of JSON to the one URL that the settings name."""

from __future__ import annotations

from http import HTTPStatus
from time import time
from typing import Final

import aiohttp
import msgspec
import stamina

from rules.errors import RejectedError, TransientError
from rules.model import Notification
from sinks.inert import make_inert

TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0, connect=5.0)
SHOWN_ANSWER_BYTES: Final = 200
TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


class WebhookSink:
    """Delivers one notification at a time. The id in the headers is the same for every attempt, and for a repetition.

    Text from logs is only ever a JSON string. Redirects are not followed.
    """

    def __init__(self, url: str, retry_for_s: float = 5.0):
        self._url = url
        self._retry_for_s = retry_for_s
        self._session: aiohttp.ClientSession | None = None

    async def send(self, notification: Notification) -> None:
        """When this returns, the receiver has taken it.

        Raises:
            TransientError: the receiver stayed away, or answered 5xx, 408, 425 or 429, for longer than `retry_for_s`.
            RejectedError: it will never take this one.
        """
        body = msgspec.json.encode(notification)
        async for attempt in stamina.retry_context(
            on=TransientError, attempts=None, timeout=self._retry_for_s, wait_initial=0.2, wait_max=5.0
        ):
            with attempt:
                await self._post(notification.notification_id, body)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session:
            await self._session.close()

    async def _post(self, notification_id: str, body: bytes) -> None:
        self._session = self._session or aiohttp.ClientSession(timeout=TIMEOUT)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "epicenter",
            "Idempotency-Key": notification_id,
            "webhook-id": notification_id,
            "webhook-timestamp": str(int(time())),
        }
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                said = await answer.content.read(SHOWN_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"the webhook is away: {type(error).__name__}: {error}") from error
        _check(answer.status, make_inert(said.decode("utf-8", "replace")))


def _check(status: int, said: str) -> None:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in TRY_LATER:
        raise TransientError(f"the webhook answers {status}: {said}")
    if status >= HTTPStatus.BAD_REQUEST:
        raise RejectedError(f"the webhook refuses with {status}: {said}")
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise RejectedError(
            f"the webhook redirects ({status}), which is not followed: set webhook_url to the new place"
        )
