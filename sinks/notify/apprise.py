"""Other services, through the apprise library, which is imported only when needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from epicenter.rules.errors import TransientError
from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify.config import AppriseSpec
from epicenter.sinks.notify.http import Clock
from epicenter.sinks.notify.message import Message
from epicenter.sinks.notify.target import MessageRef
from epicenter.sinks.notify.templates import Writer

TIMEOUT_S: Final = 30.0
SERVICE_TIMEOUT_S: Final = 10.0
NOTIFY_TYPES: Final = {"resolved": "success", "acknowledged": "info"}


class AppriseTarget:
    """Sends title and body to any apprise service. All failures are retried: apprise does not say which are final."""

    refresh_every_s: float | None = None

    def __init__(self, name: str, spec: AppriseSpec, writer: Writer, clock: Clock, timeout_s: float = TIMEOUT_S):
        library = import_module("apprise")
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # its log lines may contain secret addresses
        self.name = name
        self._writer = writer
        self._timeout_s = timeout_s
        url = spec.url.get_secret_value()
        self._scheme = urlsplit(url).scheme
        self._apprise = library.Apprise(asset=library.AppriseAsset(service_timeout=SERVICE_TIMEOUT_S))
        self._apprise.add(url)

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; remembers nothing."""
        message = self._writer.write(notification)
        try:
            is_sent = await asyncio.wait_for(
                asyncio.to_thread(self._notify, message, notification.kind), self._timeout_s
            )
        except TimeoutError:
            raise TransientError(f"{self._scheme}: no answer within {self._timeout_s:g} s") from None
        except Exception as error:  # plugins raise errors of any class
            raise TransientError(f"{self._scheme}: apprise failed with {type(error).__name__}") from None
        if not is_sent:
            raise TransientError(f"{self._scheme}: the service did not accept the notification")
        return {}

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Do nothing: sent messages are permanent."""

    async def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def _notify(self, message: Message, kind: str) -> Any:
        return self._apprise.notify(
            title=message.title,
            body=message.body,
            notify_type=NOTIFY_TYPES.get(kind, "failure"),
            body_format="text",
            interpret_escapes=False,
        )
