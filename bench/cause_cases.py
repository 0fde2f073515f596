"""Incidents with a known truth, as the fit of the cause model needs them: answers, their evidence, which is right."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from bench.accuracy import LATENESS_NS, PROCESSES, rule_set, truth_in
from bench.accuracy_make import case_of
from bench.accuracy_score import FaultScore, Truth, found_of, judge, names
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import KINDS, Scenario
from epicenter.ingest.simulate.disturbances.losses import KERNEL_FILES
from epicenter.rules.cause.confidence import Scored, rivals, shares_of
from epicenter.rules.cause.ranking import Candidate
from epicenter.rules.model.incident import Incident
from epicenter.rules.packs.cause_model import CauseModel
from epicenter.stream.local.pipeline import Pipeline, replay

LOSSES: Final = (*("nothing",) * 8, "kernel logs", "worker log", "half", "node", "end")
SIZES: Final = (2, 2, 4, 4, 8, 8, 16)
MAX_ANSWERS: Final = 40


class WeighedAnswer(msgspec.Struct, frozen=True):
    """A class at a node with the evidence for and against it."""

    failure_class: str
    node: str
    evidence: tuple[str, ...]
    is_right: bool
    is_effect: bool = False

    def by(self, model: CauseModel) -> Scored:
        """The answer with the points that a model gives it."""
        return Scored(self.failure_class, model.points(self.failure_class, self.evidence), self.is_effect)


class WeighedCase(msgspec.Struct, frozen=True):
    """A fault with the confidence of its incident's first answer, whether that is right, and all answers, best first.

    Without an incident there are none; nor are they where the incident ended so long ago that it was forgotten.
    """

    name: str
    confidence: float = 0.0
    answers: tuple[WeighedAnswer, ...] = ()
    doubts: tuple[str, ...] = ()
    is_right: bool = False
    has_incident: bool = False

    def confidence_by(self, model: CauseModel) -> float:
        """The confidence of its first answer with the weights of a model."""
        answers = [answer.by(model) for answer in self.answers]
        return shares_of(answers, sum(map(model.doubt, self.doubts)), model.none).of_answers[0]

    def competing(self, model: CauseModel) -> list[WeighedAnswer]:
        """The first answer and its rivals with the weights of a model."""
        return [self.answers[number] for number in (0, *rivals([answer.by(model) for answer in self.answers]))]


class _Weighing(Pipeline):
    """A pipeline that shows the answers of its incidents."""

    def weighed(self, incident: Incident) -> tuple[list[Candidate], frozenset[str]]:
        """The distinct answers and the doubts."""
        return self._engine.weighed(incident.incident_id)


def weighed_cases(seed: int, rounds: int) -> Iterator[WeighedCase]:
    """Every kind of fault, `rounds` times; the same for the same seed."""
    cases = [(kind, f"{seed}/{number}/{kind}") for number in range(rounds) for kind in sorted(KINDS)]
    with ProcessPoolExecutor(PROCESSES) as pool:
        for found in pool.map(_weighed, cases):
            yield from found


def _weighed(case: tuple[str, str]) -> list[WeighedCase]:
    """The faults of one folder that should have an incident."""
    kind, name = case
    chance = Random(name)
    with tempfile.TemporaryDirectory(prefix="epicenter-cases-") as made:
        folder = Path(made)
        scenario = Scenario(nodes=chance.choice(SIZES), seed=chance.randrange(1 << 31), faults=(kind,))
        made_case = case_of(scenario, chance)
        made_case.write(folder)
        truth = truth_in(folder)
        loss = lose(folder, truth, chance)
        return list(cases_in(folder, truth, f"{made_case.name} without {loss}"))


def cases_in(folder: Path, truth: Truth, name: str) -> Iterator[WeighedCase]:
    """The faults of a folder that should have an incident."""
    pipeline = _Weighing(rule_set(), "default", LATENESS_NS)
    incidents = replay(pipeline, Sources([str(folder)], host="", follow=False))
    found = [found_of(msgspec.to_builtins(incident)) for incident in incidents]
    incident_by_found = {id(document): incident for document, incident in zip(found, incidents, strict=True)}
    for score in judge(name, truth, found):
        if score.fault.incident:
            answer = incident_by_found[id(score.answer)] if score.answer else None
            yield _case(pipeline, answer, score) if answer else WeighedCase(name)


def _case(pipeline: _Weighing, incident: Incident, score: FaultScore) -> WeighedCase:
    answers, doubts = pipeline.weighed(incident)
    weighed = [
        WeighedAnswer(
            *place, tuple(answer.evidence), names([place], score.fault), answer.is_explained or answer.is_idle
        )
        for answer in answers[:MAX_ANSWERS]
        for place in ((answer.signal.failure_class, answer.signal.node),)
    ]
    sure, is_right = incident.root_cause.confidence, bool(score.top1)
    return WeighedCase(score.place, sure, tuple(weighed), tuple(sorted(doubts)), is_right, has_incident=True)


def lose(folder: Path, truth: Truth, chance: Random) -> str:
    """Delete some of the folder's logs; what was lost."""
    loss, faulty = chance.choice(LOSSES), {fault.node for fault in truth.faults}
    for file in sorted(folder.glob("*/*")):
        is_faulty = file.parent.name in faulty
        is_lost = (
            (loss == "kernel logs" and file.name in KERNEL_FILES)
            or (loss == "worker log" and file.name == "worker.jsonl" and is_faulty)
            or (loss == "node" and is_faulty)
        )
        if is_lost:
            file.unlink()
        elif loss == "half":
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(line for line in lines if chance.random() < 0.5))
        elif loss == "end" and is_faulty:
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(lines[: int(len(lines) * chance.uniform(0.3, 1.0))]))
    return loss
