"""What `triage` and `replay` say about each kind of fault that the simulator knows: `make diagnosis`.

The columns are the truth and the root of each (class, node, rank). With `--corpus FILE...`, labelled cases as for
`epicenter eval` are read in both ways too, each from its own file. Exit code 1 when one is wrong or the two differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from epicenter.ingest.collect.jobs import jobs_at
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate.faults import KINDS
from epicenter.ingest.simulate.model import Scenario, TrueFault
from epicenter.ingest.simulate.write import write_all
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.triage.document import Status, Triage
from epicenter.rules.triage.report import Circumstances
from epicenter.stream.local.pipeline import Pipeline, replay
from epicenter.stream.rule_tools.evaluate import Case, read_cases
from epicenter.stream.triage.job_reader import JobReader

PROCESSES = 2
LATENESS_NS = 5 * NS_PER_S
NODES, JOBS, MINUTES, SEED = 4, 1, 30.0, 1


class Root(NamedTuple):
    """The cause of a failure: its class, and its node and rank, as far as they are known."""

    failure_class: str
    node: str
    rank: int | None

    @classmethod
    def of(cls, incident: Incident) -> Root:
        """The root cause of an incident."""
        return cls(incident.root_cause.failure_class, incident.root_cause.node, incident.root_cause.rank)

    def __str__(self) -> str:
        rank = "" if self.rank is None else f" rank {self.rank}"
        return f"{self.failure_class} {self.node or '-'}{rank}"

    def is_of(self, fault: TrueFault) -> bool:
        """Whether it names the fault's class."""
        return fault.is_of(self.failure_class)

    def is_at(self, fault: TrueFault) -> bool:
        """Whether it names no other node than the fault's; where none is at fault, one that the fault hit, or none."""
        return fault.is_at(self.node) if fault.node else self.node in ("", *fault.nodes)


class Row(NamedTuple):
    """One kind of fault: the statuses and roots of triage's sections, and the roots of replay's incidents."""

    fault: TrueFault
    statuses: tuple[str, ...]
    triage: tuple[Root, ...]
    replay: tuple[Root, ...]

    @property
    def is_same(self) -> bool:
        """Whether triage names what replay names: one of its roots, or none if it names none."""
        return set(self.triage) <= set(self.replay) and bool(self.triage) == bool(self.replay)

    def is_right(self, roots: Sequence[Root]) -> bool:
        """Whether the first of the roots is the true one, or there is none where no incident should be."""
        return any(root.is_of(self.fault) for root in roots[:1]) if self.fault.incident else not roots

    def is_placed(self, roots: Sequence[Root]) -> bool:
        """Whether it is right, and at the true node."""
        return self.is_right(roots) and all(root.is_at(self.fault) for root in roots[:1])


def main() -> int:
    """Print the table; the exit code."""
    options = parsed()
    with ProcessPoolExecutor(PROCESSES) as executor:
        rows = list(executor.map(row_of, options.kinds or KINDS))
    print("| fault | truth | replay | triage | status |\n|---|---|---|---|---|")
    for row in rows:
        roots = f"{_roots(row, row.replay)} | {_roots(row, row.triage)}"
        print(f"| {row.fault.fault} | {_truth(row.fault)} | {roots} | {', '.join(row.statuses)} |")
    same, by_triage = sum(row.is_same for row in rows), [row.is_right(row.triage) for row in rows]
    by_replay, placed = [row.is_right(row.replay) for row in rows], [row.is_placed(row.triage) for row in rows]
    print(f"\n{len(rows)} kinds of fault; the same in both: {same}")
    print(f"true class: replay {sum(by_replay)}, triage {sum(by_triage)}; and node: triage {sum(placed)}")
    cases = [case for path in options.corpus for case in read_cases(path)]
    different = [case.id for case in cases if not is_same_in(case)]
    invented = [case.id for case in cases if not case.expect and invents(case)]
    if cases:
        print(f"{len(cases)} cases: different in {len(different)} {different}")
        healthy = sum(not case.expect for case in cases)
        print(f"{healthy} healthy: a death, a job or a failure in {len(invented)} {invented}")
    return 0 if same == sum(by_triage) == len(rows) and not different else 1


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="Kinds of fault. Default: all.")
    parser.add_argument("--corpus", nargs="*", type=Path, default=[], metavar="FILE", help="Labelled cases (JSONL).")
    return parser.parse_args()


def is_same_in(case: Case) -> bool:
    """Whether triage names what replay names for the lines of a case as a file."""
    with written(case) as log:
        by_triage = {Root.of(report.incident) for report in triaged(log) if report.incident}
        by_replay = {Root.of(incident) for incident in replayed(log)}
    return by_triage <= by_replay and bool(by_triage) == bool(by_replay)


def invents(case: Case) -> bool:
    """Whether triage reports a death, a job or a failure for a healthy case."""
    with written(case) as log:
        return any(
            report.job or report.primary or report.status in (Status.UNKNOWN_DEATH, Status.FAILED)
            for report in triaged(log)
        )


@contextmanager
def written(case: Case) -> Iterator[Path]:
    """The lines of a case as a log file: a kernel's, or a job's with its id as name."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / ("kern.log" if case.layer == "kernel" else f"{case.id}.log")
        log.write_bytes("\n".join(case.lines).encode("utf-8", "surrogatepass"))
        yield log


def row_of(kind: str) -> Row:
    """Simulate a kind of fault, and read its folder in both ways."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "cluster"
        truth = write_all(Scenario(nodes=NODES, jobs=JOBS, minutes=MINUTES, faults=(kind,), seed=SEED), folder)
        reports, incidents = triaged(folder), replayed(folder)
    roots = tuple(Root.of(report.incident) for report in reports if report.incident)
    return Row(truth.faults[0], tuple(report.status for report in reports), roots, tuple(map(Root.of, incidents)))


def triaged(path: Path) -> list[Triage]:
    """The report on each job in a folder or file, and on its nodes."""
    [logs] = jobs_at(str(path), Path())
    return _reader().reports(logs, Circumstances(), [])


def replayed(path: Path) -> list[Incident]:
    """The final incidents in a folder or file."""
    with closing(Sources([str(path)], host="", follow=False)) as sources:
        return replay(Pipeline(_rules(), "default", LATENESS_NS), sources)


@cache
def _rules() -> RuleSet:
    return load(())


@cache
def _reader() -> JobReader:
    return JobReader(_rules(), "default")


def _truth(fault: TrueFault) -> str:
    return str(Root(fault.failure_class, fault.node, fault.rank)) if fault.incident else "no incident"


def _roots(row: Row, roots: Sequence[Root]) -> str:
    wrong = "WRONG: " if not row.is_right(roots) else "" if row.is_placed(roots) else "elsewhere: "
    return wrong + (", ".join(map(str, roots)) or "none")


if __name__ == "__main__":
    sys.exit(main())
