"""A step of the wall clock neither delays nor gives up a notification: waits are measured in time that elapses."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epicenter.rules.model.incident import Incident
from epicenter.sinks.notify.load import Alerts, load_alerts
from tests.support.delivering import Worker
from tests.support.planning import SILENT_RULE, incident, with_cause
from tests.support.receiver import Receiver

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86_400.0
steps = pytest.mark.parametrize("days", [1, -1, 4, -4])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as receiver:
        yield receiver


class Timed(Worker):
    """A worker that notes when each request arrives."""

    def __init__(self, alerts: Alerts, folder: Path, receiver: Receiver):
        super().__init__(alerts, folder)
        self.arrived_s: list[float] = []
        self.answer: str | int | None = None
        receiver.before_answer = self._note

    def _note(self, _: dict[str, Any]) -> str | int | None:
        self.arrived_s.append(round(self.clock.passed_s, 3))
        return self.answer

    async def restart(self) -> None:
        """End the process, and start the next one."""
        await self.close()
        self._dispatcher = None

    async def play_with_step(self, first: Incident, step_s: float, days: float, until_s: float) -> None:
        """The incident at 0 s, a step of the wall clock at `step_s`, then time until `until_s`."""
        await self.play([(0, first)], step_s)
        self.clock.step(days)
        await self.play([], until_s)


def alerts_with(receiver: Receiver, folder: Path, route: str) -> Alerts:
    """One webhook, with these keys in its route."""
    file = folder / "alerts.yaml"
    file.write_text(f"route: {{targets: [hook]{route}}}\ntargets:\n  hook: {{type: webhook, url: '{receiver.url}'}}\n")
    return load_alerts(file)


@asynccontextmanager
async def timed(receiver: Receiver, folder: Path, route: str = "") -> AsyncIterator[Timed]:
    worker = Timed(alerts_with(receiver, folder, route), folder, receiver)
    try:
        yield worker
    finally:
        await worker.close()


@steps
async def test_a_pause_ends_after_its_time_whatever_the_wall_clock_shows(
    days: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path) as worker:
        worker.answer = 503
        await worker.play([(0, incident("i0"))], 10 * MINUTE_S)
        worker.clock.step(days)
        await worker.play([], 12 * MINUTE_S)
        worker.answer = None
        await worker.play([], 14 * MINUTE_S)
        assert (worker.pending, worker.ledger.given_up, len(receiver.accepted)) == (0, [], 1)
        pauses_s = [later - earlier for earlier, later in pairwise(worker.arrived_s[-5:])]
        assert all(45 <= pause_s <= 75 for pause_s in pauses_s), pauses_s


@steps
async def test_a_notification_is_given_up_after_three_days_of_failures_not_of_the_wall_clock(
    days: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path) as worker:
        worker.answer = 503
        await worker.play_with_step(incident("i0"), MINUTE_S, days, DAY_S)
        worker.clock.passed_ns += round(1.9 * DAY_S * 1e9)
        await worker.play([], 2.95 * DAY_S)
        assert worker.ledger.given_up == []
        await worker.play([], 3.01 * DAY_S)
        assert len(worker.ledger.given_up) == 1


@steps
@pytest.mark.parametrize(
    ("route", "step_s", "leaves_s"),
    [
        (", group_wait: 5m", MINUTE_S, [5 * MINUTE_S]),
        (", repeat_interval: 4h", HOUR_S, [0.0, 4 * HOUR_S]),
        (", escalate: [{after: 15m, targets: [hook]}]", 5 * MINUTE_S, [0.0, 15 * MINUTE_S]),
    ],
    ids=["group-wait", "repeat", "escalation"],
)
async def test_a_message_leaves_at_the_counted_moment(
    route: str, step_s: float, leaves_s: list[float], days: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path, route) as worker:
        await worker.play_with_step(incident("i0"), step_s, days, leaves_s[-1] - 1)
        assert worker.arrived_s == leaves_s[:-1]
        await worker.play([], leaves_s[-1])
        assert worker.arrived_s == leaves_s


@steps
async def test_a_grace_period_has_its_length(days: float, receiver: Receiver, tmp_path: Path) -> None:
    async with timed(receiver, tmp_path) as worker:
        await worker.play_with_step(with_cause(incident("i0"), rule=SILENT_RULE), 10, days, 19)
        assert worker.arrived_s == []
        await worker.play([], 20)
        assert worker.arrived_s == [20]
        assert worker.ledger.outcomes == [("opened", "held"), ("opened", "sent")]


@steps
async def test_an_update_waits_for_its_interval(days: float, receiver: Receiver, tmp_path: Path) -> None:
    async with timed(receiver, tmp_path, ", update_interval: 10m") as worker:
        await worker.play_with_step(incident("i0"), MINUTE_S, days, 2 * MINUTE_S)
        await worker.play([(3 * MINUTE_S, incident("i0", nodes=40, signal_count=9))], 10 * MINUTE_S - 1)
        assert worker.arrived_s == [0]
        await worker.play([], 10 * MINUTE_S)
        assert worker.arrived_s == [0, 10 * MINUTE_S]


@steps
async def test_a_wait_continues_after_a_restart_with_the_time_that_remains(
    days: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path, ", group_wait: 5h") as worker:
        await worker.play([(0, incident("i0"))], HOUR_S)
        await worker.restart()
        worker.clock.step(days)
        worker.clock.passed_ns += round(90 * MINUTE_S * 1e9)
        await worker.play([], 5 * HOUR_S - 1)
        assert worker.arrived_s == []
        await worker.play([], 5 * HOUR_S)
        assert worker.arrived_s == [5 * HOUR_S]


@pytest.mark.parametrize(("days", "counted_s"), [(1, HOUR_S), (4, HOUR_S), (-1, 0), (-4, 0)])
async def test_after_a_reboot_the_wall_clock_counts_for_an_hour_at_most(
    days: float, counted_s: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path, ", group_wait: 5h") as worker:
        await worker.play([(0, incident("i0"))], HOUR_S)
        await worker.restart()
        worker.clock.reboot()
        worker.clock.step(days)
        await worker.play([], 5 * HOUR_S - counted_s - 1)
        assert worker.arrived_s == []
        await worker.play([], 5 * HOUR_S - counted_s)
        assert worker.arrived_s == [5 * HOUR_S - counted_s]


async def test_a_process_killed_every_minute_gets_to_the_end_of_a_wait(receiver: Receiver, tmp_path: Path) -> None:
    async with timed(receiver, tmp_path, ", group_wait: 5h") as worker:
        await worker.play([(0, incident("i0"))], 0)
        for minute in range(1, 301):
            await worker.kill()
            worker.clock.reboot()
            await worker.play([], minute * MINUTE_S)
        assert worker.arrived_s == [5 * HOUR_S]


@steps
async def test_a_journal_of_an_older_version_which_holds_dates_continues(
    days: float, receiver: Receiver, tmp_path: Path
) -> None:
    async with timed(receiver, tmp_path, ", repeat_interval: 4h") as worker:
        await worker.play([(0, incident("i0"))], HOUR_S)
        await worker.restart()
        write_as_before(tmp_path / "alerts.sqlite")
        worker.clock.step(days)
        await worker.play([], 5 * HOUR_S)
        repeated_s = worker.arrived_s[1]
        assert 3 * HOUR_S <= repeated_s <= 5 * HOUR_S


def write_as_before(journal: Path) -> None:
    """Take from a journal what older versions did not write."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("DELETE FROM records WHERE key = 'clock'")
        for key, value in connection.execute("SELECT key, value FROM records WHERE key LIKE 'incident/%'").fetchall():
            document = msgspec.json.decode(value)
            document.pop("since_counted_ns", None)
            connection.execute("UPDATE records SET value = ? WHERE key = ?", (msgspec.json.encode(document), key))
