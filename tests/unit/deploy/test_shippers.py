"""Records of Fluent Bit and Vector with the shipped configurations -> the writer of each line, its node and time."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import yaml

from epicenter.ingest.parse.envelope import check_envelope, parse
from epicenter.rules.model.records import Position, RawRecord
from tests.support.logs import LATER_NS, a_scanner, batch
from tests.support.vector import configuration, remapped, with_variables

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
NODE = "gpu-a-12.example.org"
POD_OF_NODE = {"NODE_NAME": NODE, "CLUSTER": "west", "KAFKA_BROKERS": "kafka:9092"}
POD_OF_WORKER = POD_OF_NODE | {
    "JOB_ID": "llama-7877",
    "POD_NAME": "llama-7877-3",
    "POD_NAMESPACE": "train",
    "RANK": "3",
}
TIME_NS = 1_772_442_005_123_456_789
TIME = "2026-03-02T09:00:05.123456789Z"
LABELS = {"training.kubeflow.org/job-name": "llama-7877", "batch.kubernetes.io/job-completion-index": "3"}
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=4242, name=python3, GPU has fallen off the bus."
STEP = '{"step": 12, "msg": "loss=2.3"}'


class ExpectedEvent(NamedTuple):
    """The expected fields of an event."""

    source: str
    time_ns: int
    text: str
    job: str = ""
    rank: int | None = None
    pod: str = ""
    container: str = ""


def assert_parsed_as(record: dict[str, Any], who: ExpectedEvent) -> None:
    value = orjson.dumps(record)
    check_envelope(value)
    event = parse(RawRecord(value, Position("logs.raw/0", 7), LATER_NS, str(record["host"]).encode()), "default").event
    assert (event.node, event.cluster) == (NODE, "west")
    found = ExpectedEvent(
        event.source, event.event_time_ns, event.text, event.job, event.rank, event.pod, event.container
    )
    assert found == who


# ---- Fluent Bit ------------------------------------------------------------------------------------------------------


def added(config: str, tag: str, variables: dict[str, str]) -> dict[str, str]:
    """What the record_modifier filters add to a record of this tag; Fluent Bit has no defaults for variables."""
    pipeline = yaml.safe_load((DEPLOY / "fluent-bit" / config).read_text())["pipeline"]
    found: dict[str, str] = {}
    for filter_ in pipeline["filters"]:
        if filter_["name"] == "record_modifier" and filter_["match"] in ("*", tag):
            pairs = (re.sub(r"\$\{(\w+)\}", lambda name: variables[name[1]], pair) for pair in filter_["record"])
            found |= dict(pair.split(" ", 1) for pair in pairs)
    return found


def fluent_bit_pod(stream: str, text: str) -> dict[str, Any]:
    """tail with multiline.parser cri and the kubernetes filter, as docs.fluentbit.io shows them."""
    return {
        "@timestamp": TIME,
        "time": TIME,
        "stream": stream,
        "_p": "F",
        "log": text,
        "kubernetes": {
            "pod_name": "llama-7877-worker-3",
            "namespace_name": "train",
            "pod_id": "c759a5f5-0000-0000-9117-8a1dc0b1f907",
            "labels": LABELS,
            "host": NODE,
            "pod_ip": "10.128.0.111",
            "container_name": "pytorch",
            "docker_id": "2accf0",
            "container_image": "train/pytorch:26.02",
        },
    }


FLUENT_BIT = [
    pytest.param(
        "daemonset.yaml",
        "kube.var.log.containers.llama",
        fluent_bit_pod("stderr", STEP),
        ExpectedEvent("worker", TIME_NS, STEP, "llama-7877", 3, "llama-7877-worker-3", "pytorch"),
        id="pod-whose-lines-are-json",
    ),
    pytest.param(
        "daemonset.yaml",
        "kube.var.log.containers.llama",
        fluent_bit_pod("stdout", "[rank27]: ValueError: x"),
        ExpectedEvent("worker", TIME_NS, "[rank27]: ValueError: x", "llama-7877", 27, "llama-7877-worker-3", "pytorch"),
        id="pod-with-several-ranks",
    ),
    pytest.param(
        "daemonset.yaml",
        "kernel",
        {"@timestamp": TIME, "priority": 4, "sequence": 1814, "sec": 11706, "usec": 732233, "msg": XID},
        ExpectedEvent("kernel", TIME_NS, XID),
        id="kmsg",
    ),
    pytest.param(
        "sidecar.yaml",
        "worker",
        {"@timestamp": TIME, "file": "/var/log/worker/out.log", "log": "loss=2.3"},
        ExpectedEvent("worker", TIME_NS, "loss=2.3", "llama-7877", 3, "llama-7877-3"),
        id="sidecar",
    ),
    pytest.param(
        "sidecar.yaml",
        "shipper",
        {"@timestamp": TIME, "log": "[2026/03/02 09:00:05] [ warn] [engine] x"},
        ExpectedEvent("", TIME_NS, "[2026/03/02 09:00:05] [ warn] [engine] x"),
        id="the-sidecar-s-own-log-is-of-no-job",
    ),
]


@pytest.mark.parametrize(("config", "tag", "record", "who"), FLUENT_BIT)
def test_records_of_fluent_bit_are_identified(
    config: str, tag: str, record: dict[str, Any], who: ExpectedEvent
) -> None:
    assert_parsed_as(record | added(config, tag, POD_OF_WORKER), who)


def test_a_sidecar_of_fluent_bit_may_leave_the_rank_to_the_lines() -> None:
    variables = POD_OF_WORKER | {"RANK": "-"}
    record = {"@timestamp": TIME, "log": "[rank5]: x"} | added("sidecar.yaml", "worker", variables)
    assert_parsed_as(record, ExpectedEvent("worker", TIME_NS, "[rank5]: x", "llama-7877", 5, "llama-7877-3"))


# ---- Vector ----------------------------------------------------------------------------------------------------------


def vector_transform(config: str, name: str, event: dict[str, Any], variables: dict[str, str]) -> dict[str, Any]:
    text = (DEPLOY / "vector" / config).read_text()
    return remapped(configuration(text, variables)["transforms"][name]["source"], event, variables)


VECTOR_POD = {
    "file": "/var/log/pods/train_llama-7877-worker-3_c759/pytorch/0.log",
    "kubernetes": {
        "container_id": "containerd://f24c81dcd531c5d353751c77fe0556a4",
        "container_image": "train/pytorch:26.02",
        "container_name": "pytorch",
        "namespace_labels": {"kubernetes.io/metadata.name": "train"},
        "node_labels": {"kubernetes.io/hostname": NODE},
        "pod_ip": "10.128.0.111",
        "pod_ips": ["10.128.0.111"],
        "pod_labels": LABELS,
        "pod_name": "llama-7877-worker-3",
        "pod_namespace": "train",
        "pod_node_name": NODE,
        "pod_owner": "Job/llama-7877-worker",
        "pod_uid": "c759a5f5-0000-0000-9117-8a1dc0b1f907",
    },
    "message": STEP,
    "source_type": "kubernetes_logs",
    "stream": "stderr",
    "timestamp": TIME,
}
VECTOR_JOURNALD = {
    "PRIORITY": "4",
    "SYSLOG_FACILITY": "0",
    "SYSLOG_IDENTIFIER": "kernel",
    "_BOOT_ID": "124c781146e841ae8d9b4590df8b9231",
    "_MACHINE_ID": "c36e9ea52800a19d214cb71b53263a28",
    "_SOURCE_MONOTONIC_TIMESTAMP": "11706732233",
    "_TRANSPORT": "kernel",
    "__MONOTONIC_TIMESTAMP": "11706732299",
    "__REALTIME_TIMESTAMP": "1772442005123456",
    "host": "short-name",
    "message": XID,
    "source_type": "journald",
    "timestamp": "2026-03-02T09:00:05.123456Z",
}
VECTOR_FILE = {
    "file": "/var/log/worker/out.log",
    "host": "llama-7877-3",
    "message": "loss=2.3",
    "source_type": "file",
    "timestamp": TIME,
}

VECTOR = [
    pytest.param(
        "daemonset.yaml",
        VECTOR_POD,
        ExpectedEvent("worker", TIME_NS, STEP, "llama-7877", 3, "llama-7877-worker-3", "pytorch"),
        id="kubernetes-logs",
    ),
    pytest.param(
        "daemonset.yaml", VECTOR_JOURNALD, ExpectedEvent("kernel", TIME_NS // 1000 * 1000, XID), id="journald"
    ),
    pytest.param(
        "sidecar.yaml",
        VECTOR_FILE,
        ExpectedEvent("worker", TIME_NS, "loss=2.3", "llama-7877", 3, "llama-7877-3"),
        id="file",
    ),
]


@pytest.mark.parametrize(("config", "event", "who"), VECTOR)
def test_records_of_vector_are_identified(config: str, event: dict[str, Any], who: ExpectedEvent) -> None:
    assert_parsed_as(vector_transform(config, "named", event, POD_OF_WORKER), who)


def test_a_sidecar_of_vector_may_leave_the_rank_to_the_lines() -> None:
    variables = POD_OF_WORKER | {"RANK": ""}
    record = vector_transform("sidecar.yaml", "named", VECTOR_FILE | {"message": "[rank5]: x"}, variables)
    assert_parsed_as(record, ExpectedEvent("worker", TIME_NS, "[rank5]: x", "llama-7877", 5, "llama-7877-3"))


@pytest.mark.parametrize("config", ["daemonset.yaml", "sidecar.yaml"])
def test_vector_cuts_and_marks_long_messages(config: str) -> None:
    record = vector_transform(config, "named", VECTOR_FILE | {"message": "é" * 900_001}, POD_OF_WORKER)
    assert record["message"] == "é" * 900_000 + " [message truncated after 900000 characters]"
    whole = vector_transform(config, "named", VECTOR_FILE | {"message": "é" * 900_000}, POD_OF_WORKER)
    assert whole["message"] == "é" * 900_000


@pytest.mark.parametrize("config", ["daemonset.yaml", "sidecar.yaml"])
def test_lost_lines_reported_by_vector_are_shipped_and_matched(config: str) -> None:
    event = {
        "message": "Events dropped",
        "count": 17,
        "intentional": False,
        "reason": "Service call failed.",
        "metadata": {"kind": "event", "level": "ERROR", "module_path": "vector", "target": "vector"},
        "pid": 1,
        "source_type": "internal_logs",
        "timestamp": TIME,
        "host": "llama-7877-3",
    }
    record = vector_transform(config, "own", event, POD_OF_WORKER)
    assert_parsed_as(record, ExpectedEvent("", TIME_NS, "vector: Events dropped count=17 Service call failed."))
    matches = a_scanner().scan(batch([orjson.dumps(record)])).matches
    assert [(match.rule, match.event.node) for match in matches] == [("python.log_cut", NODE)]
    with pytest.raises(Exception, match="aborted"):
        vector_transform(config, "own", event | {"metadata": {"level": "INFO"}}, POD_OF_WORKER)


def test_vector_s_recipe_against_secrets_works_as_documented() -> None:
    document = (ROOT / "docs/secrets.md").read_text()
    recipe = re.search(r"^```toml\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    assert recipe
    program = tomllib.loads(with_variables(recipe[1], {}))["transforms"]["without_secrets"]["source"]
    secret = "q9" * 12
    for line, wanted in (
        (f"postgresql://mlflow:{secret}@db:5432/runs", "postgresql://mlflow:[redacted:url-password]@db:5432/runs"),
        (f"Authorization: Bearer {secret}", "Authorization: Bearer [redacted:authorization]"),
        (f"login with hf_{secret}", "login with [redacted:token]"),
        (f"WANDB_API_KEY={secret}", "WANDB_API_KEY=[redacted:named]"),
        ("step 12 loss=2.3 at https://example.org/runs", "step 12 loss=2.3 at https://example.org/runs"),
    ):
        assert remapped(program, {"message": line}, {})["message"] == wanted
