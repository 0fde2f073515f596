"""The local page, by an HTTP client, over an embedded store."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from time import time_ns
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from epicenter.rules.alerts.silences import MATCHERS, Silence
from epicenter.rules.errors import TransientError
from epicenter.rules.model.incident import Check, Command, Cost, Evidence, Incident, RankedCause
from epicenter.rules.model.ledger import Delivery, Outcome
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.operator_actions import write_silences
from epicenter.sinks.clickhouse.reading import Changes
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.page import Feed, Watcher, live, page
from epicenter.sinks.text import humanize
from tests.unit.sinks.clickhouse.test_rows import an_incident

Browser = TestClient[Any, Any]
Answer = TypeVar("Answer")

NASTY = "<script>alert(1)</script>\"'&\x1b[31m\u202egnp"
ID = "00000000000000a1"
PATHS = [
    *("/", f"/incidents/{ID}", "/incidents/nope", "/jobs", "/jobs/east/4711", "/jobs/east/nope", "/silences"),
    *("/static/style.css", "/static/page.js", "/healthz", "/nowhere", f"/api/incidents/{ID}.md"),
]
"""Every kind of answer, the failed ones too."""


class Store:
    """A real store in memory that can be unavailable; its tables are emptied before each test."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_unreachable = False
        self.queries = 0
        self.health: Mapping[str, object] = {"status": "ok", "records": 12}

    def write(self, *incidents: Incident) -> None:
        ClickHouseSink(self.client).write(incidents=incidents)

    def decide(self, *deliveries: Delivery) -> None:
        ClickHouseSink(self.client).write(deliveries=deliveries)

    async def query(self, statement: Callable[[Client], Answer], /) -> Answer:
        self.queries += 1
        if self.is_unreachable:
            raise TransientError("chdb://memory: <away>\x1b")
        return statement(self.client)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = connect("chdb://memory/page")
    migrate(client)
    yield client
    client.close()


@pytest.fixture
def store(client: Client) -> Store:
    for table in ("incidents", "incident_revisions", "feedback", "acknowledgements", "silences", "deliveries"):
        client.command(f"TRUNCATE TABLE {table}")
    store = Store(client)
    store.write(an_incident())
    return store


@pytest.fixture
async def browser(store: Store) -> AsyncIterator[Browser]:
    async with TestClient(TestServer(page(store.query, lambda: store.health, Feed()))) as client:
        yield client


async def text_of(browser: Browser, path: str) -> str:
    response = await browser.get(path)
    assert response.status == 200, await response.text()
    return await response.text()


async def test_incident_page_shows_cost_candidates_and_missing_evidence(browser: Browser, store: Store) -> None:
    first = RankedCause("gpu.fell_off_bus", "gpu.xid_79", "gpu-001", None, "", 0.9, ())
    other = RankedCause("net.link_down", "net.link", "gpu-007", None, "", 0.08, ())
    uncertainty = {
        "candidates": (first, other),
        "missing": ("no kernel log <of> gpu-007",),
        "cost": Cost(120, 33.3, 16),
    }
    store.write(msgspec.structs.replace(an_incident(revision=2), **uncertainty))
    text = await text_of(browser, f"/incidents/{ID}")
    for shown in ("<b>net.link_down</b> gpu-007", "8%", "no kernel log &lt;of&gt; gpu-007", "120 steps", "33.3 GPU-h"):
        assert shown in text


async def test_list_shows_severity_class_job_impact_and_confidence(browser: Browser) -> None:
    text = await text_of(browser, "/")
    for shown in (
        "critical",
        "open",
        "GPU fell off the bus",
        "job 4711",
        "2 nodes, 16 ranks",
        "09:00:01",
        "90% confidence",
    ):
        assert shown in text
    assert f'<a href="/incidents/{ID}" data-row>' in text
    assert 'data-open-count="1"' in text


async def test_empty_list_shows_how_many_lines_were_read(browser: Browser, store: Store) -> None:
    store.client.command("TRUNCATE TABLE incidents")
    text = await text_of(browser, "/")
    assert "No incidents</h2>" in text
    assert "12 lines read so far" in text


@pytest.mark.parametrize("query", ["page=2", "page=2&status=open"])
async def test_page_beyond_the_last_shows_no_empty_state(browser: Browser, query: str) -> None:
    text = await text_of(browser, f"/?{query}")
    assert "No more incidents" in text
    assert "No incidents</h2>" not in text and "No matching incidents" not in text


async def test_incident_page_shows_reasons_evidence_and_next_steps(browser: Browser) -> None:
    text = await text_of(browser, f"/incidents/{ID}")
    for shown in ("90%", "earliest", "gpu.fell_off_bus", "NVRM: Xid 79", "kern.log:3", "Drain the node.", "09:00:01"):
        assert shown in text
    assert text.count('role="group" aria-labelledby="lanes-title') == 2


async def test_commands_in_steps_can_be_copied_and_are_escaped(browser: Browser, store: Store) -> None:
    steps = ("Run `dmesg | grep <Xid>` there.", "Then <b>wait</b>.")
    store.write(msgspec.structs.replace(an_incident(revision=2), next_steps=steps))
    text = await text_of(browser, f"/incidents/{ID}")
    assert "<code data-copyable>dmesg | grep &lt;Xid&gt;</code>" in text and "Then &lt;b&gt;wait&lt;/b&gt;." in text
    assert text.count("data-copy-this") == 1 and "data-copy-link" in text


async def test_commands_are_shown_with_their_purpose_and_scheduler(browser: Browser, store: Store) -> None:
    command = Command("Drain <node0003>", "slurm", "scontrol update nodename=node0003 reason='a & b'")
    store.write(msgspec.structs.replace(an_incident(revision=2), commands=(command,)))
    text = await text_of(browser, f"/incidents/{ID}")
    assert "<span>Drain &lt;node0003&gt; <small>slurm</small></span>" in text
    assert "<code data-copyable>scontrol update nodename=node0003 reason=&#39;a &amp; b&#39;</code>" in text


async def test_fields_and_checks_are_shown_by_name(browser: Browser, store: Store) -> None:
    root = msgspec.structs.replace(an_incident().root_cause, fields={"peer": "10.1.1.7<1>"})
    check = Check("Which rank did not report?", "rank <16>")
    store.write(msgspec.structs.replace(an_incident(revision=2), root_cause=root, checks=(check,)))
    text = await text_of(browser, f"/incidents/{ID}")
    assert "<dt>peer</dt><dd>10.1.1.7&lt;1&gt;</dd>" in text
    assert "Checked already" in text and "rank &lt;16&gt;" in text


async def test_merged_incident_links_to_its_successor(browser: Browser, store: Store) -> None:
    store.write(msgspec.structs.replace(an_incident(revision=2), merged_into="00000000000000a2"))
    assert '<a href="/incidents/00000000000000a2">' in await text_of(browser, f"/incidents/{ID}")


@pytest.mark.parametrize("path", ["/", f"/incidents/{ID}", "/silences"])
async def test_log_text_is_escaped_everywhere(browser: Browser, store: Store, path: str) -> None:
    nasty = an_incident(title=NASTY, revision=2)
    evidence = (Evidence(source=NASTY, line=1, node=NASTY, failure_class=NASTY, text=NASTY + "\nsecond line"),)
    root = msgspec.structs.replace(nasty.root_cause, node=NASTY, gpu=NASTY, reasons=(NASTY,))
    chain = tuple(msgspec.structs.replace(link, text=NASTY, node=NASTY, role=NASTY) for link in nasty.chain)
    fields: dict[str, Any] = {"severity": NASTY, "jobs": (NASTY,), "nodes": (NASTY,), "action": NASTY}
    store.write(
        msgspec.structs.replace(nasty, evidence=evidence, root_cause=root, chain=chain, next_steps=(NASTY,), **fields)
    )
    write_silences(store.client, Silence("s1", {"node": NASTY}, 1, 2, NASTY, NASTY))
    text = await text_of(browser, path)
    assert text.count("<script") == 2
    assert "&lt;script&gt;alert(1)" in text
    assert r"\x1b[31m\u202egnp" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "'&\\x1b" not in text and "&#34;&#39;&amp;" in text


async def test_incident_id_is_quoted_in_links(browser: Browser, store: Store) -> None:
    store.write(an_incident(incident_id='"><script>/../x'))
    assert 'href="/incidents/%22%3E%3Cscript%3E%2F..%2Fx"' in await text_of(browser, "/")


async def test_long_line_is_cut_and_expandable(browser: Browser, store: Store) -> None:
    line = Evidence(source="kern.log", line=1, node="n1", failure_class="xid-79", text="x" * 16_000)
    store.write(msgspec.structs.replace(an_incident(revision=2), evidence=(line,)))
    text = await text_of(browser, f"/incidents/{ID}")
    assert "show all 16,000 characters" in text
    assert "<pre>" + "x" * 600 + "…</pre>" in text


async def test_api_returns_the_stored_documents(browser: Browser) -> None:
    response = await browser.get("/api/incidents?limit=7&status=open")
    assert response.content_type == "application/json"
    assert await response.json() == [json.loads(msgspec.json.encode(an_incident()))]
    by_id = await browser.get(f"/api/incidents/{ID}")
    assert msgspec.convert(await by_id.json(), Incident) == an_incident()
    assert await (await browser.get("/api/incidents?status=resolved")).json() == []


async def test_api_returns_the_postmortem_as_markdown(browser: Browser) -> None:
    response = await browser.get(f"/api/incidents/{ID}.md")
    assert response.content_type == "text/markdown"
    assert "GPU fell off the bus" in await response.text()


@pytest.mark.parametrize("question", ["incidents", "similar", "unnamed"])
@pytest.mark.parametrize("limit", ["0", "-1", "1001", "9" * 19, str(10**30), "nan", "1.5", "many"])
async def test_invalid_limit_of_a_question_is_400(browser: Browser, question: str, limit: str) -> None:
    response = await browser.get(f"/api/handover/{question}", params={"id": ID, "limit": limit})
    assert (response.status, await response.json()) == (400, {"error": "limit: write a number from 1 to 1000"})


@pytest.mark.parametrize(
    ("question", "name"),
    [("incidents", "since_ns"), ("unnamed", "since_ns"), ("incident", "revision"), ("line", "number")],
)
@pytest.mark.parametrize("text", ["-1", str(2**63), "9" * 19, str(10**30), "nan"])
async def test_invalid_number_of_a_question_is_400(browser: Browser, question: str, name: str, text: str) -> None:
    response = await browser.get(f"/api/handover/{question}", params={"id": ID, name: text})
    assert response.status == 400
    assert (await response.json())["error"].startswith(f"{name}: write a number from 0 to ")
    response = await browser.get(f"/api/handover/{question}", params={"id": ID, name: str(2**63 - 1)})
    assert response.status == 200, "the largest that it allows finds nothing"


@pytest.mark.parametrize("name", ["a{b}", "{job}", "{", "a/b", "50%", "a?b#c", "{{7*7}}"])
async def test_a_name_with_signs_of_addresses_has_a_page_that_links_lead_to(
    browser: Browser, store: Store, name: str
) -> None:
    incident = an_incident()
    root = msgspec.structs.replace(incident.root_cause, node=name)
    changed = {"nodes": (name,), "jobs": (name,), "cluster": name, "root_cause": root, "progress": {}, "revision": 9}
    store.write(msgspec.structs.replace(incident, **changed))
    text, segment = await text_of(browser, f"/incidents/{ID}"), quote(name, safe="")
    for link in (f"/jobs/{segment}/{segment}", f"/nodes/{segment}?cluster={segment}"):
        assert f'href="{link}"' in text
        assert (await browser.get(URL(link, encoded=True))).status == 200
    assert (await browser.get(URL(f"/api/jobs/{segment}/{segment}/ranks", encoded=True))).status == 200


@pytest.mark.parametrize(
    "limit", ["0", "-1", "x", "1001", "99999999999999999999", "²", "", "0000000012345", "000000001" + "0" * 4400]
)
async def test_invalid_limit_is_400(browser: Browser, limit: str) -> None:
    response = await browser.get("/api/incidents", params={"limit": limit})
    assert response.status == 400
    assert "limit" in (await response.json())["error"]


@pytest.mark.parametrize("path", ["/api/incidents/nope", "/api/incidents/nope.md"])
async def test_unknown_id_is_404(browser: Browser, path: str) -> None:
    response = await browser.get(path)
    assert (response.status, response.content_type) == (404, "application/json")
    assert "error" in await response.json()
    page_response = await browser.get("/incidents/nope")
    assert (page_response.status, page_response.content_type) == (404, "text/html")


async def test_unavailable_store_is_503(browser: Browser, store: Store) -> None:
    store.is_unreachable = True
    response = await browser.get("/api/incidents")
    assert response.status == 503
    assert (await response.json())["error"] == r"chdb://memory: <away>\x1b"
    shown = await browser.get("/")
    assert shown.status == 503
    assert r"&lt;away&gt;\x1b" in await shown.text()


@pytest.mark.parametrize(("status", "expected"), [("ok", 200), ("behind", 503)])
async def test_healthz_follows_the_health_of_the_store(
    browser: Browser, store: Store, status: str, expected: int
) -> None:
    store.health = {"status": status}
    response = await browser.get("/healthz")
    assert response.status == expected
    assert await response.json() == {"status": status}


@pytest.mark.parametrize("path", PATHS)
async def test_every_response_has_the_security_headers(browser: Browser, path: str) -> None:
    response = await browser.get(path)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.5", "", "[::1"]
)
@pytest.mark.parametrize("path", ["/", "/api/incidents", "/healthz", "/static/style.css", "/events"])
async def test_foreign_host_is_refused(browser: Browser, store: Store, host: str, path: str) -> None:
    response = await browser.get(path, headers={"Host": host})
    assert response.status in (400, 403)
    assert store.queries == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:9999", "127.1.2.3", "[::1]:8080"])
async def test_loopback_host_is_accepted(browser: Browser, host: str) -> None:
    assert (await browser.get("/", headers={"Host": host})).status == 200


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith(("/static", "/healthz", "/api"))])
async def test_pages_hold_no_inline_script_no_inline_style_and_no_outside_address(browser: Browser, path: str) -> None:
    text = await (await browser.get(path)).text()
    assert "style=" not in text and "<style" not in text and "://" not in text.replace("chdb://", "")
    assert text.count("<script") == text.count('<script src="/static/') + text.count(
        '<script type="module" src="/static/'
    )


# Forms


async def test_newest_feedback_of_each_person_is_shown(browser: Browser) -> None:
    for form in (
        {"verdict": "right", "who": "ada"},
        {"verdict": "wrong", "who": "ada", "true_class": "xid-31", "note": "it was <b>the</b> program"},
        {"verdict": "right"},
    ):
        answer = await browser.post(f"/api/incidents/{ID[:5]}/feedback", json=form)
        assert answer.status == 201
    text = await text_of(browser, f"/incidents/{ID}")
    assert text.count("marked the diagnosis") == 2
    assert "actual class: <b>xid-31</b>: it was &lt;b&gt;the&lt;/b&gt; program" in text
    assert "<b>someone</b> marked the diagnosis <b>right</b>" in text


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"verdict": "maybe"}, "write right or wrong"),
        ({"verdict": "wrong", "true_class": "no-such-class"}, "unknown class"),
        ({"verdict": "wrong", "note": "x" * 2_001}, "note"),
        ({"verdict": "wrong", "who": " "}, "enter your name"),
        ({"verdict": "right", "extra": 1}, "extra"),
        ([], "object"),
    ],
)
async def test_invalid_feedback_is_refused_with_the_reason(browser: Browser, form: Any, problem: str) -> None:
    answer = await browser.post(f"/api/incidents/{ID}/feedback", json=form)
    assert answer.status == 400
    assert problem in (await answer.json())["error"]


async def test_feedback_on_an_unknown_incident_is_404(browser: Browser) -> None:
    assert (await browser.post("/api/incidents/nope/feedback", json={"verdict": "right"})).status == 404


async def test_acknowledgement_is_shown_on_incident_list_and_job(browser: Browser) -> None:
    for form in ({"who": "bob"}, {"who": " ada ", "note": "case <b>4711</b>"}):
        answer = await browser.post(f"/api/incidents/{ID[:5]}/acknowledgement", json=form)
        assert answer.status == 201
    given = await answer.json()
    assert (given["incident_id"], given["who"], given["is_taken_back"]) == (ID, "ada", False)
    for path in (f"/incidents/{ID}", "/", "/jobs/east/4711"):
        text = await text_of(browser, path)
        assert re.search(r"Acknowledged by <b>ada</b>, <time [^>]+>\d\d:\d\d:\d\d</time> UTC: case &lt;b&gt;4711", text)
        assert "<b>bob</b>" not in text
    assert "bob acknowledged the incident" in await text_of(browser, f"/incidents/{ID}")
    answer = await browser.post(f"/api/incidents/{ID}/acknowledgement", json={"undo": True})
    assert (answer.status, (await answer.json())["who"]) == (201, "someone")
    assert "Acknowledged by" not in await text_of(browser, "/")
    assert "someone withdrew the acknowledgement" in await text_of(browser, f"/incidents/{ID}")
    again = await browser.post(f"/api/incidents/{ID}/acknowledgement", json={"undo": True})
    assert (again.status, "nothing to withdraw" in (await again.json())["error"]) == (409, True)


@pytest.mark.parametrize(
    ("incident", "form", "status", "problem"),
    [
        (ID, {}, 400, "enter your name"),
        (ID, {"who": " "}, 400, "enter your name"),
        (ID, {"who": "ada", "extra": 1}, 400, "extra"),
        (ID, {"who": "ada", "note": "x" * 2_001}, 400, "note"),
        (ID, [], 400, "object"),
        ("nope", {"who": "ada"}, 404, "nope: no such incident"),
        ("merged", {"who": "ada"}, 409, f"merged into {ID}: acknowledge that one"),
    ],
)
async def test_invalid_acknowledgement_is_refused_with_the_reason(
    browser: Browser, store: Store, incident: str, form: Any, status: int, problem: str
) -> None:
    store.write(msgspec.structs.replace(an_incident("merged"), merged_into=ID))
    answer = await browser.post(f"/api/incidents/{incident}/acknowledgement", json=form)
    assert (answer.status, problem in (await answer.json())["error"]) == (status, True)


OWN_FORM = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}


async def test_plain_form_acknowledges_without_javascript(browser: Browser) -> None:
    path, form = f"/incidents/{ID}/acknowledgement", {"who": "ada", "note": "it's \x1b mine"}
    assert f'<form class="plain-form" method="post" action="{path}">' in await text_of(browser, f"/incidents/{ID}")
    answer = await browser.post(path, data=form, headers=OWN_FORM, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, f"/incidents/{ID}")
    assert "Acknowledged by <b>ada</b>" in await text_of(browser, f"/incidents/{ID}")
    assert (await browser.post(path, data={"undo": "1"}, headers=OWN_FORM)).status == 200
    refused = await browser.post(path, data={"who": ""}, headers=OWN_FORM)
    assert (refused.status, "enter your name" in await refused.text()) == (400, True)
    assert (await browser.post("/incidents/nope/acknowledgement", data=form, headers=OWN_FORM)).status == 404


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/incidents/{ID}/acknowledgement", {"Origin": "null"}, 403),
        (f"/incidents/{ID}/acknowledgement", {}, 415),
        (f"/incidents/{ID}/acknowledgement", {"Sec-Fetch-Site": "none"}, 403),
        (f"/incidents/{ID}/acknowledgement", {"Sec-Fetch-Site": "cross-site", "Origin": "null"}, 403),
        (f"/incidents/{ID}/acknowledgement", {"Sec-Fetch-Site": "same-site", "Origin": "null"}, 403),
        (f"/incidents/{ID}/acknowledgement", {**OWN_FORM, "Origin": "http://evil.example"}, 403),
        (f"/incidents/{ID}/acknowledgement", {**OWN_FORM, "Host": "evil.example"}, 403),
        (f"/api/incidents/{ID}/acknowledgement", OWN_FORM, 403),
        ("/api/silences", {"Sec-Fetch-Site": "same-origin"}, 415),
    ],
)
async def test_plain_forms_of_other_sites_are_refused(
    browser: Browser, store: Store, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await browser.post(path, data={"who": "ada"}, headers=headers)
    assert (answer.status, store.queries) == (status, 0)


async def test_many_notification_decisions_are_folded_by_target(browser: Browser, store: Store) -> None:
    at = iter(range(10**18, 2 * 10**18, 10**9))
    decisions = [
        ("pagerduty", "sent", "opened", ""),
        *[("slack", "waits", "opened", "it <b>answers</b> 503")] * 20,
        ("slack", "sent", "opened", ""),
        *[(f"w{number}", "silenced", "opened", "by ada: drained") for number in range(9)],
        ("", "unrouted", "updated", "no route fits"),
    ]
    for number, (target, outcome, kind, reason) in enumerate(decisions):
        event_time = "2026-03-02T09:00:00Z"
        store.decide(Delivery(f"n{number}", target, Outcome(outcome), ID, 1, kind, event_time, reason, next(at)))
    text = await text_of(browser, f"/incidents/{ID}")
    table = re.sub(r"\s*<[^>]+>\s*", " ", text[text.index("Notifications</h2>") :])
    assert re.search(r"no target +unrouted +updated, .+? +1 unrouted", table)
    assert re.search(r"pagerduty +sent +opened, .+? +1 sent", table)
    assert re.search(r"slack +sent +opened, .+? +20 waits, 1 sent", table)
    assert re.search(r"20 times +slack +opened +waits +it &lt;b&gt;answers&lt;/b&gt; 503", table)
    assert re.search(r"w8 +opened +silenced +by ada: drained", table)
    assert text.count('data-key="notifications ') == 12
    assert text.count("slack: opened sent") == 1 and "w0: opened" not in text


async def test_few_notification_decisions_are_one_table(browser: Browser, store: Store) -> None:
    assert "Notifications</h2>" not in await text_of(browser, f"/incidents/{ID}")
    store.decide(Delivery("n1", "slack", Outcome.SENT, ID, 1, "opened", "2026-03-02T09:00:00Z", "", 10**18))
    text = await text_of(browser, f"/incidents/{ID}")
    assert 'aria-label="Notifications"' in text and 'data-key="notifications ' not in text


async def test_silences_are_listed_as_json(browser: Browser, store: Store) -> None:
    over, active = Silence("s1", {"node": "n1"}, 1, 2, "ada", "why"), Silence("s2", {"node": "n1"}, 1, 2**62, "ada", "")
    for silence in (over, active):
        write_silences(store.client, silence)
    for query, expected in (("", [active]), ("?all=0", [active]), ("?all=1", [active, over])):
        answer = await browser.get(f"/api/silences{query}")
        assert msgspec.convert(await answer.json(), list[Silence]) == expected


async def test_a_silence_may_name_every_label(browser: Browser) -> None:
    text = await text_of(browser, f"/incidents/{ID}")
    assert re.findall(r'name="matchers\.(\w+)"', text)[:4] == ["class", "node", "job", "cluster"]
    assert set(re.findall(r'name="matchers\.(\w+)"', text)) == set(MATCHERS)


async def test_a_silence_is_listed_shown_at_its_incident_and_ended(browser: Browser) -> None:
    form = {
        "matchers": {"class": "gpu.fell_off_bus", "node": "gpu-001", "job": ""},
        "duration": "4h",
        "reason": "drained",
    }
    answer = await browser.post("/api/silences", json={**form, "who": "ada"})
    assert answer.status == 201
    silence = await answer.json()
    assert silence["matchers"] == {"class": "gpu.fell_off_bus", "node": "gpu-001"}
    assert silence["ends_ns"] - silence["begins_ns"] == 4 * 3600 * 10**9
    assert "by ada" in await text_of(browser, f"/incidents/{ID}")
    assert "drained" in await text_of(browser, "/silences")
    ended = await browser.post(f"/api/silences/{silence['silence_id']}/end", json={})
    assert ended.status == 200
    assert "ended <time" in await text_of(browser, "/silences")
    assert "silenced until" not in await text_of(browser, f"/incidents/{ID}")
    assert (await browser.post(f"/api/silences/{silence['silence_id']}/end", json={})).status == 404


async def test_a_silence_of_one_cluster_mutes_no_other(browser: Browser, store: Store) -> None:
    store.write(msgspec.structs.replace(an_incident("b2"), cluster="west"))
    form = {"matchers": {"class": "gpu.fell_off_bus", "cluster": "west"}, "duration": "4h", "reason": "drained"}
    assert 'name="matchers.cluster" value="west"' in await text_of(browser, "/incidents/b2")
    assert (await browser.post("/api/silences", json=form)).status == 201
    assert "silenced until" in await text_of(browser, "/incidents/b2")
    assert "silenced until" not in await text_of(browser, f"/incidents/{ID}")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"matchers": {}}, "add a class, a node, a job"),
        ({"matchers": {"colour": "red"}}, "unknown label"),
        ({"matchers": {"node": "*", "class": "!xid-79"}}, "with more than * or a negation"),
        ({"matchers": {"node": " "}}, "add a class, a node, a job"),
        ({"matchers": {"cluster": "east", "node": ""}}, "you can't silence a whole cluster"),
        ({"duration": "soon"}, "is not a duration"),
        ({"duration": "91d"}, "at most 90d ahead"),
        ({"duration": "0h"}, "must be in the future"),
        ({"reason": " "}, "enter why"),
    ],
)
async def test_invalid_silence_is_refused_with_the_reason(
    browser: Browser, changed: dict[str, Any], problem: str
) -> None:
    form = {"matchers": {"node": "n1"}, "duration": "1h", "reason": "why", **changed}
    answer = await browser.post("/api/silences", json=form)
    assert answer.status == 400
    assert problem in (await answer.json())["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_only_the_pages_own_forms_write(
    browser: Browser, store: Store, headers: dict[str, str], status: int
) -> None:
    headers = {"Content-Type": "application/json", **headers}
    answer = await browser.post(f"/api/incidents/{ID}/feedback", data=b'{"verdict": "right"}', headers=headers)
    assert answer.status == status
    assert store.queries == 0


async def test_oversized_form_is_refused(browser: Browser) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await browser.post("/api/silences", data=b" " * 20_000, headers=headers)
    assert (answer.status, await answer.json()) == (413, {"error": "request too long: send at most 16 KiB"})


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/api/nope", 404), ("PUT", "/api/silences/x/end", 405)])
async def test_errors_of_the_server_are_json_too(browser: Browser, method: str, path: str, status: int) -> None:
    answer = await browser.request(method, path, headers={"Content-Type": "application/json"})
    assert answer.status == status
    assert (await answer.json())["error"]
    assert "Content-Security-Policy" in answer.headers
    assert answer.headers.get("Allow") == ("POST" if status == 405 else None)


async def test_page_without_its_store_is_alive_and_ready_to_report_it(browser: Browser, store: Store) -> None:
    since_ns = 1_772_442_000 * 10**9
    store.is_unreachable = True
    store.health = {"status": "http://ch:8123/x: Connection refused", "away_since_ns": since_ns}
    for probe in ("/livez", "/readyz"):
        answer = await browser.get(probe)
        assert (answer.status, await answer.json()) == (200, {"status": "ok"})
    assert (await browser.get("/healthz")).status == 503
    shown = await browser.get("/")
    assert shown.status == 503
    assert "The store is not responding" in await shown.text()
    assert f"Away since {humanize.clock_or_date(since_ns, time_ns())} UTC." in await shown.text()


async def test_a_bug_is_logged_and_not_shown(browser: Browser, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.health = {"status": object()}
    answer = await browser.get("/healthz")
    assert answer.status == 500
    assert "unsupported" not in await answer.text()
    assert "Error handling request" in caplog.text and "TypeError" in caplog.text


@pytest.mark.parametrize("path", ["/incidents/broken", "/api/incidents/broken", "/api/incidents"])
async def test_invalid_stored_incident_is_named(browser: Browser, store: Store, path: str) -> None:
    store.client.command("INSERT INTO incidents (incident_id, revision, document) VALUES ('broken', 1, 'no JSON')")
    answer = await browser.get(path)
    assert answer.status == 503
    assert "stored incident broken: not an incident" in await answer.text()


async def test_feed_returns_at_once_after_an_earlier_change() -> None:
    feed = Feed()
    wakes = feed.wakes
    feed.notify()
    await asyncio.wait_for(feed.wait(wakes, timeout_s=3_600), timeout=5)


async def test_a_changed_job_state_sends_health_at_once_and_no_changed_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEALTH_EVERY_S", 3_600)
    feed = Feed()
    async with TestClient(TestServer(page(nothing_stored, lambda: {"status": "ok"}, feed))) as browser:
        response = await browser.get("/events")

        async def next_event() -> bytes:
            text = await asyncio.wait_for(response.content.readuntil(b"\r\n\r\n"), timeout=20)
            return text.split(b"\r\n", 1)[0]

        assert [await next_event(), await next_event()] == [b"event: changed", b"event: health"]
        feed.notify_jobs()
        assert await next_event() == b"event: health"
        feed.notify()
        assert [await next_event(), await next_event()] == [b"event: changed", b"event: health"]
        feed.close()


async def nothing_stored(statement: Callable[[Client], Answer], /) -> Answer:
    raise TransientError("away")


async def test_the_watcher_distinguishes_a_change_of_jobs_from_one_of_incidents() -> None:
    feed, reports, changes = (
        Feed(),
        list[str](),
        [Changes((1,), 1), Changes((1,), 1), Changes((1,), 2), Changes((2,), 2)],
    )

    async def newest() -> Changes:
        return changes.pop(0)

    watcher = Watcher(feed, newest, reports.append)
    seen = []
    while changes:
        before = feed.version, feed.wakes
        await watcher.poll()
        seen.append((feed.version - before[0], feed.wakes - before[1]))
    assert seen == [(1, 1), (0, 0), (0, 1), (1, 1)]


async def test_the_watcher_keeps_since_when_the_store_is_away() -> None:
    is_away = True

    async def newest() -> Changes:
        if is_away:
            raise TransientError("away")
        return Changes((), 0)

    watcher = Watcher(Feed(), newest, lambda text: None)
    before_ns = time_ns()
    await watcher.poll()
    since_ns = watcher.away_since_ns
    await watcher.poll()
    assert before_ns <= since_ns == watcher.away_since_ns
    is_away = False
    await watcher.poll()
    assert watcher.away_since_ns == 0
