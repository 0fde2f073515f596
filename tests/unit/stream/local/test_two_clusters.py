"""Two clusters whose nodes and jobs have the same names lend each other nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import Scenario, write_all
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.local.pipeline import Pipeline, replay
from tests.support.logs import the_rules

JOB = "7777"
FAULTS = {"berlin": "gpu-off-bus", "oslo": "gpu-memory-error"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all lines of each cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    for cluster, fault in FAULTS.items():
        made = folder / "made" / cluster
        write_all(Scenario(nodes=8, jobs=1, seed=3, faults=(fault,)), made)
        (own,) = orjson.loads((made / "truth.json").read_bytes())["faults"][0]["jobs"]
        files = sorted(file for file in made.rglob("*") if file.suffix in (".jsonl", ".log"))
        lines = [(file, line.replace(own, JOB)) for file in files for line in file.read_text().splitlines()]
        (folder / f"{cluster}.jsonl").write_bytes(
            b"".join(orjson.dumps({**as_record(file, line), "cluster": cluster}) + b"\n" for file, line in lines)
        )
    return folder


def as_record(file: Path, line: str) -> dict[str, Any]:
    return orjson.loads(line) if file.suffix == ".jsonl" else {"message": line, "hostname": file.parent.name}


def incidents_of(files: list[Path]) -> list[dict[str, Any]]:
    pipeline = Pipeline(the_rules(), "default", 5 * NS_PER_S)
    found = replay(pipeline, Sources(list(map(str, files)), host="", follow=False))
    return in_order(map(msgspec.to_builtins, found))


def in_order(incidents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(incidents, key=lambda incident: incident["incident_id"])


def test_their_incidents_are_those_that_each_has_alone(logs: Path) -> None:
    files = [logs / f"{cluster}.jsonl" for cluster in FAULTS]
    together = incidents_of(files)
    assert together == in_order(incident for file in files for incident in incidents_of([file]))
    assert sorted((incident["cluster"], incident["jobs"]) for incident in together) == [
        (cluster, (JOB,)) for cluster in FAULTS
    ]
