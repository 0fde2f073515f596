"""The interface of a target: sends one notification at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from epicenter.rules.model.notification import Notification

MessageRef = Mapping[str, str]
"""What a target remembers about a group of incidents, such as the id of the message to edit later."""


class Target(Protocol):
    """A place that receives notifications. Each call is one attempt: the caller retries, in order.

    `refresh_every_s` is how often open groups must be sent again; None if the target keeps its state.
    """

    name: str
    refresh_every_s: float | None

    async def send(self, notification: Notification, message_ref: MessageRef) -> MessageRef:
        """Send a notification; the returned reference is passed with the group's next notification.

        Raises:
            TransientError: the target is unavailable or busy; with `retry_after_s` if it asked for a delay.
            RejectedError: the target will never accept this notification.
        """

    async def refresh(self, still_open: Sequence[tuple[Notification, MessageRef]]) -> None:
        """Send open groups again: the newest notification of each, with its reference.

        Raises:
            TransientError, RejectedError: as `send`.
        """

    async def close(self) -> None:
        """Close the connections."""
