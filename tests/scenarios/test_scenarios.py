"""Whole incidents through the core, compared exactly. `pytest --update-golden` rewrites the expected files."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import orjson
import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.local.pipeline import Pipeline, replay
from tests.scenarios.make_inputs import SCENARIOS
from tests.support.logs import the_rules

HERE = Path(__file__).parent
NAMES = sorted(folder.name for folder in HERE.iterdir() if (folder / "input.jsonl").exists())


@pytest.mark.parametrize("name", NAMES)
def test_scenario(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / name)
    sources = Sources(["input.jsonl"], "elsewhere", follow=False)
    found = [
        orjson.loads(msgspec.json.encode(incident))
        for incident in replay(Pipeline(the_rules(), "default", NS_PER_S), sources)
    ]
    sources.close()
    golden = Path("expected.jsonl")
    if request.config.getoption("--update-golden"):
        golden.write_bytes(b"".join(orjson.dumps(incident) + b"\n" for incident in found))
    assert found == [json.loads(line) for line in golden.read_text("utf-8").splitlines()]


def test_every_scenario_of_the_script_has_a_folder() -> None:
    assert sorted(SCENARIOS) == NAMES


@pytest.mark.parametrize(
    ("name", "roots"),
    [
        ("gpu_off_bus_then_timeouts", [("xid-79", "n3", ["7877"])]),
        ("host_oom_then_remote_errors", [("host-oom-kill", "n2", ["7878"])]),
        ("job_stops_without_a_line", [("hang", "", ["7879"])]),
        ("job_finishes", []),
        ("illegal_access_with_xid_31", [("xid-31", "n2", ["7881"])]),
        ("one_node_fails_two_jobs", [("host-oom-kill", "n2", ["A", "B"])]),
        ("two_jobs_fail_apart_on_a_shared_node", [("oom-gpu", "n1", ["A"]), ("cuda-illegal-access", "n3", ["B"])]),
    ],
)
def test_the_expected_incidents_name_the_true_cause(name: str, roots: list[tuple[str, str, list[str]]]) -> None:
    expected = [json.loads(line) for line in (HERE / name / "expected.jsonl").read_text("utf-8").splitlines()]
    assert [(incident["class"], incident["root_cause"]["node"], incident["jobs"]) for incident in expected] == roots
