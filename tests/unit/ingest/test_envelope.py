"""Each shipper's envelope -> the writer of the line, its node and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from epicenter.ingest.parse.envelope import check_envelope, may_state_time, parse, parse_pieces, stated_time, text_of
from epicenter.ingest.provenance.path import origin_of
from epicenter.rules.errors import RecordError
from epicenter.rules.model.records import LogEvent, Origin
from tests.support.logs import LATER_NS, START_S, at, fluent_bit, iso, journald, kernel, python_json, record, vector

TEXT = "Watchdog caught collective operation timeout"


def event(value: bytes | dict[str, Any], key: bytes | None = None) -> LogEvent:
    whole = value if isinstance(value, bytes) else orjson.dumps(value)
    return parse(record(whole, key), "default").event


SHIPPERS = [
    pytest.param(vector("n1", 5.25, TEXT, job="A"), ("n1", "worker", "A", None), id="vector-kubernetes"),
    pytest.param(fluent_bit("n1", 5.25, TEXT, job="A"), ("n1", "worker", "A", None), id="fluent-bit-kubernetes"),
    pytest.param(journald("n1", 5.25, TEXT), ("n1", "kernel", "", None), id="journald-kernel"),
    pytest.param(journald("n1", 5.25, TEXT, "stdout"), ("n1", "", "", None), id="journald-service"),
    pytest.param(python_json("n1", 5.25, TEXT, job="A"), ("n1", "", "A", None), id="python-json"),
    pytest.param(kernel("n1", 5.25, TEXT), ("n1", "kernel", "", None), id="rsyslog-file"),
    pytest.param(f"<6>1 {iso(5.25)} n1 kernel - - - {TEXT}".encode(), ("n1", "kernel", "", None), id="rfc-5424"),
    pytest.param(f"{iso(5.25)} stderr F [rank3]: {TEXT}".encode(), ("key", "", "", 3), id="cri-file"),
    pytest.param(
        orjson.dumps({"date": START_S + 5.25, "log": TEXT, "tag": "kmsg.0", "host": "n1"}),
        ("n1", "kernel", "", None),
        id="fluent-bit-with-kmsg-tag",
    ),
    pytest.param(
        orjson.dumps(
            {"priority": 3, "sequence": 9, "sec": 8000, "usec": 5, "msg": TEXT, "ts": iso(5.25), "host": "n1"}
        ),
        ("n1", "kernel", "", None),
        id="fluent-bit-kmsg",
    ),
    pytest.param(
        orjson.dumps({"timestamp": iso(5.25), "host": "n1", "message": TEXT, "source": "slurmctld"}),
        ("n1", "scheduler", "", None),
        id="slurm",
    ),
    pytest.param(
        orjson.dumps({"time": iso(5.25), "body": TEXT, "resource": {"host.name": "n1"}}),
        ("n1", "", "", None),
        id="open-telemetry",
    ),
    pytest.param(
        orjson.dumps({"ts": iso(5.25), "host": "n1", "job_id": "A", "rank": 3, "line": TEXT}),
        ("n1", "", "A", 3),
        id="a-site-s-own",
    ),
]


@pytest.mark.parametrize(("value", "who"), SHIPPERS)
def test_every_shipper_s_envelope_gives_identity_and_time(value: bytes, who: tuple[str, str, str, int | None]) -> None:
    found = event(value, key=b"key")
    assert (found.node, found.source, found.job, found.rank) == who
    assert (found.event_time_ns, found.has_own_time) == (at(5.25), True)
    assert found.text.endswith(TEXT)


def test_the_number_of_a_line_of_code_is_no_text() -> None:
    value = orjson.dumps({"ts": iso(5), "event": TEXT, "line": 42})
    assert event(value).text == value.decode()


def test_a_pod_s_names_are_read_from_the_envelope() -> None:
    found = event(vector("n1", 5, TEXT, job="A"))
    assert (found.pod, found.container, found.cluster) == ("train-A", "pytorch", "default")


PRECEDENCE = [
    pytest.param("text", ["message", "log", "msg", "MESSAGE", "body"], id="text"),
    pytest.param("node", ["host", "hostname", "node", "node_name", "_HOSTNAME"], id="node"),
    pytest.param("job", ["job_id", "slurm_job_id", "SLURM_JOB_ID", "job"], id="job"),
    pytest.param("rank", ["rank", "RANK", "global_rank", "task"], id="rank"),
]


@pytest.mark.parametrize(("field", "names"), PRECEDENCE)
def test_the_first_field_that_exists_counts(field: str, names: list[str]) -> None:
    for first in range(len(names)):
        fields: dict[str, Any] = {name: str(number) for number, name in enumerate(names) if number >= first}
        found = getattr(event({"z": 1} | fields, key=b"key"), field)
        assert str(found) == str(first), names[first]


@pytest.mark.parametrize("names", [["timestamp", "@timestamp", "time", "date", "ts", "__REALTIME_TIMESTAMP"]])
def test_the_first_time_that_exists_counts(names: list[str]) -> None:
    for first in range(len(names)):
        fields = {name: START_S + number for number, name in enumerate(names) if number >= first}
        assert event({"message": "x"} | fields).event_time_ns == at(first), names[first]


def test_an_impossible_time_is_skipped_for_the_next() -> None:
    assert event({"timestamp": "1970-01-01T00:00:00Z", "time": iso(5), "message": "x"}).event_time_ns == at(5)
    assert event({"timestamp": "soon", "message": f"{iso(6)} x"}).event_time_ns == at(6)


def test_a_node_by_pod_line_and_key_in_this_order() -> None:
    line = kernel("from-line", 5, TEXT).decode()
    assert event({"message": line, "kubernetes": {"pod_node_name": "from-pod", "host": "h"}}, b"key").node == "from-pod"
    assert event({"message": line, "kubernetes": {"host": "h"}}, b"key").node == "h"
    assert event({"message": line}, b"key").node == "from-line"
    assert event({"message": "x"}, b"key").node == "key"
    assert event(b"x", b"\xff").node == "\ufffd"
    assert event(b"x").node == ""


def test_a_key_that_names_the_job_is_no_node() -> None:
    assert event({"message": "3: x", "job_id": "7877"}, b"7877").node == ""
    assert event({"message": "3: x", "job_id": "7877"}, b"n1").node == "n1"
    assert event({"message": "3: x", "job_id": "7877"}, b"7877").rank == 3


@pytest.mark.parametrize(
    "label",
    [
        "training.kubeflow.org/job-name",
        "jobset.sigs.k8s.io/jobset-name",
        "leaderworkerset.sigs.k8s.io/name",
        "ray.io/cluster",
        "batch.kubernetes.io/job-name",
    ],
)
@pytest.mark.parametrize("labels", ["labels", "pod_labels"])
def test_a_job_by_its_pod_s_labels(label: str, labels: str) -> None:
    assert event({"message": "x", "kubernetes": {labels: {label: "A"}}}).job == "A"
    assert event({"message": "x", "job": "B", "kubernetes": {labels: {label: "A"}}}).job == "B"


def test_a_rank_by_field_prefix_and_pod_index_in_this_order() -> None:
    pod = {"labels": {"batch.kubernetes.io/job-completion-index": "3"}}
    assert event({"message": "[rank2]: x", "rank": 1, "kubernetes": pod}).rank == 1
    assert event({"message": "[rank2]: x", "kubernetes": pod}).rank == 2
    assert event({"message": "x", "kubernetes": pod}).rank == 3
    assert event({"message": "x", "rank": "all"}).rank is None
    assert event({"message": "x", "rank": True}).rank is None


@pytest.mark.parametrize(
    ("line", "fields", "rank"),
    [
        pytest.param(f"[Rank 12] {TEXT}: x", {}, 12, id="header"),
        pytest.param(f"[PG ID 0 PG GUID 0(default_pg) Rank 12] {TEXT}: x", {}, 12, id="header-with-group"),
        pytest.param(f"3: [Rank 12] {TEXT}: x", {}, 12, id="header-behind-a-task"),
        pytest.param(f"[rank2]:[E302 09:00:05.001245877 P.cpp:683] [Rank 12] {TEXT}: x", {}, 2, id="prefix"),
        pytest.param(f"[Rank 12] {TEXT}: x", {"rank": 3}, 3, id="stated-rank"),
        pytest.param("3: x", {}, 3, id="task"),
        pytest.param("x", {}, 1, id="only-the-index"),
    ],
)
def test_a_rank_in_the_header_of_c10d_goes_before_the_task_and_the_index_of_the_pod(
    line: str, fields: dict[str, Any], rank: int
) -> None:
    pod = {"pod_name": "run7-1-x7k2p", "pod_labels": {"batch.kubernetes.io/job-completion-index": "1"}}
    assert event({"message": line, "kubernetes": pod} | fields).rank == rank


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        pytest.param({"_TRANSPORT": "kernel"}, "kernel", id="journal-transport"),
        pytest.param({"SYSLOG_IDENTIFIER": "kernel"}, "kernel", id="syslog-identifier"),
        pytest.param({"tag": "node.kernel"}, "kernel", id="tag"),
        pytest.param({"source": "imkmsg"}, "kernel", id="rsyslog-s-kmsg-input"),
        pytest.param({"programname": "kernel", "facility": "kern"}, "kernel", id="rsyslog-s-program"),
        pytest.param({"syslogtag": "slurmctld[2114]:"}, "scheduler", id="rsyslog-s-tag"),
        pytest.param({"appname": "kernel"}, "kernel", id="vector-s-syslog"),
        pytest.param({"ident": "kernel"}, "kernel", id="fluent-bit-s-syslog-parser"),
        pytest.param({"programname": "train"}, "", id="a-program"),
        pytest.param({"source": "imklog"}, "kernel", id="rsyslog-s-klog-input"),
        pytest.param({"source": "imuxsock"}, "", id="rsyslog-s-input-of-programs"),
        pytest.param({"tag": "var.log.kern.log"}, "kernel", id="tag-of-a-file"),
        pytest.param({"tag": "kube.var.log.containers.flash-kernel-0_ns"}, "worker", id="a-pod-named-kernel"),
        pytest.param({"source_type": "kubernetes_events"}, "kubernetes", id="events"),
        pytest.param({"tag": "var.log.slurmctld.log"}, "scheduler", id="slurmctld"),
        pytest.param({"source": "slurm-7877.out"}, "", id="a-job-s-own-output"),
        pytest.param({"source_type": "docker_logs"}, "worker", id="docker"),
        pytest.param({"kubernetes": {"pod_name": "p"}}, "worker", id="a-pod"),
        pytest.param({"source_type": "file"}, "", id="unknown"),
    ],
)
def test_the_source_follows_from_the_fields_of_an_envelope(fields: dict[str, Any], source: str) -> None:
    assert event({"message": "x"} | fields).source == source


SRUN = Origin(job="A", hosts=("n1", "n2"), tasks_are_ranks=False, log="A.out")


@pytest.mark.parametrize(
    ("line", "origin", "who"),
    [
        pytest.param("1: x", SRUN, ("n2", "A", None), id="task-of-torchrun"),
        pytest.param("1: x", Origin(), ("key", "", 1), id="task"),
        pytest.param("1: [rank9]: x", SRUN, ("n2", "A", 9), id="rank-behind-a-task"),
        pytest.param("1: [PG ID 0 PG GUID 0(default_pg) Rank 9] x", Origin(), ("key", "", 9), id="rank-of-c10d"),
        pytest.param("n9: [rank3]: x", SRUN, ("n9", "A", 3), id="own-host"),
        pytest.param("2: x", SRUN, ("key", "A", None), id="task-on-an-unknown-node"),
        pytest.param("x", Origin(job="a", node="n5", rank=7), ("n5", "a", 7), id="by-the-file"),
        pytest.param("[ 12.345678] x", Origin(job="a", node="n5"), ("n5", "", None), id="kernel"),
        pytest.param("Mar  2 09:00:05 n4 sshd[3]: x", Origin(job="log:a"), ("n4", "", None), id="gathered-by-syslog"),
        pytest.param('{"message":"x"}', SRUN, ("key", "A", None), id="envelope-in-the-log-of-a-job"),
        pytest.param('{"message":"x"}', Origin(job="log:a", node="n5"), ("n5", "log:a", None), id="envelope"),
        pytest.param(
            '{"message":"x","host":"n9"}', Origin(job="log:a", node="n5"), ("n9", "", None), id="envelope-of-a-node"
        ),
        pytest.param('{"message":"x","source":"kernel"}', SRUN, ("key", "", None), id="envelope-of-a-kernel"),
    ],
)
def test_a_plain_line_is_identified_by_its_file(line: str, origin: Origin, who: tuple[str, str, int | None]) -> None:
    parsed = parse(msgspec.structs.replace(record(line.encode(), b"key"), origin=origin), "default").event
    assert (parsed.node, parsed.job, parsed.rank) == who


@pytest.mark.parametrize(
    ("path", "value", "who"),
    [
        pytest.param("7877/cluster.jsonl", python_json("n1", 5, "x"), ("n1", ""), id="folder"),
        pytest.param("job-7877/cluster.jsonl", vector("n1", 5, "x"), ("n1", ""), id="folder-of-a-job"),
        pytest.param("7877/cluster.jsonl", vector("n1", 5, "x", "B"), ("n1", "B"), id="folder-and-own-job"),
        pytest.param("slurm-7877.out", python_json("n1", 5, "x"), ("n1", "7877"), id="file-of-the-job"),
        pytest.param("7878/slurm-7877.out", python_json("n1", 5, "x"), ("n1", "7877"), id="file-in-another-folder"),
        pytest.param("7877/0.jsonl", b'{"log":"x\\n","stream":"stdout"}', ("", "7877"), id="folder-without-a-writer"),
        pytest.param("7877/node-4/rank_9.log", b'{"rank": 9, "msg": "x"}', ("node-4", "7877"), id="only-a-rank"),
        pytest.param("night/rank_9.log", b'{"rank": 9, "msg": "x"}', ("", ""), id="only-a-rank-and-no-job"),
        pytest.param(
            "node-4/night/rank_9.log", b'{"rank": 9, "msg": "x"}', ("node-4", "log:night"), id="node-and-the-same-rank"
        ),
        pytest.param("node-4/night/rank_9.log", b'{"rank": 8, "msg": "x"}', ("", ""), id="node-and-another-rank"),
    ],
)
def test_an_envelope_of_a_writer_has_the_job_of_its_file_but_not_of_the_folder(
    path: str, value: bytes, who: tuple[str, str]
) -> None:
    origin = origin_of(Path("logs", path), Path("logs"))
    parsed = parse(msgspec.structs.replace(record(value), origin=origin), "default").event
    assert (parsed.node, parsed.job) == who


def test_a_kernel_prefix_reveals_the_source_of_an_unknown_file() -> None:
    assert event({"source_type": "file", "message": "[   12.345678] NVRM: Xid"}).source == "kernel"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"message": null}', "should be text, found NoneType"),
        (b'{"message": 17}', "should be text, found int"),
        (b'{"log": {"a": 1}}', "should be text, found dict"),
        (b'{"message": [1, 999]}', "should be text, found list"),
    ],
)
def test_an_envelope_whose_text_is_no_string_is_refused(value: bytes, reason: str) -> None:
    for call in (lambda: parse(record(value), "default"), lambda: check_envelope(value)):
        with pytest.raises(RecordError, match=reason):
            call()
    assert stated_time(record(value)) is None


def test_a_broken_envelope_counts_as_a_plain_line() -> None:
    with pytest.raises(RecordError, match="not JSON"):
        check_envelope(b'{"message":"cut')
    assert event(b'{"message":"cut').text == '{"message":"cut'


@pytest.mark.parametrize(
    "value",
    [b'{"node":' + b'{"a":' * 100_000, b'{"message":' + b"[" * 100_000],
    ids=["objects", "lists"],
)
def test_json_that_is_too_deep_counts_as_a_plain_line(value: bytes) -> None:
    assert text_of(value) == event(value).text == value.decode()


def test_bytes_of_an_envelope_that_are_not_utf_8_are_replaced() -> None:
    value = b'{"host":"n\xf8","message":"a\xff \\u0041"}'
    assert (event(value).node, event(value).text, text_of(value)) == ("n\ufffd", "a\ufffd A", "a\ufffd A")
    check_envelope(value)


def test_an_envelope_without_text_is_its_own_text() -> None:
    assert event({"level": "info", "event": "step"}).text == '{"level":"info","event":"step"}'


def test_journald_s_bytes_are_text() -> None:
    assert event({"MESSAGE": [72, 105, 27, 91, 109, 255]}).text == "Hi\x1b[m\ufffd"


@pytest.mark.parametrize("value", [param.values[0] for param in SHIPPERS], ids=[param.id for param in SHIPPERS])
def test_the_fast_path_agrees_with_the_whole_parse(value: bytes) -> None:
    whole = event(value)
    assert stated_time(record(value)) == whole.event_time_ns
    assert text_of(value).rstrip("\n") == whole.text


def test_a_line_without_a_time_happened_when_it_was_received() -> None:
    found = event(b"x")
    assert (found.event_time_ns, found.has_own_time) == (LATER_NS, False)


@pytest.mark.parametrize(
    ("line", "boot_s", "second"),
    [
        pytest.param("[  605.250000] NVRM: Xid", 5, 610.25, id="kernel"),
        pytest.param("<3>[  605.250000] NVRM: Xid", 5, 610.25, id="priority"),
        pytest.param("[    0.000000] Linux version 6.8.0", 5, 5, id="first-line"),
        pytest.param(f"{iso(7)} n1 kernel: [  605.250000] NVRM: Xid", 5, 7, id="time-in-the-line"),
        pytest.param("NVRM: Xid [  605.250000] x", 5, None, id="uptime-inside"),
        pytest.param("[  605.250000] NVRM: Xid", None, None, id="unknown-start"),
        pytest.param("[99999999.250000] NVRM: Xid", 5, None, id="after-it-was-read"),
    ],
)
def test_a_raw_line_of_a_kernel_whose_start_is_known_has_a_time(
    line: str, boot_s: float | None, second: float | None
) -> None:
    origin = Origin(boot_ns=0 if boot_s is None else at(boot_s))
    of_kernel = msgspec.structs.replace(record(line.encode()), origin=origin)
    found = parse(of_kernel, "default").event
    assert (found.event_time_ns, found.has_own_time) == ((LATER_NS, False) if second is None else (at(second), True))
    assert stated_time(of_kernel) == (None if second is None else at(second))
    assert second is None or may_state_time(line.encode())


def test_a_line_of_docker_is_on_the_node_of_its_file_but_not_of_its_job() -> None:
    value = {"log": "x\n", "stream": "stdout", "attrs": {"tag": "llama-worker-3|llama"}}
    origin = Origin(job="7877", node="n5", log="n5/5e1f-json.log")
    found = parse(msgspec.structs.replace(record(orjson.dumps(value)), origin=origin), "default").event
    assert (found.node, found.job, found.pod) == ("n5", "llama", "llama-worker-3")


def test_the_envelope_may_name_its_cluster() -> None:
    assert event({"cluster": "west", "message": "x"}).cluster == "west"


@pytest.mark.parametrize(
    ("value", "speaker"),
    [
        pytest.param({"message": "x"}, "", id="nothing"),
        pytest.param({"message": "[rank3]: x", "stream": "stderr"}, "stderr rank3", id="stream-and-prefix"),
        pytest.param(f"{iso(5)} stderr F [rank3]: x".encode(), "stderr rank3", id="the-same-in-a-cri-file"),
        pytest.param(b"(W pid=4, ip=10.1.0.9) x", "W pid=4, ip=10.1.0.9", id="plain"),
    ],
)
def test_the_speaker_of_a_line_is_its_stream_and_prefix(value: bytes | dict[str, Any], speaker: str) -> None:
    whole = value if isinstance(value, bytes) else orjson.dumps(value)
    assert parse(record(whole), "default").speaker == speaker


def test_kubectl_s_prefix_names_the_pod_as_a_last_resort() -> None:
    found = event(f"[pod/train-0/pytorch] {iso(5)} x".encode())
    assert (found.pod, found.container, found.event_time_ns) == ("train-0", "pytorch", at(5))
    assert event({"message": "[pod/a/b] x", "kubernetes": {"pod_name": "p", "container_name": "c"}}).pod == "p"


@pytest.mark.parametrize(
    "line",
    [
        f"node07: {iso(5)} stdout F x",
        "[rank3]:[E302 09:00:05.000000000 ProcessGroupNCCL.cpp:9] x",
        "(W pid=4) ERROR 03-02 09:00:05 [core.py:9] x",
        "[rank3]:E0302 09:00:05.000000 412 torch/run.py:9] x",
        "\0\0[Mon Mar  2 09:00:05 2026] x",
    ],
)
def test_a_time_is_read_behind_a_prefix(line: str) -> None:
    assert event(line.encode()).event_time_ns == at(5)


def test_a_piece_inherits_missing_fields_from_its_line() -> None:
    whole = f"{iso(5)} n1 python[4]: 50%\r[rank2]: {iso(9)} x"
    (piece,) = parse_pieces(record(whole.encode()), "default", [f"[rank2]: {iso(9)} x"])
    assert (piece.event.rank, piece.event.node, piece.event.event_time_ns) == (2, "n1", at(9))
    assert (piece.event.text, piece.body) == (whole, "x")
    (piece,) = parse_pieces(record(whole.encode()), "default", ["50%"])
    assert piece.event.event_time_ns == at(5)


def test_a_kubernetes_event_is_about_its_pod_and_node_not_its_shipper() -> None:
    value = {
        "timestamp": "2026-03-02T09:10:30Z",
        "host": "logging-0",
        "metadata": {"name": "train-1-worker-3.17a", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "name": "train-1-worker-3"},
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "source": {"component": "kubelet", "host": "n4"},
        "lastTimestamp": "2026-03-02T09:10:00Z",
    }
    parsed = event(value, b"logging-0")
    assert (parsed.source, parsed.node, parsed.pod) == ("kubernetes", "n4", "train-1-worker-3")
    assert parsed.event_time_ns == at(600)


@pytest.mark.parametrize(("kind", "node", "job"), [("Node", "n4", ""), ("Job", "", "n4")])
def test_an_event_about_a_node_or_a_job_names_it(kind: str, node: str, job: str) -> None:
    parsed = event({"regarding": {"kind": kind, "name": "n4"}, "message": "x", "eventTime": None}, b"elsewhere")
    assert (parsed.node, parsed.job) == (node, job)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"error": "no space left on device"}, "sync failed: no space left on device"),
        ({"err": "exit status 1", "exception": "another"}, "sync failed: exit status 1"),
        ({"exc_info": "Traceback:\nValueError: x"}, "sync failed\nTraceback:\nValueError: x"),
        ({"error": "sync failed"}, "sync failed"),
        ({"error": ""}, "sync failed"),
        ({"error": {"code": 3}}, "sync failed"),
        ({"err": None, "error": 7}, "sync failed"),
    ],
    ids=["error", "the-first", "traceback", "said-already", "empty", "no-text", "null-and-number"],
)
def test_the_error_that_a_logger_puts_into_a_field_follows_the_message(more: dict[str, Any], text: str) -> None:
    value = orjson.dumps({"level": "error", "msg": "sync failed", **more})
    assert (event(value).text, text_of(value)) == (text, text)
