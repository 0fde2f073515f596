"""`epicenter mcp`, driven by the official client over both transports, against a store with a simulated failure."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from deploy.dev.process import EPICENTER
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.incident import Evidence, Progress
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.evidence.render import as_json, as_markdown
from epicenter.sinks.evidence.untrusted import NOTICE
from epicenter.stream.load_settings import load_settings
from epicenter.stream.mcp.answers import MAX_BYTES, evidence
from epicenter.stream.mcp.server import build, serve_http
from epicenter.stream.store.evidence import query, stored_incident, stored_pack
from epicenter.stream.store.lines import Around, find
from tests.support.evidence import Stored, store_failure, store_texts
from tests.support.page_store import add_job
from tests.unit.sinks.clickhouse.test_rows import an_incident

pytestmark = pytest.mark.integration

TABLES = ("incidents", "incident_revisions", "matches", "signals", "feedback", "silences", "deliveries", "dead_letters")
FORBIDDEN_OUTPUT = ("</untrusted", "<|im_start|>", "\x1b", "\u202e", "\\u001b", "Human:")
TOOLS = {
    *("list_incidents", "search_incidents", "get_incident", "explain_incident", "get_evidence", "list_jobs"),
    *("job_progress", "similar_incidents", "list_silences"),
}


@pytest.fixture(scope="module")
def stored(clickhouse: Any, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    dsn = urlsplit(clickhouse.dsn)._replace(path="/mcp").geturl()
    return store_failure(dsn, tmp_path_factory.mktemp("mcp"))


def contents(stored: Stored) -> dict[str, Any]:
    client = connect(stored.settings.store_dsn)
    try:
        return {table: client.query(f"SELECT count(), sum(cityHash64(*)) FROM {table} FINAL") for table in TABLES}
    finally:
        client.close()


@contextmanager
def http_server(stored: Stored) -> Iterator[str]:
    """The server over HTTP on a free port; its address."""
    arguments = ["mcp", "--http", "127.0.0.1:0", "--store", stored.settings.store_dsn]
    process = subprocess.Popen([*EPICENTER, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        first_line = process.stderr.readline()
        assert first_line.startswith("mcp: http://127.0.0.1:"), first_line
        yield first_line.split()[1]
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert out == ""


@asynccontextmanager
async def connected(stored: Stored, transport: str) -> AsyncIterator[Client]:
    if transport == "stdio":
        arguments = [*EPICENTER[1:], "mcp", "--store", stored.settings.store_dsn]
        async with Client(
            StdioServerParameters(command=EPICENTER[0], args=arguments), read_timeout_seconds=60
        ) as client:
            yield client
    else:
        with http_server(stored) as url:
            async with Client(url, read_timeout_seconds=60) as client:
                yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool's structured content; its text is the same or, for a pack, Markdown."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent) and result.structured_content is not None
    assert tool == "explain_incident" or json.loads(content.text) == result.structured_content
    assert len(content.text.encode()) <= MAX_BYTES and result.structured_content["notice"] == NOTICE
    return dict(result.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent) and "Traceback" not in content.text
    return content.text


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_every_tool_answers_from_the_store_and_writes_nothing(stored: Stored, transport: str) -> None:
    before = contents(stored)
    document = json.loads(msgspec.json.encode(stored_incident(stored.settings, stored.incident_id)))
    incident_id, job = document["incident_id"], document["jobs"][0]
    async with connected(stored, transport) as client:
        assert "Nothing can be changed here" in (client.instructions or "")
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.annotations and tool.annotations.read_only_hint and tool.description for tool in tools)

        listed = await call(client, "list_incidents")
        assert len(listed["incidents"]) == len(query(stored.settings, "incidents")) > 1
        for wanted in ({"failure_class": "xid-79"}, {"node": document["root_cause"]["node"]}, {"since": "3650d"}):
            fitting = await call(client, "list_incidents", **wanted)
            assert incident_id in [incident["incident_id"] for incident in fitting["incidents"]]
        assert (await call(client, "list_incidents", cluster="none"))["incidents"] == []
        assert (await call(client, "list_incidents", limit=1))["has_more"]
        found = await call(client, "search_incidents", words="fallen bus")
        assert [incident["incident_id"] for incident in found["incidents"]] == [incident_id]

        whole = (await call(client, "get_incident", incident_id=incident_id[:6]))["incident"]
        assert whole["root_cause"] == document["root_cause"]
        assert [link["untrusted_log_text"] for link in whole["chain"]][:1] == [document["chain"][0]["text"]]

        pack = stored_pack(stored.settings, incident_id)
        explained = await client.call_tool("explain_incident", {"incident_id": incident_id})
        assert explained.structured_content == json.loads(as_json(pack))
        assert explained.content[0].text == as_markdown(pack).decode()  # type: ignore[union-attr]

        line = await call(client, "get_evidence", reference=pack.verdict.line, before=2, after=2)
        there = find(stored.settings, pack.verdict.line, Around(2, 2))
        assert [shown["number"] for shown in line["lines"]] == [stored_line.number for stored_line in there.lines]
        assert line["found_in"] == "file" and len(line["lines"]) == 5
        silence = next(event.reference for event in pack.timeline if event.failure_class == "hang")
        assert "no step after" in (await call(client, "get_evidence", reference=silence))["facts"]["silence"]["text"]

        assert job in [listed_job["job"] for listed_job in (await call(client, "list_jobs"))["jobs"]]
        progress = await call(client, "job_progress", job=job)
        assert progress["newest_step"] == document["progress"][job]["last_step"]
        assert sum(state["count"] for state in progress["states"].values()) == progress["ranks"]
        assert (await call(client, "similar_incidents", incident_id=incident_id))["similar"] == []
        assert (await call(client, "list_silences"))["silences"] == []

        resource = await client.read_resource(f"epicenter://incidents/{incident_id}")
        assert resource.contents[0].text == as_markdown(pack).decode()  # type: ignore[union-attr]
        prompt = await client.get_prompt("explain", {"incident_id": incident_id})
        assert incident_id in prompt.messages[0].content.text  # type: ignore[union-attr]
    assert contents(stored) == before


async def test_a_wrong_request_is_refused_with_one_sentence(stored: Stored) -> None:
    async with connected(stored, "stdio") as client:
        assert "no such incident" in await refused(client, "get_incident", incident_id="ffffffffff")
        assert "letters and digits" in await refused(client, "explain_incident", incident_id="../etc/passwd")
        assert "not a reference" in await refused(client, "get_evidence", reference="passwd")
        assert "no such line in the store" in await refused(client, "get_evidence", reference="/etc/passwd:1")
        assert "no such part" in await refused(client, "get_evidence", reference="incident:newest#/chain/99999")
        assert "no heartbeats from it" in await refused(client, "job_progress", job="none")
        assert "write 2h" in await refused(client, "list_incidents", since="yesterday")
        assert "less than or equal to 100" in await refused(client, "list_incidents", limit=1_000)
        assert "not permitted" in await refused(client, "list_incidents", nodes="n1")
        assert "'open' or 'resolved'" in await refused(client, "list_incidents", status="burning")
        with pytest.raises(MCPError, match="no such incident"):
            await client.read_resource("epicenter://incidents/ffffffffff")


async def test_answers_are_bounded_and_count_the_omitted_parts(stored: Stored) -> None:
    client = connect(stored.settings.store_dsn)
    lines = tuple(Evidence(f"{number}.log", number, "n1", "hang", "x" * 900) for number in range(200))
    jobs = {f"job-{number}": Progress(number, "2026-03-02T09:00:00Z", None) for number in range(1_000)}
    large = msgspec.structs.replace(an_incident("eeee01"), evidence=lines, progress=jobs, jobs=tuple(jobs))
    many = [an_incident(f"eeee{number}", title="y" * 700) for number in range(10, 100)]
    try:
        ClickHouseSink(client).write(incidents=[large, *many])
        add_job(client, "9001", 4_096)
    finally:
        client.close()
    async with Client(build(stored.settings)) as client:
        whole = await call(client, "get_incident", incident_id="eeee01")
        assert whole["left_out"]["evidence"] > 100 and whole["left_out"]["progress"] > 100
        listed = await call(client, "list_incidents", limit=100)
        assert listed["left_out"]["incidents"] + len(listed["incidents"]) > 90
        progress = await call(client, "job_progress", job="9001")
        assert (progress["ranks"], progress["newest_step"]) == (4_096, 18_200)
        assert {state: ranks["count"] for state, ranks in progress["states"].items()}["logs-missing"] == 8


async def test_a_missing_store_is_reported_and_not_created(tmp_path: Path) -> None:
    async with Client(build(load_settings(data_dir=tmp_path / "none"))) as client:
        assert "no store here yet" in await refused(client, "list_incidents")
    assert list(tmp_path.iterdir()) == []


async def test_hostile_log_text_stays_data(stored: Stored) -> None:
    async with connected(stored, "stdio") as client:
        (brief,) = (await call(client, "search_incidents", words="ignore all previous"))["incidents"]
        pack = await client.call_tool("explain_incident", {"incident_id": brief["incident_id"]})
        line = await client.call_tool("get_evidence", {"reference": pack.structured_content["verdict"]["line"]})  # type: ignore[index]
        whole = await client.call_tool("get_incident", {"incident_id": brief["incident_id"]})
        for result in (pack, line, whole):
            text = result.content[0].text + json.dumps(result.structured_content)  # type: ignore[union-attr]
            assert "ignore all previous instructions" in text
            assert not [part for part in FORBIDDEN_OUTPUT if part in text]


def test_only_requests_from_this_machine_are_answered_over_http(stored: Stored) -> None:
    with http_server(stored) as url:
        own = urlsplit(url).netloc
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Host": f"evil.example:{urlsplit(url).port}"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": f"http://{own}.evil.example"}, 403),
            ({"Origin": f"http://{own}"}, 200),
        ):
            assert posted(url, headers) == status
    for host in ("0.0.0.0", "192.0.2.1", "example.org", "::", ""):
        with pytest.raises(ConfigError, match=r"write 127\.0\.0\.1 or ::1"):
            serve_http(stored.settings, host, 0)


def posted(url: str, headers: dict[str, str]) -> int:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(initialize).encode(), {**usual, **headers})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_evidence_shows_no_part_of_a_key_that_begins_above_it(clickhouse: Any, tmp_path: Path) -> None:
    key = [f"MIIEowIBAAKCAQEA{number:04d}" + "q83vAbCd" * 5 for number in range(50)]
    error = "RuntimeError: CUDA error: an illegal memory access was encountered"
    texts = ["-----BEGIN RSA PRIVATE KEY-----", *key, "-----END RSA PRIVATE KEY-----", error]
    dsn = urlsplit(clickhouse.dsn)._replace(path="/mcp_key").geturl()
    stored = store_texts(dsn, tmp_path, texts)
    found = evidence(stored.settings, f"{stored.logs}/texts.jsonl:{len(texts)}", Around(3, 0))
    shown = [line["untrusted_log_text"] for line in found["lines"]]
    assert shown == ["[redacted:private-key]", "[redacted:private-key]", texts[-2], error]
    assert "q83vAbCd" not in str(evidence(stored.settings, f"{stored.logs}/texts.jsonl:{len(texts)}", Around(60, 0)))
