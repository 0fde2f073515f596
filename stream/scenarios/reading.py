"""Scenario files -> scenarios, each checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epicenter.rules.documents.document import line_of, parse_document, with_present_names, yaml_files
from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.topology import Topology, read_topology
from epicenter.stream.scenarios.notation import ALL_RANKS
from epicenter.stream.scenarios.spec import LineSpec, ScenarioSpec

FOLDER = "scenarios"
"""Scenarios in a folder of this name next to a user's packs are played with them."""

FORMER_KEYS: Final = {"lateness": "allowed_lateness"}
"""Former name -> present name of a key at the top of a file."""

MAX_LINES: Final = 200_000
"""At most this many lines of one entry."""

_Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Scenario:
    """A scenario with its positions: `expect_places` has a `file:line` for each step.

    `topology` is the one that it names, if any.
    """

    name: str
    spec: ScenarioSpec
    expect_places: tuple[str, ...]
    topology: Topology | None = None
    warnings: tuple[str, ...] = ()
    """A line for each former name in the file, with the present one."""


def read_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """The scenarios (`*.yaml`) of files and folders.

    Raises:
        ConfigError: with every problem of every file, each with its file and line.
    """
    problems: list[str] = []
    files = [file for path in paths for file in yaml_files(path, "scenario", problems)]
    found = [scenario for file in files if (scenario := _read(file, problems))]
    if problems:
        raise ConfigError(problems)
    return found


def scenario_folders(packs: Sequence[Path]) -> list[Path]:
    """The folders of scenarios next to these packs, each once."""
    folders = [(pack if pack.is_dir() else pack.parent) / FOLDER for pack in packs]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _read(file: Path, problems: list[str]) -> Scenario | None:
    document = parse_document(file, Path.read_bytes, "scenario", problems)
    if document is None:
        return None
    document, warnings = with_present_names(document, FORMER_KEYS, problems)
    spec, lines = document.checked(ScenarioSpec, "scenario", problems), document.lines
    if spec is None:
        return None
    problems += [f"{file}:{line_of(lines, place)}: {'.'.join(map(str, place))}: {what}" for place, what in faults(spec)]
    places = [("steps", number, "expect") if spec.steps else ("expect",) for number in range(len(spec.all_steps))]
    topology = read_topology(file.parent / spec.topology, problems) if spec.topology else None
    return Scenario(file.stem, spec, tuple(f"{file}:{line_of(lines, place)}" for place in places), topology, warnings)


def faults(spec: ScenarioSpec) -> Iterator[tuple[_Place, str]]:
    """The lines that contradict the jobs and nodes, each with its place."""
    nodes = {*spec.nodes, *(node for job in spec.jobs.values() for node in job.nodes)}
    for step_number, step in enumerate(spec.all_steps):
        above: _Place = ("steps", step_number) if spec.steps else ()
        for number, line in enumerate(step.lines):
            for key, what in _line_faults(spec, line, nodes):
                yield (*above, "lines", number, key), what


def _line_faults(spec: ScenarioSpec, line: LineSpec, nodes: set[str]) -> Iterator[tuple[str, str]]:
    job = spec.jobs.get(line.job)
    if line.job and job is None:
        yield "job", f"{line.job!r} is not one of the `jobs` ({', '.join(spec.jobs) or 'there are none'}): add it there"
    if unknown := [node for node in line.on if node not in nodes]:
        yield "on", f"{unknown[0]!r} is neither a node of a job nor in `nodes`: add it there"
    if job and isinstance(line.ranks, tuple) and (beyond := [rank for rank in line.ranks if rank >= job.world_size]):
        yield "ranks", f"job {line.job} has ranks 0..{job.world_size - 1}: write one of them, not {beyond[0]}"
    if line.ranks and line.on:
        yield "on", "remove `on`: the job determines the node of each of its `ranks`"
    speakers = job.world_size if job and line.ranks == ALL_RANKS else len(line.ranks) or len(line.on) or 1
    if (count := len(line.offsets_ns) * speakers) > MAX_LINES:
        yield "every", f"makes {count} lines: at most {MAX_LINES} are allowed"
    if line.source == "kernel" and not line.on:
        yield "source", "a kernel line comes from a node: write `on`"
