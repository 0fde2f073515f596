"""What a settled pipeline holds, and what is wrong with it: beside the calm run, and beside what was sent."""

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
TOLD_WITHIN_S: Final = 90.0
BOOKS: Final = ("records", "matched_records", "quiet_records", "dead_letters")


@dataclass(frozen=True)
class Outcome:
    """The sets that must be the same however the pipeline was treated.

    Of an incident's document, what is left out depends on when somebody looked and which copy of a line came first:
    the revision, since a tick tells of an incident whatever changed since the tick before it, the history of those
    revisions, and the positions of its evidence.
    """

    incidents: Mapping[str, Mapping[str, Any]]
    rows: frozenset[str]
    dead_letters: int

    @classmethod
    def of(cls, pipeline: Pipeline) -> Outcome:
        """What the store holds."""
        documents = [json.loads(one) for (one,) in pipeline.query("SELECT document FROM incidents FINAL")]
        columns = "* EXCEPT (position_source, position_offset, stored)"
        rows = pipeline.query(f"SELECT {columns} FROM matches FINAL")
        ((dead_letters,),) = pipeline.query("SELECT count() FROM dead_letters FINAL")
        return cls(
            {one["incident_id"]: _comparable(one) for one in documents}, frozenset(map(repr, rows)), dead_letters
        )

    def __str__(self) -> str:
        return f"{len(self.incidents)} incidents, {len(self.rows)} rows, {self.dead_letters} dead letters"


def differences(calm: Outcome, attacked: Outcome) -> list[str]:
    """What one has and the other has not, in words."""
    found = _apart("incident", calm.incidents, attacked.incidents) + _apart("row", calm.rows, attacked.rows)
    for name in sorted(calm.incidents.keys() & attacked.incidents.keys()):
        was, is_now = calm.incidents[name], attacked.incidents[name]
        found += [
            f"incident {name}: {field}: calm {was.get(field)!r:.300}, attacked {is_now.get(field)!r:.300}"
            for field in sorted(was.keys() | is_now.keys())
            if was.get(field) != is_now.get(field)
        ]
    return found


def misbooked(pipeline: Pipeline) -> list[str]:
    """Records that became nothing they should, and rows and dead letters that are no true account of a record."""
    dead_letters = pipeline.query("SELECT position_source, position_offset, size_bytes FROM dead_letters FINAL")
    dead = {(source, offset): size_bytes for source, offset, size_bytes in dead_letters}
    wanted = {place: len(value or b"") for place, value in pipeline.account.items() if is_poison(value)}
    found = _apart("dead letter", wanted, dead)
    found += [f"dead letter {at}: {size} bytes" for at, size in dead.items() if wanted.get(at, size) != size][:SHOWN]
    for source, offset, text in pipeline.query("SELECT position_source, position_offset, text FROM matches FINAL"):
        value = pipeline.account.get((source, offset))
        if source.startswith(pipeline.cluster.raw_topic) and (value is None or text_of(value).rstrip("\r\n") != text):
            found.append(f"row of {source}@{offset} is not record {digest(value)}: {text[:200]!r}")
    return found + unbalanced(pipeline) + mistold(pipeline)


def mistold(pipeline: Pipeline) -> list[str]:
    """Incidents that people should have heard of, or of whose end, and did not; and those that are nowhere.

    The calm run may tell others: of what is merged or over before its grace is, nobody hears. What came back within a
    minute of the last message is told a minute after that one.
    """
    end_s = monotonic() + TOLD_WITHIN_S
    while (found := _untold(pipeline)) and monotonic() < end_s:
        sleep(POLL_S)
    return found


def _untold(pipeline: Pipeline) -> list[str]:
    documents = pipeline.query("SELECT document FROM incidents FINAL")
    incidents = {one.incident_id: one for one in (msgspec.json.decode(text, type=Incident) for (text,) in documents)}
    heard = {body["incident"]["incident_id"]: body["kind"] for _, body in pipeline.receiver.requests}
    found = [f"told of an incident that is nowhere: {name}" for name in sorted(heard.keys() - incidents.keys())]
    for name, incident in sorted(incidents.items()):
        is_thought_open = heard.get(name, "resolved") != "resolved"
        if is_thought_open != (incident.status == "open"):
            found.append(f"{incident.status}, but last heard of as {heard.get(name)!r}: {name}")
    return found


def unbalanced(pipeline: Pipeline) -> list[str]:
    """Workers whose records in are not matched + quiet + dead."""
    books = [[worker.metric(f"epicenter_{name}_total") for name in BOOKS] for worker in pipeline.workers]
    return [f"a worker's books: {dict(zip(BOOKS, one, strict=True))}" for one in books if one[0] != sum(one[1:])]


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


def _apart(what: str, wanted: Iterable[Hashable], found: Iterable[Hashable]) -> list[str]:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    told = [f"{what} missing: {one!r:.500}" for one in sorted(missing, key=repr)[:SHOWN]]
    told += [f"{what} too many: {one!r:.500}" for one in sorted(extra, key=repr)[:SHOWN]]
    counts = Counter(missing=len(missing), too_many=len(extra))
    return [*told, f"{what}s: {dict(counts)}"] if told else []
