"""A dispatcher with a real journal and real HTTP, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from aiokafka.errors import KafkaConnectionError

from epicenter.rules.alerts.counted_time import ClockReading
from epicenter.rules.alerts.state import Planned
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.load import Alerts
from epicenter.sinks.notify.target import Target
from epicenter.stream.alerts.dispatcher import Dispatcher
from epicenter.stream.alerts.journal import FileJournal, Records
from tests.support.planning import NOW_NS, SILENT_RULE


class Clock:
    """The clocks of a machine: time passes on both, and `step` sets only that of the wall."""

    def __init__(self) -> None:
        self.passed_ns = 0
        self._stepped_ns = 0
        self._boots = 0

    def __call__(self) -> int:
        """Nanoseconds since the epoch."""
        return NOW_NS + self.passed_ns + self._stepped_ns

    def step(self, days: float) -> None:
        """Set the clock of the wall forward, or back."""
        self._stepped_ns += round(days * 86_400 * NS_PER_S)

    def reboot(self) -> None:
        """The machine starts again: only the wall clock still shows how much time has passed."""
        self._boots += 1

    def read(self) -> ClockReading:
        """Both clocks."""
        return ClockReading(self(), self.passed_ns, f"boot {self._boots}")

    @property
    def passed_s(self) -> float:
        """Since the beginning."""
        return self.passed_ns / NS_PER_S


class Killed(BaseException):
    """The process is gone, as after kill -9."""


class MortalJournal(FileJournal):
    """A journal whose process is killed at some of its writes: before, or right after."""

    def __init__(self, file: Path, kill: Callable[[], bool]):
        super().__init__(file)
        self._kill = kill

    async def write(self, records: Records) -> None:
        """Write, or be killed before or after."""
        if self._kill():
            raise Killed
        await super().write(records)
        if self._kill():
            raise Killed


class FakeLedger:
    """The outcomes of notifications; every write fails while it `is_unreachable`."""

    def __init__(self) -> None:
        self.is_unreachable = False
        self.missed = 0
        self.deliveries: list[Delivery] = []
        self.given_up: list[tuple[Planned, str]] = []

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Kind and outcome of each delivery."""
        return [(delivery.kind, delivery.outcome) for delivery in self.deliveries]

    async def report(self, deliveries: Sequence[Delivery]) -> None:
        """Store it."""
        self._check_reachable()
        self.deliveries += deliveries

    async def give_up(self, planned: Planned, reason: str) -> None:
        """Store it."""
        self._check_reachable()
        self.given_up.append((planned, reason))

    def count(self, delivery: Delivery) -> None:
        """Nothing is counted here."""

    def _check_reachable(self) -> None:
        if self.is_unreachable:
            self.missed += 1
            raise KafkaConnectionError


class Worker:
    """Processes revisions at their times, and restarts after each kill."""

    def __init__(self, alerts: Alerts, folder: Path, kill: Callable[[], bool] = lambda: False):
        self.clock = Clock()
        self.ledger = FakeLedger()
        self.starts = 0
        self._alerts = alerts
        self._file = folder / "alerts.sqlite"
        self._kill = kill
        self._dispatcher: Dispatcher | None = None
        self._targets: Mapping[str, Target] = {}

    async def play(self, revisions: Iterable[tuple[float, Incident]], until_s: float) -> None:
        """Revisions, each at its second; then continue until all is delivered, or until `until_s`."""
        for at_s, incident in revisions:
            await self._pass_time(at_s)
            position = Position("incidents/0", incident.revision)
            while not await self._survives(
                lambda dispatcher, revision=(incident, position): dispatcher.observe([revision])
            ):
                pass
        await self._pass_time(until_s)

    async def close(self) -> None:
        """End it."""
        if self._dispatcher:
            await self._dispatcher.close()

    async def kill(self) -> None:
        """Leave only the journal, as after kill -9."""
        self._dispatcher = None
        await self._close_sockets()

    @property
    def pending(self) -> int:
        """How many notifications still wait."""
        dispatcher = self._dispatcher
        return sum(map(dispatcher.pending, dispatcher.queues)) if dispatcher else 0

    async def _pass_time(self, until_s: float) -> None:
        while True:
            next_s = until_s
            if await self._survives(_deliver) and self._dispatcher:
                due = [queue.wait_s for queue in self._dispatcher.queues.values()]
                next_s = min([until_s, *(self.clock.passed_s + wait_s for wait_s in due if wait_s)])
                if self.clock.passed_s >= until_s:
                    return
            self.clock.passed_ns = max(self.clock.passed_ns + 1, round(next_s * NS_PER_S))

    async def _survives(self, act: Callable[[Dispatcher], object]) -> bool:
        try:
            if self._dispatcher is None:
                self.starts += 1
                journal = MortalJournal(self._file, self._kill)
                self._targets = self._alerts.make_targets(self.clock)
                rules = self._alerts.routing
                opened = Dispatcher(rules, self._targets, _is_liveness, journal, self.ledger, self.clock.read)
                await opened.open()
                self._dispatcher = opened
            await act(self._dispatcher)  # type: ignore[misc]
        except Killed:
            await self.kill()
            return False
        return True

    async def _close_sockets(self) -> None:
        """The kernel closes those of a killed process."""
        for target in self._targets.values():
            await target.close()


async def _deliver(dispatcher: Dispatcher) -> None:
    await dispatcher.evaluate()
    for queue in dispatcher.queues.values():
        await queue.step()


def _is_liveness(incident: Incident) -> bool:
    return incident.root_cause.rule == SILENT_RULE
