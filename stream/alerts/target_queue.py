"""The queue of one target: notifications one at a time, in order, with growing pauses while the target fails.

Queues do not wait for each other. A pause applies to the whole queue. After it, a single notification probes the
target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from epicenter.rules.alerts.state import Group, Planned
from epicenter.rules.errors import RejectedError, TransientError
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.sinks.log import get_logger
from epicenter.sinks.notify.target import MessageRef, Target

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 60.0
MAX_RETRY_AFTER_S: Final = 3600.0
FAILING_AFTER: Final = 3
"""A target is failing after this many failures in a row."""

TRIES_BEFORE_OTHERS: Final = 8
"""After this many failures in a row, a notification lets the others of its target pass."""

GIVE_UP_AFTER_NS: Final = duration_ns("3d")
log: Final = get_logger(__name__)


class Outbox(Protocol):
    """Stored notifications by target; when a `record_` method returns, the outcome is stored."""

    def waiting(self, target: str) -> list[Group]:
        """Groups with notifications for the target."""

    async def record_sent(self, group: Group, message_ref: MessageRef) -> None:
        """The target accepted the group's first notification."""

    async def record_refused(self, group: Group, reason: str) -> None:
        """The target rejects the group's first notification for good.

        Raises:
            TransientError: the refusal can't be stored now; try again.
        """

    async def record_waits(self, group: Group, reason: str) -> None:
        """The target is unavailable; called once for each notification."""

    def open_groups(self, target: str) -> list[Group]:
        """Groups of the target with an open incident."""


class TargetQueue:
    """Delivers to one target. `counted_ns` gives the counted time now; only `run` waits."""

    def __init__(self, target: Target, outbox: Outbox, counted_ns: Callable[[], int]):
        self._target = target
        self._outbox = outbox
        self._counted_ns = counted_ns
        self._failures = 0
        self._tries: dict[str, int] = {}
        self._not_before_ns = 0
        self._refresh_ns = 0
        self._woken = asyncio.Event()
        self._is_stopping = False

    def wake(self) -> None:
        """Deliver now: there is something new."""
        self._woken.set()

    def stop(self) -> None:
        """End after the delivery in flight."""
        self._is_stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Deliver until stopped."""
        while not self._is_stopping:
            self._woken.clear()
            await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.wait_s):
                    await self._woken.wait()

    async def step(self) -> None:
        """Deliver everything that is due."""
        while not self._is_stopping and self._counted_ns() >= self._not_before_ns and (group := self._first()):
            await self._deliver(group)
        if not self._is_stopping:
            await self._refresh()

    @property
    def is_failing(self) -> bool:
        """Whether the target fails repeatedly, so that it is tried only now and then."""
        return self._failures >= FAILING_AFTER

    @property
    def wait_s(self) -> float | None:
        """The seconds until `step` is due if nothing new comes; None: never."""
        due = [self._not_before_ns] if self._first() else []
        if self._target.refresh_every_s:
            due.append(max(self._refresh_ns, self._not_before_ns))
        return max(0.0, (min(due) - self._counted_ns()) / NS_PER_S) if due else None

    def _first(self) -> Group | None:
        waiting = self._outbox.waiting(self._target.name)
        return min(waiting, key=self._order, default=None)

    def _order(self, group: Group) -> tuple[bool, int, str]:
        planned = group.pending[0]
        tries = self._tries.get(planned.notification.notification_id, 0)
        return (tries >= TRIES_BEFORE_OTHERS, planned.planned_ns, group.key)

    async def _deliver(self, group: Group) -> None:
        planned = group.pending[0]
        try:
            message_ref = await self._target.send(planned.notification, group.message_ref)
        except TransientError as error:
            await self._note_failure(group, planned, error)
        except RejectedError as error:
            await self._refuse(group, planned, str(error))
        except Exception as error:  # a bug in one target must not stop the others
            log.exception("notification_failed_by_bug", **_fields(self._target, group), detail="retrying")
            await self._note_failure(group, planned, TransientError(f"a bug in epicenter: {type(error).__name__}"))
        else:
            self._note_success(planned)
            await self._outbox.record_sent(group, message_ref)

    async def _refuse(self, group: Group, planned: Planned, reason: str) -> None:
        self._note_success(planned)
        try:
            await self._outbox.record_refused(group, reason)
        except TransientError as error:
            log.warning("notification_refusal_not_kept", **_fields(self._target, group), error=str(error))
            self._pause(planned.notification.notification_id, None)

    def _note_success(self, planned: Planned) -> None:
        self._failures, self._not_before_ns = 0, 0
        self._tries.pop(planned.notification.notification_id, None)

    async def _note_failure(self, group: Group, planned: Planned, error: TransientError) -> None:
        notification_id = planned.notification.notification_id
        tries = self._tries[notification_id] = self._tries.get(notification_id, 0) + 1
        self._pause(notification_id, error.retry_after_s)
        if self._counted_ns() - planned.planned_ns > GIVE_UP_AFTER_NS:
            await self._refuse(
                group, planned, f"not accepted within {GIVE_UP_AFTER_NS // duration_ns('1d')} days: {error}"
            )
        elif tries == 1:
            await self._outbox.record_waits(group, str(error))

    def _pause(self, seed: str, retry_after_s: float | None) -> None:
        """Pause twice as long each time, a quarter more or less by the seed, at least as long as the target asks."""
        self._failures += 1
        chance = int(stable_id(seed, self._failures), 16) / 16**16
        pause_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10)) * (0.75 + chance / 2)
        pause_s = max(pause_s, min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))
        self._not_before_ns = self._counted_ns() + round(pause_s * NS_PER_S)

    async def _refresh(self) -> None:
        every_s, now_ns = self._target.refresh_every_s, self._counted_ns()
        if not every_s or now_ns < max(self._refresh_ns, self._not_before_ns):
            return
        self._refresh_ns = now_ns + round(every_s * NS_PER_S)
        groups = self._outbox.open_groups(self._target.name)
        still_open = [(group.last, group.message_ref) for group in groups if group.last and not group.pending]
        try:
            if still_open:
                await self._target.refresh(still_open)
        except TransientError as error:
            self._pause(self._target.name, error.retry_after_s)
        except RejectedError as error:
            log.error("target_refresh_refused", target=self._target.name, error=str(error))


def _fields(target: Target, group: Group) -> dict[str, str]:
    return {"target": target.name, "incident_id": group.pending[0].notification.incident.incident_id}
