"""Incidents of `epicenter run` -> the webhook, each piece of news once, beside the reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rules.errors import RejectedError, TransientError
from rules.model import Delivery, Incident, Notification
from rules.notify import due
from rules.silenced import Silence
from sinks.notify.webhook import WebhookSink
from stream.silences import Silencing, delivery


class Teller:
    """Delivers in the background; a file holds the ids of what was delivered, one a line, and outlives the process."""

    def __init__(self, url: str, told: Path, say: Callable[[str], None], note: Callable[[Delivery], None]):
        self._sink = WebhookSink(url)
        told.parent.mkdir(parents=True, exist_ok=True)
        self._told = told
        self._say = say
        self._note = note
        self._pending: dict[str, Notification] = {}
        self._known_to_wait = ""
        self._silencing = Silencing()
        self._known = set(told.read_text("ascii").split()) if told.exists() else set[str]()
        self._waiting: asyncio.Queue[Notification] = asyncio.Queue()
        self._delivery = asyncio.create_task(self._deliver())

    def take(self, incidents: Iterable[Incident], silences: Sequence[Silence] = ()) -> None:
        """Tell what these revisions give to tell, in order, as soon as the receiver takes it.

        What a silence fits is told by the first revision after its end.
        """
        for incident in incidents:
            notification = due(incident, self._known)
            if notification is None:
                continue
            kept_back = self._silencing.keeps_back(notification, silences)
            for noted in kept_back or ():
                self._note(noted)
            if kept_back is None:
                self._known.add(notification.notification_id)
                self._pending[notification.notification_id] = notification
                self._waiting.put_nowait(notification)

    async def close(self, patience_s: float = 10.0) -> None:
        """Wait a little for what is still to be told."""
        try:
            await asyncio.wait_for(self._waiting.join(), patience_s)
        except TimeoutError:
            self._say("the webhook is away: some notifications were not delivered; the next run tells what it finds")
            for notification in self._pending.values():
                self._note(delivery(notification, "waits", "not delivered before the run ended"))
        self._delivery.cancel()
        await asyncio.gather(self._delivery, return_exceptions=True)
        await self._sink.close()

    async def _deliver(self) -> None:
        while True:
            notification = await self._waiting.get()
            while not await self._is_done(notification):
                pass
            del self._pending[notification.notification_id]
            self._waiting.task_done()

    async def _is_done(self, notification: Notification) -> bool:
        """Delivered and noted, or refused; false when it has to be tried again."""
        try:
            await self._sink.send(notification)
        except TransientError as error:
            self._say(f"a notification waits: {error}")
            if self._known_to_wait != notification.notification_id:
                self._known_to_wait = notification.notification_id
                self._note(delivery(notification, "waits", str(error)))
            return False
        except RejectedError as error:
            self._say(f"a notification can't be delivered: {error}")
            self._note(delivery(notification, "refused", str(error)))
            return True
        with self._told.open("a", encoding="ascii") as file:
            file.write(f"{notification.notification_id}\n")
        self._note(delivery(notification, "sent"))
        return True
