"""The queries of the page, on the embedded engine and on a server."""

from __future__ import annotations

from collections.abc import Iterator
from time import time_ns
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from msgspec.structs import replace

from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import JobPhase, JobState
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.records import Match
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse import jobs, reading
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.operator_actions import (
    Feedback,
    active_acknowledgements,
    list_acknowledgements,
    list_feedback,
    list_silences,
    write_acknowledgements,
    write_feedback,
    write_silences,
)
from epicenter.sinks.clickhouse.reading import Group, IncidentFilter
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.clickhouse.unnamed import list_unnamed
from epicenter.stream.alerts.operator_actions import active_actions
from tests.support.logs import at, the_rules
from tests.support.page_store import add_job
from tests.support.signals import a_match
from tests.unit.sinks.clickhouse.test_rows import an_incident

pytestmark = pytest.mark.integration

NOW_NS = 1_772_442_000 * NS_PER_S


@pytest.fixture(scope="module", params=["embedded", "server"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    dsn = "chdb://memory/reading"
    if request.param == "server":
        dsn = urlsplit(request.getfixturevalue("clickhouse").dsn)._replace(path="/reading").geturl()
    client = connect(dsn)
    migrate(client)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _empty(client: Client) -> None:
    for table in (
        *("incidents", "incident_revisions", "feedback", "silences", "signals", "deliveries"),
        *("acknowledgements", "liveness", "progress", "placements"),
    ):
        client.command(f"TRUNCATE TABLE {table}")


def store(client: Client, name: str, minute: int = 0, revision: int = 1, **changed: Any) -> Incident:
    """An incident seen at a minute; `root_` fields are those of its root cause."""
    root = {key.removeprefix("root_"): changed.pop(key) for key in list(changed) if key.startswith("root_")}
    incident = an_incident(name, revision=revision)
    seen = f"2026-03-02T09:{minute:02d}:00.000000000Z"
    cause = msgspec.structs.replace(incident.root_cause, **root)
    incident = msgspec.structs.replace(incident, last_seen=seen, root_cause=cause, **changed)
    ClickHouseSink(client).write(incidents=[incident])
    return incident


def names(incidents: list[Incident]) -> list[str]:
    return [incident.incident_id for incident in incidents]


def test_open_incidents_are_listed_first_and_in_pages(client: Client) -> None:
    store(client, "a", 5, status="resolved")
    store(client, "b", 1)
    store(client, "c", 3)
    store(client, "d", 9, merged_into="c")
    everything = IncidentFilter()
    assert names(reading.find_incidents(client, everything, 9)) == ["c", "b", "a"]
    assert names(reading.find_incidents(client, everything, 2, offset=1)) == ["b", "a"]


@pytest.mark.parametrize(
    "wanted",
    [
        IncidentFilter(status="resolved"),
        IncidentFilter(failure_class="hang"),
        IncidentFilter(cluster="west"),
        IncidentFilter(node="n9"),
        IncidentFilter(job="7801"),
        IncidentFilter(terms=["quoted'title"]),
        IncidentFilter(terms=["n9", "7801"]),
    ],
)
def test_each_filter_finds_the_matching_incident(client: Client, wanted: IncidentFilter) -> None:
    store(client, "a")
    store(
        client,
        "b",
        status="resolved",
        failure_class="hang",
        cluster="west",
        nodes=("n9",),
        jobs=("7801",),
        title="A Quoted'Title",
    )
    assert names(reading.find_incidents(client, wanted, 9)) == ["b"]


def test_rows_older_than_the_words_column_are_found(client: Client) -> None:
    store(client, "a", title="Something Old")
    client.command("ALTER TABLE incidents CLEAR COLUMN words IN PARTITION tuple() SETTINGS mutations_sync = 1")
    assert names(reading.find_incidents(client, IncidentFilter(terms=["something", "old"]), 9)) == ["a"]
    assert reading.find_incidents(client, IncidentFilter(terms=["something", "new"]), 9) == []


def test_queries_over_many_incidents_do_not_read_their_documents(client: Client) -> None:
    this = store(client, "this")
    client.command(
        "INSERT INTO incidents (incident_id, revision, class, root_class, cluster, document, words)"
        " SELECT concat('filler-', toString(number)), 1, 'filler', 'filler', 'east',"
        " concat('{}', randomPrintableASCII(10000)), 'filler' FROM numbers(3000)"
    )
    before = bytes_read(client)
    assert reading.find_incidents(client, IncidentFilter(terms=["nonesuch"]), 9) == []
    assert reading.similar_incidents(client, this) == []
    assert bytes_read(client) - before < 10_000_000


def bytes_read(client: Client) -> int:
    return int(client.query("SELECT sum(value) FROM system.events WHERE event = 'SelectedBytes'")[0][0])


def test_equal_names_in_another_cluster_are_not_similar(client: Client) -> None:
    this = store(client, "this", jobs=("1",), root_node="n1", root_gpu="g1")
    store(client, "there", 1, cluster="west", jobs=("1",), root_node="n1", root_gpu="g1")
    store(client, "unlike", 2, cluster="west", jobs=("1",), root_node="n1", root_failure_class="hang")
    found = reading.similar_incidents(client, this)
    assert [(similar.incident.incident_id, list(similar.shared)) for similar in found] == [("there", ["class"])]


def test_the_newest_changes_of_very_many_revisions_are_listed(client: Client) -> None:
    incident = an_incident("a")
    newest = reading.MAX_REVISIONS + 1
    quiet = [msgspec.structs.replace(incident, revision=number) for number in range(1, newest)]
    ClickHouseSink(client).write(
        incidents=[*quiet, msgspec.structs.replace(incident, revision=newest, status="resolved")]
    )
    changes = reading.incident_changes(client, "a")
    assert [(change["revision"], change["status"]) for change in changes] == [(2, "open"), (newest, "resolved")]


def test_groups_count_incidents_of_equal_class_and_status(client: Client) -> None:
    store(client, "a", failure_class="hang")
    store(client, "b", failure_class="hang")
    store(client, "c", failure_class="hang", status="resolved")
    store(client, "d", merged_into="a")
    assert reading.incident_groups(client) == [Group("east", "hang", "open", 2), Group("east", "hang", "resolved", 1)]


def test_the_change_token_differs_after_every_visible_change(client: Client) -> None:
    tokens = [reading.newest_change(client)]
    for change in (
        lambda: store(client, "a"),
        lambda: store(client, "a", revision=2),
        lambda: write_feedback(client, Feedback("a", "ada", NOW_NS, 1, "right")),
        lambda: write_silences(client, Silence("s", {"node": "n1"}, 1, 2, "ada", "why", NOW_NS)),
        lambda: write_acknowledgements(client, Acknowledgement("a", "ada", NOW_NS)),
        lambda: write_acknowledgements(client, Acknowledgement("a", "ada", NOW_NS - 1)),
        lambda: store_deliveries(client),
    ):
        change()
        tokens.append(reading.newest_change(client))
    assert len(set(tokens)) == len(tokens)
    assert reading.newest_change(client) == tokens[-1]


def test_the_token_of_jobs_differs_after_a_visible_change_of_a_job_or_a_rank_only(client: Client) -> None:
    tokens = [reading.newest_change(client).jobs]
    state = JobState("east", "A", NOW_NS, JobPhase.IN_STEP, NOW_NS, 0)
    for shown in (
        state,
        replace(state, behind=(3,)),
        replace(state, quiet=(3,)),
        replace(state, phase=JobPhase.STALLED, verdict="hung"),
        replace(state, job="B"),
    ):
        ClickHouseSink(client).write(job_states=[replace(shown, time_ns=NOW_NS + len(tokens))])
        tokens.append(reading.newest_change(client).jobs)
        ClickHouseSink(client).write(job_states=[replace(shown, time_ns=NOW_NS + len(tokens), since_ns=NOW_NS + 9)])
        assert reading.newest_change(client).jobs == tokens[-1]
    assert len(set(tokens)) == len(tokens)


def test_the_most_similar_incidents_are_listed_first_with_their_feedback(client: Client) -> None:
    this = store(client, "this", jobs=("1",), root_node="n1", root_gpu="g1")
    store(client, "gpu", 1, jobs=("2",), root_node="n1", root_gpu="g1")
    store(client, "class", 2, jobs=("1",), root_node="n2")
    store(client, "class-newer", 3, jobs=("1",), root_node="n2")
    store(client, "job", 4, jobs=("1", "5"), root_node="n3", root_failure_class="hang")
    store(client, "merged", 5, jobs=("1",), merged_into="gpu")
    store(client, "other", 6, jobs=("7",), root_node="n7", root_failure_class="hang")
    write_feedback(client, Feedback("class", "ada", NOW_NS, 1, "wrong"))
    found = reading.similar_incidents(client, this)
    assert [(similar.incident.incident_id, list(similar.shared)) for similar in found] == [
        ("gpu", ["class", "node", "GPU"]),
        ("class-newer", ["class", "job"]),
        ("class", ["class", "job"]),
        ("job", ["job"]),
    ]
    assert [similar.verdicts for similar in found] == [(), (), ("wrong",), ()]
    assert len(reading.similar_incidents(client, this, limit=1)) == 1


def test_only_revisions_with_changes_are_listed(client: Client) -> None:
    store(client, "a", 1, revision=1)
    store(client, "a", 2, revision=2)
    store(client, "a", 3, revision=3, failure_class="hang")
    store(client, "a", 4, revision=4, failure_class="hang", status="resolved")
    found = reading.incident_changes(client, "a")
    assert [(change["revision"], change["class"], change["status"]) for change in found] == [
        (1, "gpu.fell_off_bus", "open"),
        (3, "hang", "open"),
        (4, "hang", "resolved"),
    ]


def test_ranks_are_listed_by_their_first_signal_up_to_a_limit(client: Client) -> None:
    client.command(
        "INSERT INTO signals (signal_id, incident_id, event_time, onset, class, node, job, rank, gpu, text)"
        " SELECT toString(number), 'a', toDateTime64(100 + number, 9, 'UTC'), toDateTime64(100 + number, 9, 'UTC'),"
        " if(number < 4, 'hang', 'sigabrt'), 'n1', '7801', 3 - number % 4, 'g1', 'text ' || toString(number)"
        " FROM numbers(8)"
    )
    ranks, count = reading.incident_ranks(client, "a", limit=3)
    assert ([rank["rank"] for rank in ranks], count) == ([3, 2, 1], 4)
    assert (ranks[0]["signals"], ranks[0]["classes"], ranks[0]["text"]) == (2, ["hang", "sigabrt"], "text 0")
    assert reading.incident_ranks(client, "none") == ([], 0)


def store_deliveries(client: Client) -> None:
    client.command(
        "INSERT INTO deliveries (notification_id, target, outcome, incident_id, kind, reason, decided)"
        " SELECT 'n1', 'webhook', ['sent', 'waits'][number + 1], 'a', 'opened', '', toDateTime64(9 - number, 9, 'UTC')"
        " FROM numbers(2)"
    )


def test_deliveries_are_listed_in_order_of_time(client: Client) -> None:
    store_deliveries(client)
    assert [delivery["outcome"] for delivery in reading.incident_deliveries(client, "a")] == ["waits", "sent"]
    assert [delivery["outcome"] for delivery in reading.incident_deliveries(client, "a", limit=1)] == ["sent"]


def test_the_newest_feedback_of_each_person_counts(client: Client) -> None:
    for given_ns, who, verdict in ((1, "ada", "right"), (3, "ada", "wrong"), (2, "bob", "right")):
        write_feedback(client, Feedback("a", who, NOW_NS + given_ns, 1, verdict, "xid-31", "it's 'quoted'"))
    found = list_feedback(client, "a")
    assert [(feedback.who, feedback.verdict) for feedback in found] == [("ada", "wrong"), ("bob", "right")]
    assert found[0] == Feedback("a", "ada", NOW_NS + 3, 1, "wrong", "xid-31", "it's 'quoted'")


def test_every_acknowledgement_is_stored_and_the_newest_counts(client: Client) -> None:
    given = [
        Acknowledgement("a", "ada", NOW_NS, "it's 'quoted'"),
        Acknowledgement("b", "bob", NOW_NS + 1),
        Acknowledgement("a", "bob", NOW_NS + 2, is_taken_back=True),
        Acknowledgement("b", "ada", NOW_NS + 3, "I do"),
    ]
    for acknowledgement in (*reversed(given), *given):
        write_acknowledgements(client, acknowledgement)
    assert list_acknowledgements(client) == given
    assert list_acknowledgements(client, given_after_ns=NOW_NS + 1) == given[2:]
    assert list_acknowledgements(client, incident_ids=["a", "none"]) == [given[0], given[2]]
    assert list_acknowledgements(client, incident_ids=[]) == []
    assert active_acknowledgements(given) == {"b": given[3]}
    assert active_acknowledgements(given[:2]) == {"a": given[0], "b": given[1]}


def test_only_active_silences_and_acknowledgements_are_read_for_delivery(client: Client) -> None:
    now_ns = time_ns()
    write_acknowledgements(client, Acknowledgement("a", "ada", now_ns - 9))
    write_acknowledgements(client, Acknowledgement("b", "ada", now_ns - 8))
    write_acknowledgements(client, Acknowledgement("a", "bob", now_ns - 7, is_taken_back=True))
    silence = Silence("s1", {"node": "n1"}, now_ns, now_ns + 3600 * NS_PER_S, "ada", "why", now_ns)
    write_silences(client, silence)
    write_silences(client, msgspec.structs.replace(silence, silence_id="s2", ends_ns=now_ns))
    found = active_actions(client)
    assert (list(found.silences), list(found.acknowledgements)) == ([silence], ["b"])


def test_a_silence_is_replaced_by_its_newer_version(client: Client) -> None:
    silence = Silence("s1", {"class": "xid-79", "node": "n'1"}, NOW_NS, NOW_NS + 9, "ada", "why", NOW_NS)
    write_silences(client, silence)
    assert list_silences(client) == [silence]
    ended = msgspec.structs.replace(silence, ends_ns=NOW_NS + 2, changed_ns=NOW_NS + 2)
    write_silences(client, ended)
    assert list_silences(client) == [ended]
    assert list_silences(client, ending_after_ns=NOW_NS + 2) == []


def test_jobs_are_listed_with_their_ranks(client: Client) -> None:
    store(client, "a", cluster="default", jobs=("9001",))
    add_job(client, "9001", 256)
    add_job(client, "with'quote", 16)
    found = {job["job"]: job for job in jobs.list_jobs(client)}
    assert found.keys() == {"9001", "with'quote"}
    big = found["9001"]
    assert (big["ranks"], big["step"], big["open"], found["with'quote"]["open"]) == (256, 18_200, 1, 0)
    ranks = jobs.list_ranks(client, "default", "9001")
    assert [rank["rank"] for rank in ranks] == list(range(256))
    assert (ranks[160 - 1]["node"], ranks[159]["gpu"], ranks[159]["step"]) == ("gpu-0020", "0000:df:00", 18_188)
    assert (ranks[255]["step"], ranks[255]["heard_ns"]) == (None, 0)
    assert ranks[0]["node_heard_ns"] > 0
    assert jobs.list_ranks(client, "west", "9001") == []


def store_heartbeat(client: Client, job: str, rank: int, ahead_s: int) -> None:
    """A rank of a job, on a separate node, at step 7, so many seconds after now."""
    given = {"job": job, "rank": rank, "ahead": ahead_s}
    time, node = "now64(9, 'UTC') + toIntervalSecond({ahead:Int64})", "concat('n', toString({rank:Int32}))"
    client.command(
        "INSERT INTO liveness (cluster, job, node, minute, first_event_time, last_event_time, last_step)"
        f" SELECT 'default', {{job:String}}, {node}, toStartOfMinute({time}), {time}, {time}, 7",
        given,
    )
    client.command(
        "INSERT INTO progress (cluster, job, minute, rank, node, first_event_time, last_event_time, first_step,"
        f" last_step) SELECT 'default', {{job:String}}, toStartOfMinute({time}), {{rank:Int32}}, {node}, {time},"
        f" {time}, 7, 7",
        given,
    )


DAY_S = 86_400


def test_a_clock_that_is_ahead_hides_no_other_job_or_rank(client: Client) -> None:
    store_heartbeat(client, "4711", 0, 0)
    store_heartbeat(client, "4711", 1, 3 * DAY_S)
    store_heartbeat(client, "4712", 0, 0)
    store_heartbeat(client, "old", 0, -3 * DAY_S)
    assert [job["job"] for job in jobs.list_jobs(client)] == ["4711", "4712"]
    ranks = jobs.list_ranks(client, "default", "4711")
    assert [(rank["rank"], rank["step"]) for rank in ranks] == [(0, 7), (1, 7)]


@pytest.mark.parametrize("ahead_s", [-365 * DAY_S, 3 * DAY_S])
def test_jobs_with_only_old_or_only_future_lines_are_shown(client: Client, ahead_s: int) -> None:
    store_heartbeat(client, "4711", 0, ahead_s)
    assert [job["job"] for job in jobs.list_jobs(client)] == ["4711"]
    assert [rank["step"] for rank in jobs.list_ranks(client, "default", "4711")] == [7]


def place(client: Client, ranks: range, since_s: int, world_size: int) -> None:
    """The banners of ranks of job 4711, so many seconds after now."""
    client.command(
        "INSERT INTO placements (cluster, job, rank, since, node, world_size) SELECT 'default', '4711', number,"
        " now64(9, 'UTC') + toIntervalSecond({since:Int64}), concat('n', toString(number)), {size:UInt32}"
        " FROM numbers({first:UInt32}, {count:UInt32})",
        {"since": since_s, "size": world_size, "first": ranks.start, "count": len(ranks)},
    )


@pytest.mark.parametrize(("seen_s", "ranks"), [(-600, [0, 1]), (-10, [0, 1, 3])])
def test_ranks_of_a_larger_former_attempt_are_not_listed(client: Client, seen_s: int, ranks: list[int]) -> None:
    place(client, range(4), -900, 4)
    store_heartbeat(client, "4711", 0, 0)
    store_heartbeat(client, "4711", 3, seen_s)
    assert [rank["rank"] for rank in jobs.list_ranks(client, "default", "4711")] == [0, 1, 2, 3]
    place(client, range(2), -300, 2)
    assert [rank["rank"] for rank in jobs.list_ranks(client, "default", "4711")] == ranks
    assert [job["ranks"] for job in jobs.list_jobs(client)] == [2]


def test_without_a_world_size_every_placed_rank_counts(client: Client) -> None:
    place(client, range(4), -900, 0)
    place(client, range(2), -300, 0)
    store_heartbeat(client, "4711", 0, 0)
    assert [rank["rank"] for rank in jobs.list_ranks(client, "default", "4711")] == [0, 1, 2, 3]
    assert [job["ranks"] for job in jobs.list_jobs(client)] == [4]


def an_unnamed(second: float, node: str, job: str, number: int) -> Match:
    template = "lamp of shaft <number> went out"
    text = f"ERROR lamp of shaft {number} went out"
    return a_match("unnamed.failure", second, node, job, text, rank=number, fields={"template": template})


def test_unnamed_messages_are_listed_once_by_template(client: Client) -> None:
    matches = [an_unnamed(20, "n2", "B", 8), an_unnamed(10, "n1", "A", 7), an_unnamed(30, "n1", "A", 9)]
    pairs = [(match, the_rules().spec_of(match)) for match in matches]
    for _ in range(2):
        ClickHouseSink(client).write(matches=pairs)
    (message,) = list_unnamed(client, since_ns=0, limit=10)
    assert (message["template"], message["lines"]) == ("lamp of shaft <number> went out", 3)
    assert (message["nodes"], message["jobs"], message["ranks"]) == (2, 2, 3)
    assert (message["healthy_hours"], message["evidence_lines"]) == (1, 0)
    assert (message["node"], message["job"], message["rank"]) == ("n1", "A", 7)
    assert message["text"] == "ERROR lamp of shaft 7 went out"
    assert list_unnamed(client, since_ns=at(11), limit=10) == []
