"""A simulated run as files: all at once, or paced as it happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from epicenter.ingest.simulate.headers import hostlist
from epicenter.ingest.simulate.model import MS, Scenario, Truth
from epicenter.ingest.simulate.plan import Plan, leaves, plan_of
from epicenter.ingest.simulate.run import simulate
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S

TRUTH_FILE: Final = "truth.json"
TOPOLOGY_FILE: Final = "topology.yaml"

_INSTANT_NS: Final = 100 * MS


def write_all(scenario: Scenario, folder: Path) -> Truth:
    """Write the whole run and its truth into `folder` at once; files of an earlier run are replaced.

    Each file's time of modification is that of its last line, as after a real run.
    """
    ended_ns: dict[str, int] = {}
    files = _Files(folder)
    for line in simulate(scenario):
        files.write(line.path, line.text)
        ended_ns[line.path] = line.written_ns
    files.close()
    for path, time_ns in ended_ns.items():
        os.utime(folder / path, ns=(time_ns, time_ns))
    return write_truth(scenario, folder)


def write_paced(scenario: Scenario, folder: Path, speed: float, wait: Callable[[float], None]) -> Truth:
    """Write the run as it happens, `speed` times as fast as real time; ends up with the same files as `write_all`.

    Lines of the same tenth of a simulated second appear together; before the next ones, `wait` gets the seconds to let
    pass. The truth is there from the start.
    """
    if speed <= 0:
        raise ConfigError([f"speed: {speed}: must be above 0"])
    truth = write_truth(scenario, folder)
    files, now = _Files(folder), 0
    for line in simulate(scenario):
        instant = (line.written_ns - scenario.start_ns) // _INSTANT_NS
        if instant > now:
            files.flush()
            wait((instant - now) * _INSTANT_NS / NS_PER_S / speed)
            now = instant
        files.write(line.path, line.text)
    files.close()
    return truth


def write_truth(scenario: Scenario, folder: Path) -> Truth:
    """Write the ground truth, and the topology where it is known; no logs."""
    plan = plan_of(scenario)
    truth = plan.truth()
    folder.mkdir(parents=True, exist_ok=True)
    if "topology" in scenario.disturbances:
        (folder / TOPOLOGY_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(_topology(plan))) + b"\n")
    (folder / TRUTH_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(truth)) + b"\n")
    return truth


def _topology(plan: Plan) -> dict[str, object]:
    nodes: dict[str, object] = {
        hostlist(leaf): {"switches": [f"leaf{number:02d}"], "rack": f"rack{number:02d}", "storage": ["nfs-10.0.240.7"]}
        for number, leaf in enumerate(leaves(plan.nodes), start=1)
    }
    return {"nodes": nodes}


class _Files:
    """The log files of one folder: lines are gathered for each file and appended together, few files open at once."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._waiting: dict[str, list[str]] = {}
        self._waiting_lines = 0
        self._known: set[str] = set()

    def write(self, path: str, text: str) -> None:
        self._waiting.setdefault(path, []).append(text)
        self._waiting_lines += 1
        if self._waiting_lines >= 20_000:
            self.flush()

    def flush(self) -> None:
        for path, texts in self._waiting.items():
            full, mode = self._folder / path, "ab" if path in self._known else "wb"
            if path not in self._known:
                full.parent.mkdir(parents=True, exist_ok=True)
                self._known.add(path)
            with full.open(mode) as file:
                file.write("\n".join([*texts, ""]).encode())
        self._waiting.clear()
        self._waiting_lines = 0

    def close(self) -> None:
        self.flush()
