"""Writes what the version before would leave behind: `python -m tests.unit.compatibility.write FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from cramjam import zstd

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter, Delivery, Outcome, Sample
from epicenter.rules.model.records import Position
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.kafka.messages import Message, StoreMessage, encode
from epicenter.stream.services.partition import PartitionCorrelator
from tests.support.logs import at, the_rules
from tests.support.planning import SILENT_RULE, PlannerHarness, incident, resolved, routing, with_cause
from tests.unit.compatibility.reading import LATENESS_NS, ROUTING, SAID, rows_of_folder
from tests.unit.compatibility.story import SNAPSHOT_S, batches, matches_topic


def write(folder: Path) -> None:
    """All files."""
    messages = list(matches_topic())
    _write(folder / "matches.zst", [encode(message) for _, message in messages])
    number, snapshot = _snapshot(messages)
    (folder / f"snapshot_after_{number}.zst").write_bytes(bytes(zstd.compress(snapshot)))
    incidents, kept = _outcome([message for _, message in messages])
    _write(folder / "incidents.zst", [msgspec.json.encode(one) for one in incidents])
    _write(folder / "signals.zst", [encode(one) for one in kept])
    _write(folder / "dead_letters.zst", [msgspec.json.encode(one) for one in _dead_letters()])
    (folder / "rows.zst").write_bytes(bytes(zstd.compress(msgspec.json.encode(rows_of_folder(folder)))))
    (folder / "alerts.zst").write_bytes(bytes(zstd.compress(msgspec.msgpack.encode(_journal()))))


def _write(file: Path, values: list[bytes]) -> None:
    file.write_bytes(bytes(zstd.compress(msgspec.msgpack.encode(values))))


def _snapshot(messages: list[tuple[float, Message]]) -> tuple[int, bytes]:
    correlator = PartitionCorrelator(the_rules(), LATENESS_NS)
    for number, (second, message) in enumerate(messages):
        correlator.process(number, message)
        if second > SNAPSHOT_S:
            return number, correlator.snapshot()
    raise AssertionError


def _outcome(messages: list[Message]) -> tuple[list[Incident], list[StoreMessage]]:
    correlator, incidents, kept = PartitionCorrelator(the_rules(), LATENESS_NS), [], []
    for number, message in enumerate(messages):
        incidents += correlator.process(number, message)
        outcome = correlator.for_store()
        kept += [outcome] if outcome.signals or outcome.gaps else []
    delivery = Delivery(
        "d1", "chat", Outcome.PENDING, "i1", 1, "opened", "2026-03-02T09:00:01.000000000Z", "a silence", at(9)
    )
    sample = Sample(at(9) // NS_PER_S, "h:1", "epicenter_records_total", {"source": "local"}, 50.0)
    return incidents, [*kept, StoreMessage(deliveries=(delivery,)), StoreMessage(samples=(sample,))]


def _dead_letters() -> Iterator[DeadLetter]:
    for _, _, scanned, _ in batches():
        yield from scanned.dead_letters
    told = (
        (DeadLetterKind.EMPTY, "empty value"),
        (DeadLetterKind.TOO_LARGE, "too large: 1048577 bytes, the limit is 1048576"),
        (DeadLetterKind.CORRUPT_BATCH, "corrupt batch: its checksum is wrong"),
        (DeadLetterKind.NOT_OURS, "no message of ours: Invalid value"),
        (DeadLetterKind.NOTIFICATION_REFUSED, "pager: 400 Bad Request"),
    )
    for number, (kind, reason) in enumerate(told):
        yield DeadLetter.of(kind, reason, Position("logs.raw/0", 900 + number), b"x" * number, b"n1", at(number))


def _journal() -> dict[str, bytes]:
    """Incidents that are told, held, silenced, in maintenance, inhibited, acknowledged, over; one is on its way."""
    harness = PlannerHarness(routing(**ROUTING))
    harness.actions = SAID
    harness.process(incident("told"), incident("acked"), incident("over", jobs=("A",)))
    harness.process(with_cause(incident("silenced"), node="n2"), with_cause(incident("maintained"), node="n9"))
    harness.process(with_cause(incident("cause", severity="critical"), node="n4"))
    harness.process(with_cause(incident("effect", severity="warning"), node="n4"))
    harness.process(resolved(incident("over", jobs=("A",)))).wait(300)
    harness.process(incident("told", nodes=30), with_cause(incident("refuted"), rule=SILENT_RULE), after_s=1)
    harness.observe(with_cause(incident("held"), rule=SILENT_RULE))
    harness.observe(incident("pending"))
    harness.planner.advance(harness.context())
    harness.save()
    return harness.records


if __name__ == "__main__":
    write(Path(sys.argv[1]))
