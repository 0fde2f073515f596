"""Every other service that people use, through the apprise library, which is imported only when it is needed."""

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
LOOKS: Final = {"resolved": "success", "acknowledged": "info"}


class AppriseTarget:
    """Title and body by any of apprise's services; it does not tell what is final, so every failure may pass."""

    refresh_every_s: float | None = None

    def __init__(self, name: str, spec: AppriseSpec, writer: Writer, clock: Clock, timeout_s: float = TIMEOUT_S):
        library = import_module("apprise")
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # what it logs may hold addresses
        self.name = name
        self._writer = writer
        self._timeout_s = timeout_s
        url = spec.url.get_secret_value()
        self._scheme = urlsplit(url).scheme
        self._apprise = library.Apprise(asset=library.AppriseAsset(service_timeout=SERVICE_TIMEOUT_S))
        self._apprise.add(url)

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """As `Target.send`; it remembers nothing."""
        message = self._writer.write(notification)
        try:
            is_sent = await asyncio.wait_for(
                asyncio.to_thread(self._notify, message, notification.kind), self._timeout_s
            )
        except TimeoutError:
            raise TransientError(f"{self._scheme}: no answer within {self._timeout_s:g} s") from None
        except Exception as error:  # a hundred plugins, each with errors of its own
            raise TransientError(f"{self._scheme}: apprise fails with {type(error).__name__}") from None
        if not is_sent:
            raise TransientError(f"{self._scheme}: the service did not take it")
        return {}

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Nothing to do: what was said stays."""

    async def close(self) -> None:
        """Nothing is kept open."""

    def _notify(self, message: Message, kind: str) -> Any:
        return self._apprise.notify(
            title=message.title,
            body=message.body,
            notify_type=LOOKS.get(kind, "failure"),
            body_format="text",
            interpret_escapes=False,
        )
