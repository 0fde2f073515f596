"""Which incident, silence or dead letter an id means, in an embedded store."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from epicenter.rules.alerts.silences import Silence
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.named import UnknownIdError, named_incident, the_one
from epicenter.sinks.clickhouse.operator_actions import write_silences
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.sinks.operator_actions import end_silence
from tests.unit.sinks.clickhouse.test_rows import an_incident

IDS = ("3f2a1", "3f2a2", "3f2", "7b")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = connect("chdb://memory/named")
    migrate(client)
    found = [
        msgspec.structs.replace(an_incident(), incident_id=name, last_seen=f"2026-03-02T09:00:0{number}Z")
        for number, name in enumerate(IDS)
    ]
    ClickHouseSink(client).write(incidents=found)
    yield client
    client.close()


@pytest.mark.parametrize(
    ("name", "meant"),
    [("3f2a1", "3f2a1"), ("3f2a2", "3f2a2"), ("3f2", "3f2"), ("7b", "7b"), ("newest", "7b")],
    ids=["whole", "another", "whole-id-that-others-begin-with", "short-but-whole", "newest"],
)
def test_name_means_one_incident(client: Client, name: str, meant: str) -> None:
    assert named_incident(client, name).incident_id == meant


def test_ambiguous_start_lists_the_candidates(client: Client) -> None:
    with pytest.raises(UnknownIdError) as raised:
        named_incident(client, "3f2a")
    request, *listed = str(raised.value).splitlines()
    assert request == "3f2a: write more of the id, at least 3 characters. These begin like this:"
    assert [line.split()[:2] for line in listed] == [["3f2a1", "open"], ["3f2a2", "open"]]
    assert an_incident().failure_class in listed[0]


@pytest.mark.parametrize("name", ["zzz", "", "3f2a9", "%", "\x1b[31m"])
def test_name_of_nothing_is_refused_in_one_line(client: Client, name: str) -> None:
    with pytest.raises(UnknownIdError, match="no such incident") as raised:
        named_incident(client, name)
    assert str(raised.value).isprintable()


def test_newest_of_an_empty_store_is_refused() -> None:
    client = connect("chdb://memory/empty")
    migrate(client)
    with pytest.raises(UnknownIdError, match="newest: no incident is stored yet"):
        named_incident(client, "newest")


def test_start_that_is_too_short_shows_the_only_candidate() -> None:
    with pytest.raises(UnknownIdError, match=r"  abcdef  mine$"):
        the_one("incident", "ab", [("abcdef", "mine")])
    assert the_one("incident", "abc", [("abcdef", "mine")]) == "abcdef"


def test_many_candidates_are_cut() -> None:
    with pytest.raises(UnknownIdError) as raised:
        the_one("incident", "abc", [(f"abc{number}", "") for number in range(6)])
    assert str(raised.value).splitlines()[-1] == "  …"
    assert "abc5" not in str(raised.value)


def test_ambiguous_silence_lists_the_active_ones(client: Client) -> None:
    write_silences(client, *(Silence(name, {"node": "n7"}, 0, 2, "ada", f"case {name}") for name in ("5aa1", "5aa2")))
    with pytest.raises(UnknownIdError, match=r"  5aa1  ada: case 5aa1\n  5aa2  ada: case 5aa2$"):
        end_silence(client, "5aa", 1)
    assert end_silence(client, "5aa2", 1).silence_id == "5aa2"
