"""Nothing lost, nothing accepted twice, in order: real HTTP, a real journal, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from time import time_ns

import pytest

from epicenter.rules.alerts.state import INCIDENT
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.notify.load import Alerts, load_alerts, webhook_alerts
from epicenter.stream.alerts.dispatcher import Dispatcher
from epicenter.stream.alerts.journal import FileJournal, Records
from epicenter.stream.alerts.target_queue import GIVE_UP_AFTER_NS
from tests.support.delivering import FakeLedger, Worker
from tests.support.planning import incident, resolved
from tests.support.receiver import Receiver
from tests.support.waiting import POLL_S

MINUTE_S = 60.0
Revisions = list[tuple[float, Incident]]
Notified = list[tuple[str, str]]


def story() -> Revisions:
    """Three incidents within half an hour, each of which grows and ends, notified in 5 kinds each."""
    revisions: Revisions = []
    for number in range(3):
        began_s, name = number * 400.0, f"i{number}"
        first, grown = incident(name), incident(name, nodes=30, signal_count=40)
        back = incident(name, nodes=30, signal_count=50, reopened=1)
        revisions += [(began_s, first), (began_s + 70, grown), (began_s + 200, resolved(grown))]
        revisions += [(began_s + 300, back), (began_s + 390, resolved(back))]
    return sorted(revisions, key=lambda revision: revision[0])


KINDS = ["opened", "updated", "resolved", "reopened", "resolved"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as receiver:
        yield receiver


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    try:
        yield worker
    finally:
        await worker.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The notifications of an undisturbed run: incident and kind, in order."""

    async def play(receiver: Receiver) -> None:
        async with working(Worker(webhook_alerts(receiver.url), tmp_path_factory.mktemp("undisturbed"))) as worker:
            await worker.play(story(), 60 * MINUTE_S)

    with Receiver().listening() as receiver:
        asyncio.run(play(receiver))
        assert len(receiver.accepted) == len(receiver.requests)
        return accepted_by(receiver)


def accepted_by(receiver: Receiver) -> list[tuple[str, str]]:
    """The incident and kind of each accepted id, in the order of first acceptance."""
    bodies = {body["notification_id"]: body for _, body in receiver.requests}
    return [(bodies[name]["incident"]["incident_id"], bodies[name]["kind"]) for name in receiver.accepted]


def test_an_undisturbed_run_delivers_every_change_once(undisturbed: Notified) -> None:
    assert [kind for name, kind in undisturbed if name == "i1"] == KINDS
    assert len(undisturbed) == 15


@pytest.mark.parametrize("fault", ["drop", "garbage", 500, 503, 429])
async def test_a_target_that_fails_for_half_an_hour_gets_everything_once_in_order(
    fault: str | int, receiver: Receiver, undisturbed: Notified, tmp_path: Path
) -> None:
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        receiver.before_answer = lambda _: fault if worker.clock.passed_s < 30 * MINUTE_S else None
        await worker.play(story(), 60 * MINUTE_S)
        assert (worker.pending, worker.starts) == (0, 1)
    assert accepted_by(receiver) == undisturbed
    assert len(set(receiver.accepted)) == len(receiver.accepted)
    assert len(receiver.requests) < 15 + 60, "it was not hammered meanwhile"
    waits = [pair for pair in worker.ledger.outcomes if pair[1] == "waits"]
    assert waits == [("opened", "waits")] * 3, "the first of each incident was tried, and its waiting is reported once"


async def test_retry_after_of_the_target_is_respected(receiver: Receiver, tmp_path: Path) -> None:
    receiver.headers = {"Retry-After": "600"}
    receiver.before_answer = lambda _: 429 if len(receiver.requests) == 1 else None
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        await worker.play(story()[:1], 599)
        assert len(receiver.requests) == 1
        await worker.play([], 601)
    assert len(receiver.accepted) == 1


async def test_a_refused_notification_is_given_up_and_the_next_is_delivered(receiver: Receiver, tmp_path: Path) -> None:
    receiver.before_answer = lambda body: 422 if body["kind"] == "opened" else None
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        await worker.play(story(), 60 * MINUTE_S)
    given_up = [(message.notification.kind, "422" in reason) for message, reason in worker.ledger.given_up]
    assert given_up == [("opened", True)] * 6, "each is asked again when it has grown"
    assert [kind for name, kind in accepted_by(receiver) if name == "i1"] == ["reopened", "resolved"]


async def test_a_notification_that_always_fails_lets_others_pass_and_is_given_up(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.before_answer = lambda body: 500 if body["incident"]["incident_id"] == "i0" else None
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        await worker.play(story(), 60 * MINUTE_S)
        assert {name for name, _ in accepted_by(receiver)} == {"i1", "i2"}
        worker.clock.passed_ns += GIVE_UP_AFTER_NS
        await worker.play([], GIVE_UP_AFTER_NS / NS_PER_S + 90 * MINUTE_S)
        assert worker.pending == 0
    assert {message.notification.incident.incident_id for message, _ in worker.ledger.given_up} == {"i0"}


async def test_notifications_are_sent_from_memory_while_the_journal_cannot_be_written(
    receiver: Receiver, tmp_path: Path
) -> None:
    alerts, file = webhook_alerts(receiver.url), tmp_path / "alerts.sqlite"
    journal = FileJournal(file)
    dispatcher = Dispatcher(alerts.routing, alerts.make_targets(time_ns), lambda _: False, journal, FakeLedger())
    await dispatcher.open()
    dispatcher.start()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await dispatcher.observe([(incident("i0"), Position("incidents/0", 1))])
        assert journal.fault == f"{file}: can't be written: database is locked"
        await asyncio.wait_for(delivered(receiver, 1), 20)
        other.execute("ROLLBACK")
    await dispatcher.close()
    assert journal.fault == ""
    assert INCIDENT + "i0" in await FileJournal(file).load(), "the next process knows what was sent"


class SlowJournal(FileJournal):
    """Writes once `may_write` is set."""

    def __init__(self, file: Path):
        super().__init__(file)
        self.may_write = asyncio.Event()

    async def write(self, records: Records) -> None:
        """Waits, then writes."""
        await self.may_write.wait()
        await super().write(records)


async def test_nothing_is_sent_before_it_is_stored(receiver: Receiver, tmp_path: Path) -> None:
    alerts, journal = webhook_alerts(receiver.url), SlowJournal(tmp_path / "alerts.sqlite")
    dispatcher = Dispatcher(alerts.routing, alerts.make_targets(time_ns), lambda _: False, journal, FakeLedger())
    await dispatcher.open()
    dispatcher.start()
    observing = asyncio.create_task(dispatcher.observe([(incident("i0"), Position("incidents/0", 1))]))
    async with asyncio.timeout(20):
        while not dispatcher.pending("webhook"):
            await asyncio.sleep(0)
    (queue,) = dispatcher.queues.values()
    await queue.step()
    assert receiver.requests == []
    journal.may_write.set()
    await observing
    await asyncio.wait_for(delivered(receiver, 1), 20)
    await dispatcher.close()


@pytest.mark.parametrize("status", [200, 422, 500])
async def test_deliveries_are_reported_later_when_the_delivery_log_fails(
    status: int, receiver: Receiver, tmp_path: Path
) -> None:
    alerts = webhook_alerts(receiver.url)
    receiver.status, ledger = status, FakeLedger()
    journal = FileJournal(tmp_path / "alerts.sqlite")
    dispatcher = Dispatcher(alerts.routing, alerts.make_targets(time_ns), lambda _: False, journal, ledger)
    await dispatcher.open()
    dispatcher.start()
    await dispatcher.observe([(incident("i0"), Position("incidents/0", 1))])
    ledger.is_unreachable = True
    async with asyncio.timeout(20):
        while not ledger.missed:
            await asyncio.sleep(POLL_S)
    ledger.is_unreachable, receiver.status = False, 200
    await dispatcher.observe([(incident("i1"), Position("incidents/0", 1))])
    await asyncio.wait_for(delivered(receiver, 2), 20)
    await dispatcher.close()
    assert {delivery.incident_id for delivery in ledger.deliveries if delivery.outcome == "sent"} == {"i0", "i1"}


async def test_a_target_removed_from_the_alerts_gets_no_further_message(receiver: Receiver, tmp_path: Path) -> None:
    alerts = two_targets(receiver, receiver, tmp_path / "alerts.yaml")
    async with working(Worker(alerts, tmp_path)) as worker:
        await worker.play([(0, incident("i0"))], 60)
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        await worker.play([(10, incident("i1"))], 24 * 60 * MINUTE_S)
    async with working(Worker(webhook_alerts(receiver.url), tmp_path)) as worker:
        await worker.play([], 0)
        assert worker.ledger.given_up == [], "nothing was pending for the removed target"


STEPS = range(1, 130, 7)
"""Every write of the journal is two steps: before it, and after."""


@pytest.mark.parametrize("first", STEPS)
async def test_a_target_gets_the_same_requests_when_the_process_is_killed_at_any_step(
    first: int, receiver: Receiver, undisturbed: Notified, tmp_path: Path
) -> None:
    steps = count(1)
    async with working(
        Worker(webhook_alerts(receiver.url), tmp_path, lambda: next(steps) in (first, first + 3))
    ) as worker:
        await worker.play(story(), 60 * MINUTE_S)
        starts = worker.starts
    ids = list(dict.fromkeys(body["notification_id"] for _, body in receiver.requests))
    bodies = {body["notification_id"]: body for _, body in receiver.requests}
    seen = [(bodies[name]["incident"]["incident_id"], bodies[name]["kind"]) for name in ids]
    assert seen == undisturbed
    assert starts > 1 or next(steps) < first


def two_targets(first: Receiver, second: Receiver, file: Path) -> Alerts:
    """Every incident goes to both."""
    file.write_text(
        "route: {targets: [first, second]}\n"
        f"targets:\n  first: {{type: webhook, url: '{first.url}'}}\n  second: {{type: webhook, url: '{second.url}'}}\n"
    )
    return load_alerts(file)


async def test_a_target_that_does_not_answer_does_not_delay_others(receiver: Receiver, tmp_path: Path) -> None:
    slow, release = Receiver(), threading.Event()
    slow.before_answer = lambda _: None if release.wait(30) else 500
    with slow.listening():
        alerts = two_targets(slow, receiver, tmp_path / "alerts.yaml")
        targets, journal = alerts.make_targets(time_ns), FileJournal(tmp_path / "alerts.sqlite")
        dispatcher = Dispatcher(alerts.routing, targets, lambda _: False, journal, FakeLedger())
        await dispatcher.open()
        dispatcher.start()
        for number in range(20):
            await dispatcher.observe([(incident(f"i{number}"), Position("incidents/0", number))])
        await asyncio.wait_for(delivered(receiver, 20), 20)
        assert slow.accepted == []
        release.set()
        await asyncio.wait_for(delivered(slow, 20), 20)
        await dispatcher.close()


async def delivered(receiver: Receiver, number: int) -> None:
    """Returns once the receiver accepted so many; the caller bounds the wait."""
    while len(receiver.accepted) < number:
        await asyncio.sleep(POLL_S)
