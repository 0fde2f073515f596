"""Lines exported from Loki, Google Cloud Logging and CloudWatch: who wrote them, when, and their text."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from epicenter.ingest.parse.envelope import parse, stated_cluster, stated_time, text_of
from epicenter.rules.model.records import LogEvent
from tests.support.logs import START_S, at, fluent_bit, iso, python_json, record, vector

TEXT = "Watchdog caught collective operation timeout"
POD = {"pod_name": "run7-worker-1", "node_name": "gke-a1", "container_name": "pytorch"}


def event(fields: dict[str, Any]) -> LogEvent:
    return parse(record(orjson.dumps(fields)), "default").event


def loki(line: Any = TEXT, **labels: str) -> dict[str, Any]:
    """A line of `logcli -o jsonl`."""
    return {"labels": labels, "line": line, "timestamp": iso(5.25)}


def google(labels: dict[str, str] | None = None, resource: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A LogEntry of `gcloud logging read --format json`."""
    described = {"type": "k8s_container", "labels": resource or {}}
    return {"insertId": "1x", "labels": labels or {}, "resource": described, "timestamp": iso(5.25)} | more


def cloudwatch(stream: str, message: str = TEXT) -> dict[str, Any]:
    """An event of `aws logs filter-log-events`."""
    return {"logStreamName": stream, "timestamp": START_S * 1000 + 5250, "message": message, "eventId": "37"}


def with_group(group: str, stream: str, message: str = TEXT) -> dict[str, Any]:
    """An event of CloudWatch with its group, as tools that export many groups write it."""
    return {"timestamp": START_S * 1000 + 5250, "message": message, "logGroup": group, "logStream": stream}


SAGEMAKER = "/aws/sagemaker/TrainingJobs"


def as_text(envelope: bytes) -> str:
    return envelope.decode()


JOURNAL = {"MESSAGE": TEXT, "_HOSTNAME": "n1", "_TRANSPORT": "kernel"}
EXPORTS = [
    pytest.param(loki(instance="n1", job="A", rank="3"), ("n1", "", "A", 3), id="loki"),
    pytest.param(loki(host="n1", job_name="7877"), ("n1", "", "7877", None), id="loki-with-a-job-name"),
    pytest.param(loki(instance="n1", transport="kernel"), ("n1", "kernel", "", None), id="loki-with-the-journal"),
    pytest.param(loki(as_text(vector("n1", 5, TEXT, "A")), job="pods"), ("n1", "worker", "A", None), id="loki-vector"),
    pytest.param(google(textPayload=TEXT, resource=POD), ("gke-a1", "worker", "", None), id="google-container"),
    pytest.param(
        google({"k8s-pod/training_kubeflow_org/job-name": "A"}, POD, textPayload=TEXT),
        ("gke-a1", "worker", "A", None),
        id="google-label-with-underscores",
    ),
    pytest.param(
        google({"k8s-pod/job-name": "A"}, POD, jsonPayload={"message": TEXT, "rank": 3}),
        ("gke-a1", "worker", "A", 3),
        id="google-label-without-a-domain",
    ),
    pytest.param(
        google({"compute.googleapis.com/resource_name": "gke-a1"}, jsonPayload={"message": TEXT}),
        ("gke-a1", "", "", None),
        id="google-machine",
    ),
    pytest.param(google(jsonPayload=JOURNAL), ("n1", "kernel", "", None), id="google-journal"),
    pytest.param(cloudwatch("gpu-a-12/job-7877/stderr"), ("gpu-a-12", "", "7877", None), id="cloudwatch-node-and-job"),
    pytest.param(cloudwatch("ip-10-0-3-17.ec2.internal"), ("ip-10-0-3-17.ec2.internal", "", "", None), id="cloudwatch"),
    pytest.param(cloudwatch("raysubmit_Ab12/node-4"), ("node-4", "", "raysubmit_Ab12", None), id="cloudwatch-ray"),
    pytest.param(cloudwatch("run-3f2a91/gpu-a-12/agent"), ("gpu-a-12", "", "run-3f2a91", None), id="cloudwatch-run"),
    pytest.param(cloudwatch("default/main"), ("", "", "", None), id="cloudwatch-other-names"),
    pytest.param(cloudwatch("2026/11/25/[$LATEST]ab12"), ("", "", "", None), id="cloudwatch-date"),
    pytest.param(cloudwatch("20261125/7877"), ("", "", "7877", None), id="cloudwatch-date-and-job"),
    pytest.param(with_group("/train/llama", "gpu-a-1/rank3"), ("gpu-a-1", "", "llama", 3), id="group-of-a-job"),
    pytest.param(with_group("/ml/jobs/llama", "alpha/rank-3"), ("alpha", "", "llama", 3), id="group-and-any-node"),
    pytest.param(with_group("/train/llama", "alpha/stderr"), ("", "", "llama", None), id="group-and-another-stream"),
    pytest.param(with_group("/train/llama", "rank3"), ("", "", "llama", 3), id="group-and-rank"),
    pytest.param(with_group("/train/job", "gpu-a-1/rank3"), ("gpu-a-1", "", "", 3), id="group-of-all-jobs"),
    pytest.param(with_group("/train/llama/dev", "gpu-a-1"), ("gpu-a-1", "", "", None), id="group-below"),
    pytest.param(with_group(SAGEMAKER, "llama/algo-1-1772442000"), ("", "", "llama", None), id="sagemaker"),
    pytest.param(with_group(SAGEMAKER, "llama"), ("", "", "", None), id="sagemaker-without-a-process"),
    pytest.param(with_group("/aws/eks", "gpu-a-1/job-7877"), ("gpu-a-1", "", "7877", None), id="another-group"),
    pytest.param(loki(instance="n7:9100"), ("n7", "", "", None), id="loki-instance-with-a-port"),
    pytest.param(loki(host="n1", instance="n7:9100"), ("n1", "", "", None), id="loki-host-before-instance"),
    pytest.param(
        cloudwatch("run7", as_text(fluent_bit("n1", 5, TEXT, "A"))),
        ("n1", "worker", "A", None),
        id="aws-shipper",
    ),
]


@pytest.mark.parametrize(("fields", "who"), EXPORTS)
def test_an_export_gives_identity_time_and_text(fields: dict[str, Any], who: tuple[str, str, str, int | None]) -> None:
    found = event(fields)
    assert (found.node, found.source, found.job, found.rank) == who
    assert found.has_own_time
    assert found.text == TEXT


@pytest.mark.parametrize("fields", [param.values[0] for param in EXPORTS], ids=[param.id for param in EXPORTS])
def test_the_fast_path_agrees_with_the_whole_parse_of_an_export(fields: dict[str, Any]) -> None:
    value, whole = orjson.dumps(fields), event(fields)
    assert text_of(value).rstrip("\n") == whole.text
    assert stated_time(record(value)) == whole.event_time_ns


@pytest.mark.parametrize(
    "fields",
    [loki(), google(textPayload=TEXT), cloudwatch("default/main"), with_group("/train/llama", "gpu-a-1/rank3")],
    ids=["loki", "google", "cloudwatch-in-milliseconds", "cloudwatch-with-its-group"],
)
def test_the_time_of_an_export_is_that_of_the_store(fields: dict[str, Any]) -> None:
    assert event(fields).event_time_ns == at(5.25)


def test_the_pod_of_a_container_is_read_from_an_export() -> None:
    of_google, of_loki = event(google(textPayload=TEXT, resource=POD)), event(loki(pod="p", container="c"))
    assert (of_google.pod, of_google.container) == ("run7-worker-1", "pytorch")
    assert (of_loki.pod, of_loki.container) == ("p", "c")


@pytest.mark.parametrize(
    ("label", "job"),
    [
        pytest.param("loki/promtail", "", id="namespace-and-name"),
        pytest.param("systemd-journal", "", id="journal"),
        pytest.param("varlogs", "", id="files"),
        pytest.param("fluent-bit", "", id="shipper"),
        pytest.param("kubernetes-pods", "", id="pods"),
        pytest.param("llama-7b", "llama-7b", id="training-job"),
        pytest.param("vectorized-7b", "vectorized-7b", id="begins-like-a-shipper"),
    ],
)
def test_the_job_label_of_loki_is_the_training_job_unless_it_names_the_collector(label: str, job: str) -> None:
    assert event(loki(job=label)).job == job


def test_the_line_of_a_shipper_in_an_export_has_its_cluster() -> None:
    inner = as_text(vector("n1", 5, TEXT, cluster="west"))
    assert stated_cluster(orjson.dumps(cloudwatch("run7", inner))) == "west"


@pytest.mark.parametrize("make", [loki, lambda text: cloudwatch("run7", text)], ids=["loki", "cloudwatch"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(as_text(python_json("n1", 5, TEXT)), id="record-of-a-program"),
        pytest.param('{"step": 3, "loss": 2.1}', id="metrics"),
        pytest.param('{"stream": "cut', id="broken"),
    ],
)
def test_json_that_no_shipper_wrote_is_the_text_of_an_export(make: Any, text: str) -> None:
    assert event(make(text)).text == text_of(orjson.dumps(make(text))) == text


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"line": 7, "message": TEXT}, id="line-without-labels"),
        pytest.param({"line": 7, "labels": ["a"], "message": TEXT}, id="labels-of-another-kind"),
        pytest.param({"labels": {"a": "b"}, "message": TEXT}, id="labels-without-a-line"),
        pytest.param({"logGroup": "/train/llama", "message": TEXT}, id="group-without-a-stream"),
        pytest.param({"logStream": "gpu-a-1/rank3", "message": TEXT}, id="stream-without-a-group"),
    ],
)
def test_a_record_with_only_some_fields_of_an_export_is_none(fields: dict[str, Any]) -> None:
    assert event(fields).text == text_of(orjson.dumps(fields)) == TEXT


def test_a_stream_without_its_group_names_no_writer() -> None:
    found = event({"host": "n7", "logStream": "gpu-a-1/rank3", "message": TEXT})
    assert (found.node, found.rank) == ("n7", None)


def test_a_shipper_s_record_in_an_event_with_its_group_has_the_record_s_text() -> None:
    fields = with_group("/train/llama", "gpu-a-1/rank3", as_text(vector("n1", 5, TEXT, "A")))
    assert text_of(orjson.dumps(fields)) == event(fields).text == TEXT


@pytest.mark.parametrize("name", ["_source", "attributes"])
def test_the_record_of_a_search_is_in_a_separate_field(name: str) -> None:
    hit = {"_index": "logs", name: {"message": 'say "so"', "timestamp": "2026-03-02T09:00:01Z", "host": "gpu017"}}
    value = orjson.dumps(hit)
    event = parse(record(value), "default").event
    assert (event.text, event.node, event.has_own_time) == ('say "so"', "gpu017", True)
    assert text_of(value) == 'say "so"'
