"""`epicenter explain` and `epicenter logs` on a real store: every reference of a pack leads to the line itself."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from mcp import Client, StdioServerParameters

from deploy.dev.process import EPICENTER, free_ports
from epicenter.rules.errors import InputError, TransientError
from epicenter.sinks.clickhouse.client import Client as StoreClient
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.evidence.reference import LineReference, PartReference, parse, part_of
from epicenter.sinks.evidence.render import as_json
from epicenter.stream.cli.main import main
from epicenter.stream.load_settings import load_settings
from epicenter.stream.store.evidence import query, stored_incident, stored_pack
from epicenter.stream.store.lines import Around, find
from tests.support.cluster import with_admin
from tests.support.evidence import Stored, store_failure
from tests.support.serving import epicenter
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

ALONE = Around(0, 0)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """The command in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epicenter", *map(str, arguments)])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        return int(code or 0), out.decode(), err.decode()

    return call


@pytest.fixture(scope="module")
def stored(clickhouse: Any, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    dsn = urlsplit(clickhouse.dsn)._replace(path="/handover").geturl()
    return store_failure(dsn, tmp_path_factory.mktemp("handover"))


@pytest.fixture
def client(stored: Stored) -> Iterator[StoreClient]:
    client = connect(stored.settings.store_dsn)
    yield client
    client.close()


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {reference for name, reference in value.items() if name.endswith("reference") or name == "line"}.union(
            *map(references, value.values())
        )
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_reference_of_a_pack_resolves_to_its_line(stored: Stored) -> None:
    pack = stored_pack(stored.settings, stored.incident_id[:6])
    decoded = json.loads(as_json(pack))
    found = {reference: find(stored.settings, reference, ALONE) for reference in references(decoded)}
    assert len(found) > 15 and {record.found_in for record in found.values()} == {"file", "incident"}
    shown = {line["reference"]: line["untrusted_log_lines"] for line in decoded["lines"]}
    of_files = {reference: texts for reference, texts in shown.items() if found[reference].found_in == "file"}
    assert len(of_files) > 5
    for reference, texts in of_files.items():
        text = next(text for text in texts if text.split("…")[0] in found[reference].lines[0].untrusted_log_text)
        place = parse(reference)
        assert isinstance(place, LineReference)
        assert text.split("…")[0][:40] in Path(place.source).read_text().splitlines()[place.number - 1]


def test_the_same_stored_incident_gives_the_same_bytes(stored: Stored, command: Any) -> None:
    first = as_json(stored_pack(stored.settings, "newest"))
    assert as_json(stored_pack(stored.settings, stored.incident_id)) == first
    code, shown, _ = command("explain", "newest", "--format", "json", "--store", stored.settings.store_dsn)
    assert (code, shown.encode()) == (0, first)


def test_ranks_are_grouped_by_their_first_signal(stored: Stored, client: StoreClient) -> None:
    ranks = stored_pack(stored.settings, "newest").ranks
    (of_signals,) = client.query(
        "SELECT uniqExact(job, rank) FROM signals FINAL WHERE incident_id = {id:String} AND rank IS NOT NULL",
        {"id": stored.incident_id},
    )
    assert sum(group.count for group in ranks) == of_signals[0]
    assert max(group.count for group in ranks) > 1 and all(group.reference for group in ranks)


def test_a_line_whose_file_is_gone_comes_from_the_store(stored: Stored) -> None:
    reference = stored_pack(stored.settings, "newest").verdict.line
    there = find(stored.settings, reference, ALONE).lines[0].untrusted_log_text
    place = parse(reference)
    assert isinstance(place, LineReference)
    moved = Path(place.source).rename(f"{place.source}.gone")
    try:
        found = find(stored.settings, reference, Around(3, 3))
        assert (found.found_in, "match a rule" in found.note) == ("store", True)
        assert [line.untrusted_log_text for line in found.lines if line.is_wanted] == [there]
    finally:
        moved.rename(place.source)


def test_the_store_answers_when_a_file_has_changed(stored: Stored) -> None:
    incident = stored_incident(stored.settings, "newest")
    number, line = next((n, line) for n, line in enumerate(incident.evidence) if line.failure_class == "xid-79")
    file = Path(line.source)
    before = file.read_bytes()
    file.write_bytes(b"another day\n" * 2_000)
    try:
        reference = f"incident:{incident.incident_id}@{incident.revision}#/evidence/{number}"
        found = find(stored.settings, reference, ALONE)
        assert (found.found_in, found.lines[0].untrusted_log_text) == ("store", line.text)
        by_place = find(stored.settings, f"{line.source}:{line.line}", ALONE, expected=line.text)
        assert (by_place.found_in, by_place.lines) == ("store", found.lines)
    finally:
        file.write_bytes(before)


def test_a_reference_to_missing_logs_shows_the_silence_and_progress(stored: Stored) -> None:
    pack = stored_pack(stored.settings, "newest")
    (reference,) = {event.reference for event in pack.timeline if event.failure_class == "hang"}
    found = find(stored.settings, reference, ALONE)
    place = parse(reference)
    assert isinstance(place, PartReference)
    assert found.facts["silence"] == part_of(stored_incident(stored.settings, "newest"), place.path)
    assert "no step after step" in found.facts["silence"]["text"] and found.facts["progress"]


def test_a_signal_is_found_by_its_id(stored: Stored, client: StoreClient) -> None:
    signals = client.query("SELECT signal_id, class, text FROM signals WHERE class IN ('hang', 'xid-79') LIMIT 50")
    for signal_id, failure_class, text in signals:
        found = find(stored.settings, f"signal:{signal_id}", ALONE)
        assert found.facts["class"] == failure_class
        assert found.found_in == ("store" if failure_class == "hang" else "file")
        assert text in found.lines[0].untrusted_log_text
    assert {failure_class for _, failure_class, _ in signals} == {"hang", "xid-79"}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nothing.log:7", "no such file on this machine; the store has no match there"),
        ("signal:none", "no such signal in the store"),
        ("incident:ffffffffffff", "no such incident"),
        ("incident:newest#/chain/9999", "no such part"),
        ("incident:newest@999999", "no revision 999999"),
    ],
)
def test_an_unknown_reference_is_refused_with_the_reason(stored: Stored, reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(stored.settings, reference, ALONE)


def test_exit_codes_of_logs(stored: Stored, command: Any) -> None:
    given = ("--store", stored.settings.store_dsn)
    assert command("logs", "nothing.log:7", *given)[0] == 66
    assert command("logs", "nothing", *given)[0] == 2
    assert command("logs", "incident:newest#/cost", *given, "--json")[0] == 0
    code, _, errors = command("explain", "abc", "--data-dir", stored.logs / "none")
    assert (code, "no store here yet" in errors, (stored.logs / "none").exists()) == (66, True, False)


def test_log_text_is_sanitized_on_a_terminal(stored: Stored, command: Any) -> None:
    (stored.logs / "hostile.log").write_bytes(b"one\n\x1b[31mtwo\xe2\x80\xae\nthree\n")
    code, shown, errors = command("logs", f"{stored.logs}/hostile.log:2", "--before", 1, "--after", 1)
    assert (code, shown) == (0, "  1  one\n> 2  \\x1b[31mtwo\\u202e\n  3  three\n")
    assert "from: file" in errors


def test_a_raw_line_is_shown_redacted(tmp_path: Path, command: Any) -> None:
    log = tmp_path / "job.log"
    log.write_text("+ export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567\n")
    code, out, _ = command("logs", f"{log}:1", "--raw", "--data-dir", tmp_path)
    assert (code, "0123456789abcdef" in out) == (0, False)
    assert "WANDB_API_KEY=[redacted:" in out


def test_an_incident_in_a_file_needs_no_store(stored: Stored, command: Any) -> None:
    file = stored.logs / "incident.json"
    document = json.loads(msgspec.json.encode(stored_incident(stored.settings, "newest")))
    file.write_text(json.dumps(document))
    code, shown, _ = command("explain", file, "--data-dir", stored.logs / "none", "--max-bytes", 8_000)
    assert code == 0 and len(shown.encode()) <= 8_000 and "xid-79" in shown.split("## Verdict")[0]
    reference = f"incident:{document['incident_id']}@{document['revision']}#/cost"
    _, output, _ = command("logs", reference, "--incident", file, "--json")
    assert json.loads(output)["facts"]["part"] == document["cost"]
    file.write_text(f"{json.dumps(document)}\n{json.dumps(document | {'incident_id': 'ffff'})}\n")
    assert "choose one with --id" in command("explain", file)[2]
    assert command("explain", file, "--id", "ffff")[1].startswith("# Incident ffff")
    file.write_text("{")
    assert command("explain", file)[0] == 66


async def test_evidence_comes_from_the_running_page_and_later_from_the_embedded_store(
    stored: Stored, tmp_path: Path
) -> None:
    held = load_settings(data_dir=tmp_path / "data", kafka="127.0.0.1:9")
    with epicenter(tmp_path, "run", stored.logs / "hostile.jsonl", "--data-dir", held.data_dir, "--page-port", 0):
        eventually(lambda: query(held, "incidents"), 30, "an incident")
        by_page = as_json(stored_pack(held, "newest"))
        assert find(held, stored_pack(held, "newest").verdict.line, ALONE).lines
    server = StdioServerParameters(command=EPICENTER[0], args=[*EPICENTER[1:], "mcp", "--data-dir", str(held.data_dir)])
    async with Client(server, read_timeout_seconds=60) as client:
        for _ in range(2):
            result = await client.call_tool("explain_incident", {"incident_id": "newest"})
            decoded = json.loads(by_page)
            assert result.structured_content is not None
            assert result.structured_content["incident"] == decoded["incident"]


def test_a_record_of_kafka_is_found_at_its_offset(stored: Stored, kafka: Any) -> None:
    topic = NewTopic("handover.logs", num_partitions=1, replication_factor=1)
    with_admin(kafka.bootstrap, lambda admin: admin.create_topics([topic]))

    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
        await producer.start()
        for text in ("zero", '{"message": "one", "host": "n1"}', "two"):
            await producer.send_and_wait("handover.logs", text.encode(), partition=0)
        await producer.stop()

    asyncio.run(send())
    reachable = stored.settings.model_copy(update={"kafka": kafka.bootstrap})
    found = find(reachable, "handover.logs/0:1", Around(1, 5))
    assert found.found_in == "Kafka"
    assert [(line.number, line.untrusted_log_text) for line in found.lines] == [(0, "zero"), (1, "one"), (2, "two")]
    raw = find(reachable, "handover.logs/0:1", Around(0, 0, is_raw=True)).lines
    assert raw[0].untrusted_log_text == '{"message": "one", "host": "n1"}'
    for reference, message in (
        ("handover.logs/0:3", "offsets 0 to 2"),
        ("handover.none/0:1", "no such topic"),
        ("handover.logs/7:1", "no such partition"),
    ):
        with pytest.raises(InputError, match=message):
            find(reachable, reference, ALONE)
    (port,) = free_ports(1)
    with pytest.raises(TransientError, match="Kafka is unreachable"):
        find(stored.settings.model_copy(update={"kafka": f"127.0.0.1:{port}"}), "handover.logs/0:1", ALONE)
