"""What a target has to do: take one notification at a time, and say what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from epicenter.rules.model.notification import Notification

MessageRef = Mapping[str, str]
"""What a target wants to remember of a group of incidents, such as the id of the message that it edits later."""


class Target(Protocol):
    """One place that people or programs look at. One attempt a call: whoever calls tries again, in order.

    `refresh_every_s` is how often it wants to hear of everything that is open, None when it keeps that itself.
    """

    name: str
    refresh_every_s: float | None

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """When this returns, the target has it; what is returned comes with the next notification of the group.

        Raises:
            TransientError: it is away or busy; with `retry_after_s` when it said when to come again.
            RejectedError: it will never take this one.
        """

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Hear again of what is open: the newest notification of each open group, and what is remembered of it.

        Raises:
            TransientError, RejectedError: as `send`.
        """

    async def close(self) -> None:
        """Let go of the connections."""
