"""Rule files -> RuleSet. Only this module, `document`, `table` and `vocabulary` read files, and only at start-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from epicenter.rules.documents.document import Document, Path_, line_of, parse_document, yaml_files
from epicenter.rules.errors import ConfigError
from epicenter.rules.match.bounded import FIELD, LINE, work_fault
from epicenter.rules.match.compiled import is_compilable, refusal
from epicenter.rules.match.disk_cache import digest
from epicenter.rules.packs.cause_model import CauseModel
from epicenter.rules.packs.check_windows import faults as window_faults
from epicenter.rules.packs.decode import DECODERS
from epicenter.rules.packs.edges import Loop, loops
from epicenter.rules.packs.headline import headline_faults
from epicenter.rules.packs.pack_cache import Reading, load_checked, store_checked
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.rules.packs.spec import EdgeSpec, PackSpec, RuleSpec
from epicenter.rules.packs.steps import OF_EVERY_STEP, place_faults, step_faults
from epicenter.rules.packs.table import slow_words, with_table
from epicenter.rules.packs.topology import NO_TOPOLOGY, Topology, read_topology
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.packs.weights import CauseModelSpec

CATALOG = Path(__file__).parents[1] / "catalog"


def load(folders: Iterable[Path] = (), topology: Path | None = None, marks: tuple[str, ...] = ()) -> RuleSet:
    """The bundled catalogue and the packs (`*.yaml`) of further files or folders, with the cluster's topology if given.

    `marks` are patterns to compile together with those of the rules.

    Raises:
        ConfigError: lists every problem of every file, each with its file and line.
    """
    problems: list[str] = []
    paths = [Path(folder) for folder in (CATALOG, *folders)]
    files = [file for path in paths for file in yaml_files(path, "rule pack", problems)]
    packs = (None if problems else _cached(files)) or _read(files, problems, marks)
    found = packs.rule_set(read_topology(topology, problems) if topology else NO_TOPOLOGY)
    if problems:
        raise ConfigError(problems)
    if topology:
        packs.reading(topology)
    digests = packs.reading.digests
    return replace(found, files=tuple(digests), digest=digest(map(str.encode, digests.values())), marks=marks)


def _cached(files: Sequence[Path]) -> _Packs | None:
    """Packs that passed every check before; None if anything changed since."""
    checked = load_checked(files)
    if checked is None:
        return None
    packs = _Packs([])
    for document in checked.documents(files):
        packs.add(document)
    is_same = packs.reading.digests.items() <= checked.digests.items()
    packs.reading.digests = checked.digests
    return packs if is_same and not packs.problems else None


def _read(files: Sequence[Path], problems: list[str], marks: tuple[str, ...]) -> _Packs:
    """Packs, with everything that is wrong with them in `problems`."""
    packs = _Packs(problems)
    documents = [packs.add(parse_document(file, packs.reading, "pack", problems)) for file in files]
    found = replace(packs.rule_set(), marks=marks)
    problems += [*packs.edge_faults(found), *packs.prior_faults(found), *packs.window_faults(found)]
    problems += packs.pattern_faults(found)
    if not problems:
        store_checked([document for document in documents if document], packs.reading)
    return packs


class _Packs:
    """The content of the files read so far, with the line of every part."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.reading = Reading()
        self.rules: dict[str, Rule] = {}
        self.edges: list[EdgeSpec] = []
        self.advice: dict[str, tuple[str, ...]] = {}
        self._models: list[CauseModelSpec] = []
        self._classes_by_place: dict[str, tuple[str, ...]] = {}
        self._place_by_edge: dict[int, str] = {}
        self._off: set[str] = set()
        self._has_unread = False
        self._lines_by_rule: dict[str, tuple[Path, dict[Path_, int], int]] = {}

    def rule_set(self, topology: Topology = NO_TOPOLOGY) -> RuleSet:
        """All rules, sorted by id, and the edges."""
        rules = tuple(sorted(self.rules.values(), key=lambda rule: rule.spec.id))
        model = CauseModel.of(self._models)
        return RuleSet(rules, tuple(self.edges), topology, advice=self.advice, cause_model=model)

    def add(self, document: Document | None) -> Document | None:
        """Add a pack and return it; None is a pack that can't be read."""
        pack = document.checked(PackSpec, "pack", self.problems) if document else None
        if document is None or pack is None:
            self._has_unread = True
            return None
        file, lines = document.file, document.lines
        self._off.update(pack.off)
        for number, rule_id in enumerate(pack.off):
            if not self._switch_off(rule_id):
                place = f"{file}:{line_of(lines, ('off', number))}"
                self.problems.append(f"{place}: off: {rule_id}: no such rule; `epicenter rules list` shows all")
        for failure_class, steps in pack.advice.items():
            self._add_advice(failure_class, steps, f"{file}:{line_of(lines, ('advice', failure_class))}: advice")
        for number, spec in enumerate(pack.rules):
            self._add_rule(spec, file, lines, number)
        for number, edge in enumerate(pack.expanded_edges()):
            self._add_edge(edge, f"{file}:{line_of(lines, ('edges', number))}: edges.{number}")
        self._models.append(pack.cause_model)
        for number, prior in enumerate(pack.cause_model.priors):
            line = line_of(lines, ("cause_model", "priors", number))
            self._classes_by_place[f"{file}:{line}: cause_model.priors.{number}"] = prior.classes
        return document

    def _add_rule(self, spec: RuleSpec, file: Path, lines: dict[Path_, int], number: int) -> None:
        place = f"{file}:{line_of(lines, ('rules', number, 'id'))}"
        row = self._row(spec.id)
        earlier = self.rules.get(spec.id) or (row[0].finer[row[1]] if row else None)
        if earlier and not spec.override:
            self.problems.append(
                f"{place}: rule id {spec.id} is already taken at {earlier.place}: "
                "choose another id, or write `override: true` to replace that rule"
            )
        if not earlier and spec.override:
            self.problems.append(
                f"{place}: {spec.id}: override: no earlier rule has this id: correct the id, or remove `override: true`"
            )
        if spec.decode and spec.decode not in DECODERS:
            self.problems.append(f"{place}: {spec.id}: decode: {spec.decode}: write one of {', '.join(DECODERS)}")
        self.problems += [f"{place}: {spec.id}: headline: {fault}" for fault in headline_faults(spec)]
        self.problems += [f"{place}: {spec.id}: next_steps: {fault}" for fault in step_faults(spec, spec.next_steps)]
        self._lines_by_rule[spec.id] = file, lines, number
        if row:
            self._replace_row(*row, Rule(spec, place, row=row[0].finer[row[1]].row))
        else:
            self.rules[spec.id] = with_table(spec, place, file, self.reading, self.problems)

    def _add_advice(self, failure_class: str, steps: tuple[str, ...], place: str) -> None:
        self.advice[failure_class] = (*self.advice.get(failure_class, ()), *steps)
        self.problems += [f"{place}: {failure_class}: {fault}" for fault in place_faults(steps, OF_EVERY_STEP)]
        if not vocabulary().knows(failure_class):
            self.problems.append(
                f"{place}: class {failure_class} is unknown: use a class of rules/packs/vocabulary.yaml"
            )

    def _add_edge(self, edge: EdgeSpec, place: str) -> None:
        self.edges.append(edge)
        self._place_by_edge[id(edge)] = place
        if not edge.effect:
            self.problems.append(
                f"{place}: `cause` contains every class of `effect`, and no class causes itself: name another effect"
            )

    def _switch_off(self, rule_id: str) -> bool:
        row = self._row(rule_id)
        if row:
            self._replace_row(*row, row[0].finer[row[1]].switched_off())
        return bool(row or self.rules.pop(rule_id, None))

    def _row(self, rule_id: str) -> tuple[Rule, str] | None:
        """The rule whose table has a row of this id, and the row's code."""
        owner, _, code = rule_id.rpartition("_")
        rule = self.rules.get(owner)
        return (rule, code) if rule and code in rule.finer else None

    def _replace_row(self, owner: Rule, code: str, rule: Rule) -> None:
        self.rules[owner.spec.id] = replace(owner, finer={**owner.finer, code: rule})

    def pattern_faults(self, found: RuleSet) -> list[str]:
        """Problems of the rules' expressions, each with its file and line.

        All patterns are compiled together, which takes seconds, only when nothing else is wrong.
        """
        is_sound = not self.problems and _is_sound(found)
        shipped = tuple(rule for rule in found.rules if self._is_shipped(rule))
        is_shipped_sound = is_sound or _is_sound(RuleSet(shipped, ()))
        return [
            fault
            for rule in found.rules
            for fault in self._faults(rule, is_sound or (is_shipped_sound and self._is_shipped(rule)))
        ]

    def edge_faults(self, found: RuleSet) -> list[str]:
        """Edges with unknown classes, and cycles of classes that explain each other, each with its file and line."""
        own = {rule.spec.failure_class for rule in found.all_rules}
        unknown = [
            f"{self._place_by_edge[id(edge)]}: class {name} is unknown: use a class of "
            "rules/packs/vocabulary.yaml or of a rule, or a group of this file"
            for edge in self.edges
            for name in dict.fromkeys((*edge.cause, *edge.effect))
            if not _is_class(name.removeprefix("!"), own)
        ]
        return unknown + [self._loop_fault(loop) for loop in loops(self.edges)]

    def prior_faults(self, found: RuleSet) -> list[str]:
        """Priors of unknown classes, each with its file and line."""
        own = {rule.spec.failure_class for rule in found.all_rules}
        return [
            f"{place}: class {name} is unknown: use a class of rules/packs/vocabulary.yaml or of a rule"
            for place, names in self._classes_by_place.items()
            for name in names
            if not _is_class(name.removeprefix("!"), own)
        ]

    def _loop_fault(self, loop: Loop) -> str:
        places = [self._place_by_edge[id(edge)] for edge in loop.edges]
        ring = " -> ".join((*loop.classes, loop.classes[0]))
        others = sorted({place.rpartition(": ")[0] for place in places if place != places[-1]})
        together = f" (with {', '.join(others)})" if others else ""
        return (
            f"{places[-1]}: a cycle{together}: {ring} would explain each other at the same time: remove one class, "
            "or give an edge an `after` longer than the clock skew"
        )

    def window_faults(self, found: RuleSet) -> list[str]:
        """Problems of the windows, with file and line. None while a pack is unreadable: it may have what they name."""
        if self._has_unread:
            return []
        places = ((fault, *self._lines_by_rule[fault.rule_id]) for fault in window_faults(found, self._off))
        return [
            f"{file}:{line_of(lines, ('rules', number, 'when', *fault.path))}: {fault.rule_id}: when."
            f"{'.'.join(map(str, fault.path))}: {fault.message}"
            for fault, file, lines, number in places
        ]

    def _is_shipped(self, rule: Rule) -> bool:
        return self._lines_by_rule[rule.spec.id][0].parent == CATALOG

    def _faults(self, rule: Rule, is_sound: bool) -> list[str]:
        file, lines, number = self._lines_by_rule[rule.spec.id]
        spec = rule.spec
        of_block = spec.block.expressions if spec.block else ()
        groups = {"extract": spec.extract, "unless": spec.unless, "block": of_block}
        if not is_sound or not self._is_shipped(rule):
            groups["patterns"] = spec.patterns
        of_table = [] if self._is_shipped(rule) else slow_words(rule)
        return of_table + [
            f"{file}:{line_of(lines, ('rules', number, key, index))}: {spec.id}: pattern {pattern!r}: {fault}"
            for key, patterns in groups.items()
            for index, pattern in enumerate(patterns)
            if (fault := _fault(pattern, key == "patterns" and not is_sound) or self._work_fault(rule, key, pattern))
        ]

    def _work_fault(self, rule: Rule, key: str, pattern: str) -> str:
        """Why the pattern could keep `re` busy; the patterns of the shipped packs are tested instead, at length."""
        bounds = FIELD if key == "extract" else LINE
        return "" if self._is_shipped(rule) else work_fault(pattern, bounds)


def _is_class(name: str, own: set[str]) -> bool:
    if name.endswith("*"):
        return vocabulary().knows(name) or any(own_class.startswith(name[:-1]) for own_class in own)
    return name in own or vocabulary().knows(name)


def _is_sound(rules: RuleSet) -> bool:
    searched = ((*rules.expressions, *rules.marks), rules.expressions_in_triage, rules.expressions_beside)
    return all(is_compilable(patterns) for patterns in searched if patterns)


def _fault(pattern: str, searched_in_bulk: bool) -> str:
    try:
        re.compile(pattern.encode())
    except (re.error, OverflowError, RecursionError) as error:
        return f"{error}: correct the expression"
    return refusal(pattern.encode()) if searched_in_bulk else ""
