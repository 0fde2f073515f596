"""Kubernetes Events that an exporter prints: the text of a line in the exporter's own envelope."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec import structs

from epicenter.ingest.parse.envelope import parse, stated_time
from epicenter.rules.model.records import LogEvent, Origin
from tests.support.logs import a_scanner, at, batch, fluent_bit, iso, record, vector

POD = {"kind": "Pod", "namespace": "ml", "name": "run7-worker-3", "uid": "4e0b7f52", "apiVersion": "v1"}
NODE = {"kind": "Node", "name": "n4", "uid": "n4"}


def printed(**more: Any) -> str:
    """An Event of core/v1 as JSON on one line, in the order of kubernetes-event-exporter."""
    fields = {
        "metadata": {
            "name": "run7-worker-3.18a2c4d1f0b3",
            "namespace": "ml",
            "creationTimestamp": "2026-03-02T09:10:00Z",
        },
        "reason": "Evicted",
        "message": "The node was low on resource: memory. ",
        "source": {"component": "kubelet", "host": "n4"},
        "firstTimestamp": "2026-03-02T09:10:00Z",
        "lastTimestamp": "2026-03-02T09:10:00Z",
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": "kubelet",
        "reportingInstance": "n4",
        "involvedObject": POD,
    }
    return orjson.dumps(fields | more).decode()


def event(value: bytes) -> LogEvent:
    return parse(record(value), "default").event


def who(found: LogEvent) -> tuple[str, str, str, str]:
    return found.source, found.node, found.pod, found.job


PRINTED = [
    pytest.param(printed(), ("kubernetes", "n4", "run7-worker-3", ""), id="pod"),
    pytest.param(printed(involvedObject=NODE, source={}), ("kubernetes", "n4", "", ""), id="node"),
    pytest.param(
        printed(involvedObject=POD | {"kind": "Job", "name": "run7"}), ("kubernetes", "n4", "", "run7"), id="job"
    ),
    pytest.param(printed(source={}), ("kubernetes", "", "run7-worker-3", ""), id="without-a-node"),
]


def loki_with_a_job(node: str, seconds: float, text: str) -> bytes:
    """A line of a Loki export whose shipper gives every pod another job, that of the exporter too."""
    labels = {"pod": "exporter-5d9c7", "node": node, "job_id": "run-0cebf0"}
    return orjson.dumps({"labels": labels, "line": text, "timestamp": iso(seconds)})


@pytest.mark.parametrize("shipped", [vector, fluent_bit, loki_with_a_job])
@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_an_event_that_an_exporter_prints_is_about_its_object_not_the_exporter(
    shipped: Any, text: str, expected: tuple[str, str, str, str]
) -> None:
    assert who(event(shipped("mgmt", 605, text))) == expected


@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_an_event_in_the_log_file_of_an_exporter_s_container_is_of_no_file(
    text: str, expected: tuple[str, str, str, str]
) -> None:
    path = Origin(node="mgmt", job="exporter", log="/var/log/containers/exporter-5d9c7_monitoring_main-0b1c.log")
    line = record(f"{iso(605)} stdout F {text}".encode())
    found = parse(structs.replace(line, origin=path), "default").event
    assert (*who(found), found.log) == (*expected, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"kind":"Pod","name":"run7-worker-3","reason":"Evicted"}', id="no-object"),
        pytest.param('{"involvedObject":"run7-worker-3","host":"n9","job":"B"}', id="object-is-a-name"),
        pytest.param('{"step":7,"note":"an \\"involvedObject\\" in a text"}', id="the-word-alone"),
        pytest.param(printed()[:-1], id="cut"),
        pytest.param(f"got {printed()}", id="words-before-it"),
    ],
)
def test_another_text_is_of_the_pod_that_prints_it(text: str) -> None:
    assert who(event(vector("mgmt", 605, text, "A"))) == ("worker", "mgmt", "train-A", "A")


@pytest.mark.parametrize("shipped", [vector, fluent_bit])
def test_an_event_that_an_exporter_prints_has_the_time_of_the_envelope(shipped: Any) -> None:
    value = shipped("mgmt", 605, printed())
    assert stated_time(record(value)) == event(value).event_time_ns == at(605)


def test_a_rule_finds_an_event_that_an_exporter_prints() -> None:
    (match,) = a_scanner().scan(batch([vector("mgmt", 605, printed())])).matches
    assert (match.rule, *who(match.event)) == ("k8s.evicted", "kubernetes", "n4", "run7-worker-3", "")


@pytest.mark.parametrize("name", ["event", "object"])
def test_an_event_of_a_watch_is_the_event_in_it(name: str) -> None:
    event = {"involvedObject": NODE, "reason": "NodeNotReady", "message": "Node n4 status is now: NodeNotReady"}
    value = orjson.dumps({"@timestamp": iso(5), "verb": "ADDED", name: event | {"source": {}}})
    found = parse(record(value), "default").event
    assert (found.source, found.node, found.text) == ("kubernetes", "n4", event["message"])


@pytest.mark.parametrize("of_object", ["involvedObject", "regarding"])
def test_an_event_without_metadata_has_its_own_time(of_object: str) -> None:
    fields = orjson.loads(printed(lastTimestamp="2026-03-02T09:10:05Z"))
    fields[of_object] = fields.pop("involvedObject")
    del fields["metadata"]
    value = orjson.dumps(fields)
    assert stated_time(record(value)) == event(value).event_time_ns == at(605)
    assert event(value).has_own_time


def test_fields_of_an_event_s_time_in_another_record_are_none() -> None:
    value = orjson.dumps({"host": "n1", "message": "retrying", "lastTimestamp": "2026-03-02T09:10:05Z"})
    assert not event(value).has_own_time


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"metadata": {"name": "e1", "labels": {"job_id": "a1"}}}, id="event"),
        pytest.param({"involvedObject": POD | {"labels": {"job_id": "a1"}}}, id="object"),
        pytest.param(
            {"metadata": {"labels": {"job_id": "b2"}}, "involvedObject": POD | {"labels": {"job_id": "a1"}}}, id="both"
        ),
    ],
)
def test_the_labels_of_an_event_name_the_job_that_it_is_about(more: dict[str, Any]) -> None:
    assert parse(record(printed(**more).encode()), "default").event.job == "a1"
