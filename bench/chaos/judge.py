"""The outcome of a settled pipeline, compared with the calm run and with what was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

import msgspec

from bench.chaos.pipeline import Pipeline, digest
from epicenter.ingest.parse.envelope import check_envelope, text_of
from epicenter.rules.errors import RecordError
from epicenter.rules.model.incident import Incident
from epicenter.stream.scan.validation import MAX_RECORD_BYTES
from tests.support.waiting import POLL_S

SHOWN: Final = 4
NOTIFIED_WITHIN_S: Final = 90.0
COUNTED: Final = ("records", "matched_records", "quiet_records", "dead_letters")


@dataclass(frozen=True)
class Outcome:
    """The sets that must be the same under every attack.

    An incident's document is compared without what depends on timing and on which copy of a line came first: the
    revision (a tick reports whatever changed since the tick before), the history of the revisions, and the positions
    of the evidence.
    """

    incidents: Mapping[str, Mapping[str, Any]]
    rows: frozenset[str]
    dead_letters: int

    @classmethod
    def of(cls, pipeline: Pipeline) -> Outcome:
        """The stored outcome."""
        documents = [json.loads(document) for (document,) in pipeline.query("SELECT document FROM incidents FINAL")]
        columns = "* EXCEPT (position_source, position_offset, stored)"
        rows = pipeline.query(f"SELECT {columns} FROM matches FINAL")
        ((dead_letters,),) = pipeline.query("SELECT count() FROM dead_letters FINAL")
        return cls(
            {document["incident_id"]: _comparable(document) for document in documents},
            frozenset(map(repr, rows)),
            dead_letters,
        )

    def __str__(self) -> str:
        return f"{len(self.incidents)} incidents, {len(self.rows)} rows, {self.dead_letters} dead letters"


def differences(calm: Outcome, attacked: Outcome) -> list[str]:
    """The differences between two outcomes, in words."""
    found = _set_differences("incident", calm.incidents, attacked.incidents) + _set_differences(
        "row", calm.rows, attacked.rows
    )
    for name in sorted(calm.incidents.keys() & attacked.incidents.keys()):
        was, is_now = calm.incidents[name], attacked.incidents[name]
        found += [
            f"incident {name}: {field}: calm {was.get(field)!r:.300}, attacked {is_now.get(field)!r:.300}"
            for field in sorted(was.keys() | is_now.keys())
            if was.get(field) != is_now.get(field)
        ]
    return found


def accounting_faults(pipeline: Pipeline) -> list[str]:
    """Records without the row or dead letter that they need, and rows and dead letters that fit no record."""
    dead_letters = pipeline.query("SELECT position_source, position_offset, size_bytes FROM dead_letters FINAL")
    dead = {(source, offset): size_bytes for source, offset, size_bytes in dead_letters}
    wanted = {place: len(value or b"") for place, value in pipeline.account.items() if is_poison(value)}
    found = _set_differences("dead letter", wanted, dead)
    found += [f"dead letter {at}: {size} bytes" for at, size in dead.items() if wanted.get(at, size) != size][:SHOWN]
    for source, offset, text in pipeline.query("SELECT position_source, position_offset, text FROM matches FINAL"):
        value = pipeline.account.get((source, offset))
        if source.startswith(pipeline.cluster.raw_topic) and (value is None or text_of(value).rstrip("\r\n") != text):
            found.append(f"row of {source}@{offset} is not record {digest(value)}: {text[:200]!r}")
    return found + unbalanced(pipeline) + notification_faults(pipeline)


def notification_faults(pipeline: Pipeline) -> list[str]:
    """Incidents whose opening or end was not notified, and notifications of incidents that are not stored.

    The calm run may notify others: an incident that is merged or resolved within its grace period is never notified.
    One that reopens within a minute of the last message is notified a minute after it.
    """
    end_s = monotonic() + NOTIFIED_WITHIN_S
    while (found := _wrongly_notified(pipeline)) and monotonic() < end_s:
        sleep(POLL_S)
    return found


def _wrongly_notified(pipeline: Pipeline) -> list[str]:
    documents = pipeline.query("SELECT document FROM incidents FINAL")
    incidents = {
        incident.incident_id: incident
        for incident in (msgspec.json.decode(text, type=Incident) for (text,) in documents)
    }
    notified = {body["incident"]["incident_id"]: body["kind"] for _, body in pipeline.receiver.requests}
    found = [
        f"notified of an incident that is not stored: {name}" for name in sorted(notified.keys() - incidents.keys())
    ]
    for name, incident in sorted(incidents.items()):
        is_open_at_target = notified.get(name, "resolved") != "resolved"
        if is_open_at_target != (incident.status == "open"):
            found.append(f"{incident.status}, but last notified as {notified.get(name)!r}: {name}")
    return found


def unbalanced(pipeline: Pipeline) -> list[str]:
    """Workers whose records in are not matched + quiet + dead."""
    rows = [[worker.metric(f"epicenter_{name}_total") for name in COUNTED] for worker in pipeline.workers]
    return [
        f"a worker's counts: {dict(zip(COUNTED, counts, strict=True))}"
        for counts in rows
        if counts[0] != sum(counts[1:])
    ]


def is_poison(value: bytes | None) -> bool:
    """Whether this record has to become a dead letter."""
    if not value or len(value) > MAX_RECORD_BYTES:
        return True
    try:
        check_envelope(value)
    except RecordError:
        return True
    return False


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    evidence = [{**line, "source": "", "line": 0} for line in document["evidence"]]
    return {**document, "evidence": evidence, "revision": 0, "history": []}


def _set_differences(what: str, wanted: Iterable[Hashable], found: Iterable[Hashable]) -> list[str]:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    listed = [f"{what} missing: {entry!r:.500}" for entry in sorted(missing, key=repr)[:SHOWN]]
    listed += [f"{what} too many: {entry!r:.500}" for entry in sorted(extra, key=repr)[:SHOWN]]
    counts = Counter(missing=len(missing), too_many=len(extra))
    return [*listed, f"{what}s: {dict(counts)}"] if listed else []
