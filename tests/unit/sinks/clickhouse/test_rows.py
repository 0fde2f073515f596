"""Records as columns."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.errors import DeadLetterKind, InvariantError
from epicenter.rules.model.heartbeats import Alive, Step
from epicenter.rules.model.incident import BlastRadius, ChainLink, Evidence, Incident, Progress, RootCause
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.rules.model.times import iso_ns
from epicenter.rules.packs.recorded import Recorded
from epicenter.sinks.clickhouse import rows as shapes
from epicenter.sinks.clickhouse.dead_letters import REPLAYS
from epicenter.sinks.clickhouse.migrate import read_migrations
from epicenter.sinks.clickhouse.rows import (
    DEAD_LETTERS,
    INCIDENT_REVISIONS,
    INCIDENTS,
    INT64_MAX,
    LIVENESS,
    MATCHES,
    Columns,
    Rows,
    dead_letter_rows,
    incident_revision_rows,
    incident_rows,
    liveness_rows,
    match_rows,
    search_text,
)
from epicenter.sinks.clickhouse.rows.incidents import MAX_SEARCH_LENGTH

MINUTE_NS = 60_000_000_000


class XidFacts(msgspec.Struct, frozen=True):
    failure_class: str = "gpu.fell_off_bus"
    severity: str = "critical"
    role: str = "root"
    source: str = "kernel"
    recorded_as: Recorded | None = None


def an_incident(
    incident_id: str = "00000000000000a1", revision: int = 1, title: str = "GPU fell off the bus"
) -> Incident:
    return Incident(
        incident_id=incident_id,
        revision=revision,
        status="open",
        failure_class="gpu.fell_off_bus",
        severity="critical",
        title=title,
        cluster="east",
        jobs=("4711",),
        nodes=("gpu-001", "gpu-002"),
        root_cause=RootCause(
            failure_class="gpu.fell_off_bus",
            rule="gpu.xid_79",
            node="gpu-001",
            rank=None,
            gpu="0000:3b:00",
            event_time="2026-03-02T09:00:01.123456789Z",
            confidence=0.9,
            reasons=("earliest",),
        ),
        chain=(
            ChainLink(
                event_time="2026-03-02T09:00:01.123456789Z",
                onset="2026-03-02T09:00:01.000000000Z",
                node="gpu-001",
                rank=None,
                failure_class="gpu.fell_off_bus",
                role="root",
                text="NVRM: Xid 79",
            ),
        ),
        blast_radius=BlastRadius(nodes=2, ranks=16, jobs=1),
        progress={"4711": Progress(last_step=120, last_step_time="2026-03-02T08:59:59.000000000Z", step_time_s=1.5)},
        first_seen="2026-03-02T09:00:01.123456789Z",
        last_seen="2026-03-02T09:10:01.000000001Z",
        signal_count=17,
        evidence=(
            Evidence(source="kern.log", line=3, node="gpu-001", failure_class="gpu.fell_off_bus", text="Xid 79"),
        ),
        next_steps=("Drain the node.",),
        action="drain",
    )


def a_match(text: str = "NVRM: Xid 79", rank: int | None = None, time_ns: int = MINUTE_NS, source: str = "") -> Match:
    event = LogEvent(time_ns, text, Position("logs.raw/3", 12), node="gpu-001", source=source, job="4711", rank=rank)
    return Match("00000000000000b1", "gpu.xid_79", event, {"pci": "0000:3b:00"})


def a_dead_letter(value: bytes = b"\xff\x00", key: bytes | None = None) -> DeadLetter:
    kind = DeadLetterKind.NOT_JSON
    return DeadLetter("00000000000000d1", "not JSON", Position("logs.raw/0", 7), len(value), value, key, 5, kind)


def as_dicts(rows: Rows) -> list[dict[str, object]]:
    return [dict(zip(rows.names, values, strict=True)) for values in zip(*rows.columns, strict=True)]


def test_incident_row_has_typed_columns_and_the_document() -> None:
    (row,) = as_dicts(incident_rows([an_incident()]))
    assert row["class"] == "gpu.fell_off_bus"
    assert row["nodes"] == ["gpu-001", "gpu-002"]
    assert row["root_rank"] is None
    assert row["first_seen"] == 1_772_442_001_123_456_789
    assert row["last_seen"] == 1_772_442_601_000_000_001
    document = json.loads(str(row["document"]))
    assert document["class"] == "gpu.fell_off_bus"
    assert msgspec.convert(document, Incident) == an_incident()


def test_newest_revision_is_the_state_and_every_revision_is_stored() -> None:
    incidents = [an_incident(revision=1), an_incident(revision=3), an_incident(revision=2)]
    assert [row["revision"] for row in as_dicts(incident_rows(incidents))] == [3]
    assert [row["revision"] for row in as_dicts(incident_revision_rows(incidents))] == [1, 3, 2]


@pytest.mark.parametrize(("own", "expected"), [("", "kernel"), ("worker", "worker")], ids=["rule's", "line's own"])
def test_match_row_has_its_rules_facts(own: str, expected: str) -> None:
    (row,) = as_dicts(match_rows([(a_match(source=own), XidFacts())]))
    assert (row["class"], row["severity"], row["role"]) == ("gpu.fell_off_bus", "critical", "root")
    assert row["source"] == expected
    assert row["fields"] == {"pci": "0000:3b:00"}
    assert (row["position_source"], row["position_offset"]) == ("logs.raw/3", 12)


def test_out_of_range_number_is_clamped() -> None:
    (row,) = as_dicts(match_rows([(a_match(rank=10**30, time_ns=-1), XidFacts())]))
    assert (row["rank"], row["event_time"]) == (INT64_MAX, 0)


def test_lone_surrogates_are_escaped() -> None:
    (row,) = as_dicts(match_rows([(a_match(text="bad \udc80 byte"), XidFacts())]))
    assert row["text"] == r"bad \udc80 byte"
    (row,) = as_dicts(incident_rows([an_incident(title="bad \udc80 byte")]))
    assert json.loads(str(row["document"]))["title"] == row["title"] == r"bad \udc80 byte"


def test_heartbeats_of_one_minute_become_one_row() -> None:
    heartbeats = [
        Alive(MINUTE_NS + 5, "east", "4711", "gpu-001"),
        Step(MINUTE_NS + 1, "east", "4711", "gpu-001", 12),
        Step(MINUTE_NS + 9, "east", "4711", "gpu-001", 11),
        Alive(2 * MINUTE_NS, "east", "4711", "gpu-001"),
    ]
    rows = liveness_rows(heartbeats)
    assert list(zip(*rows.columns, strict=True)) == [
        ("east", "4711", "gpu-001", 60, MINUTE_NS + 1, MINUTE_NS + 9, 12),
        ("east", "4711", "gpu-001", 120, 2 * MINUTE_NS, 2 * MINUTE_NS, None),
    ]


@given(st.permutations([Step(MINUTE_NS * n, "east", "4711", f"gpu-{n % 3}", n) for n in range(6)]))
def test_heartbeat_rows_do_not_depend_on_order(heartbeats: list[Step]) -> None:
    assert liveness_rows(heartbeats + heartbeats) == liveness_rows(
        sorted(heartbeats, key=lambda heartbeat: heartbeat.step)
    )


def test_dead_letter_row_keeps_its_bytes() -> None:
    (row,) = as_dicts(dead_letter_rows([a_dead_letter()]))
    assert row["kind"] == "not-json"
    assert (row["value"], row["key"], row["size_bytes"]) == (b"\xff\x00", None, 2)


@pytest.mark.parametrize("kind", ["", ',"kind":"of-a-newer-version"'])
def test_dead_letter_of_another_version_has_an_unknown_kind(kind: str) -> None:
    document = (
        '{"dead_letter_id":"d1","reason":"r","position":["logs.raw/0",7],"size_bytes":1,"value":"eA==","key":null,'
    )
    dead_letter = msgspec.json.decode(f'{document}"received_ns":5{kind}}}', type=DeadLetter)
    assert (dead_letter.value, dead_letter.kind) == (b"x", DeadLetterKind.UNKNOWN)


def test_no_records_give_no_rows() -> None:
    for rows in (incident_rows([]), match_rows([]), liveness_rows([]), dead_letter_rows([])):
        assert len(rows) == 0
        assert len(rows.columns) == len(rows.names) == len(rows.types)


def test_token_differs_for_different_rows() -> None:
    token = incident_rows([an_incident()]).token()
    assert incident_rows([an_incident()]).token() == token
    assert incident_rows([an_incident(title="another")]).token() != token
    assert incident_revision_rows([an_incident()]).token() != token


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-02T09:00:01.123456789Z", 1_772_442_001_123_456_789),
        ("2026-03-02T09:00:01.5Z", 1_772_442_001_500_000_000),
        ("2026-03-02T09:00:01+00:00", 1_772_442_001_000_000_000),
        ("2024-02-29T23:59:59.999999999Z", 1_709_251_199_999_999_999),
    ],
)
def test_iso_times_keep_nanoseconds(text: str, expected: int) -> None:
    assert iso_ns(text) == expected


@pytest.mark.parametrize(
    "text", ["", "2026-03-02", "2026-03-02T09:00:01", "2026-02-30T09:00:01Z", "2026-03-02T09:00:01.0123456789Z"]
)
def test_malformed_time_is_an_invariant_error(text: str) -> None:
    with pytest.raises(InvariantError, match="incident time"):
        iso_ns(text)


TABLES: dict[str, Columns] = {
    "incidents": INCIDENTS,
    "incident_revisions": INCIDENT_REVISIONS,
    "signals": shapes.SIGNALS,
    "matches": MATCHES,
    "liveness": LIVENESS,
    "progress": shapes.PROGRESS,
    "placements": shapes.PLACEMENTS,
    "capacity_events": shapes.CAPACITY_EVENTS,
    "measurements": shapes.MEASUREMENTS,
    "evidence_gaps": shapes.EVIDENCE_GAPS,
    "deliveries": shapes.DELIVERIES,
    "pipeline_metrics": shapes.PIPELINE_METRICS,
    "dead_letters": DEAD_LETTERS,
    "dead_letter_replays": REPLAYS,
}


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_in_the_migrations(table: str) -> None:
    statements = [statement.sql for migration in read_migrations() for statement in migration.statements]
    (created,) = [text for text in statements if text.startswith(f"CREATE TABLE IF NOT EXISTS {table}\n")]
    added = [text for text in statements if text.startswith(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS ")]
    for name, kind in TABLES[table]:
        assert any(f"\n    {name} " in text or f" EXISTS {name} " in text for text in (created, *added))
        assert any(kind in text for text in (created, *added))


def test_every_statement_is_repeatable() -> None:
    for migration in read_migrations():
        for statement in migration.statements:
            assert "IF NOT EXISTS" in statement.sql or "IF EXISTS" in statement.sql
            assert ";" not in statement.sql
            assert statement.why.endswith((".", ":"))


def test_evidence_is_searchable_with_thousands_of_nodes() -> None:
    nodes = tuple(f"node{number:05d}" for number in range(16_384))
    line = Evidence("kern.log", 9, "n1", "xid-79", "the line that proves it" + "x" * 10_000)
    words = search_text(msgspec.structs.replace(an_incident(), nodes=nodes, evidence=(line,)))
    assert "the line that proves it" in words and "node00007" in words
    assert len(words) == MAX_SEARCH_LENGTH
