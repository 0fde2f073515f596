"""Fits the doubts of `rules/catalog/cause_model.yaml` to simulated failures, and writes them there.

`python -m bench.fit_cause_model` simulates every kind of fault, most in messy clusters and some without part of their
logs, and replays them. The fit is the logistic regression of "the first answer is right" on the doubts, with a penalty
that holds each near what was judged by hand. It prints the reliability for these seeds and for others. The same seeds
give the same file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import yaml
from numpy.typing import NDArray

from bench.cause_cases import WeighedCase, weighed_cases
from bench.reliability import summary
from epicenter.rules.packs.cause_model import CauseModel
from epicenter.rules.packs.load import CATALOG, load
from epicenter.rules.packs.weights import CauseModelSpec

MODEL_FILE: Final = CATALOG / "cause_model.yaml"
PENALTY: Final = 2.0
"""Of a weight that is 1 off what was judged, in units of log-likelihood, doubled."""

MIN_PART: Final = 0.25
"""Of what was judged, so that evidence still orders what the cases leave equal."""

SWEEPS: Final = 500
MAX_STEP: Final = 1.0
MIN_MOVE: Final = 1e-4
Array = NDArray[np.float64]


NONE: Final = "none"
FIXED: Final = "points that no weight changes"
Option = Mapping[str, float]
"""What may be true: how much each weight counts for it."""

Choice = list[Option]
"""Options of which one is true: the first."""


def main() -> None:
    """Collect cases, fit, print the figures on other seeds, and write the weights."""
    parser = argparse.ArgumentParser(prog="bench.fit_cause_model", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=24, help="times each kind of fault is simulated for the fit")
    options = parser.parse_args()
    spec, model = spec_in(MODEL_FILE), load().cause_model
    fit_cases = list(weighed_cases(options.seed, options.rounds))
    after = fit(fit_cases, spec, model)
    print_figures("the fit's own seeds", fit_cases, model, after)
    others = list(weighed_cases(options.seed + 1, max(1, options.rounds // 2)))
    print_figures("other seeds", others, model, after)
    source = f"fit: bench.fit_cause_model --seed {options.seed} --rounds {options.rounds}"
    MODEL_FILE.write_text(rewritten(MODEL_FILE.read_text("utf-8"), after, source), "utf-8")


def spec_in(file: Path) -> CauseModelSpec:
    """The model as written in a file."""
    return CauseModelSpec.model_validate(yaml.safe_load(file.read_text("utf-8"))["cause_model"])


def fit(cases: Iterable[WeighedCase], spec: CauseModelSpec, model: CauseModel) -> CauseModel:
    """The model with the doubts, and the weight of none, as they fit the cases best."""
    found = [case for case in cases if case.answers]
    judged = {name: weighed.judged for name, weighed in spec.doubts.items() if weighed.judged is not None}
    doubts = fitted([is_first_right(case) for case in found], judged)
    none = fitted([which_other(case, model) for case in found if not case.answers[0].is_right], {NONE: 0.0})
    return replace(model, doubts={**model.doubts, **doubts}, none=none[NONE])


def is_first_right(case: WeighedCase) -> Choice:
    """Whether the first answer is right, or wrong, for which the doubts count."""
    right: Option = {}
    wrong: Option = dict.fromkeys(case.doubts, 1.0)
    return [right, wrong] if case.answers[0].is_right else [wrong, right]


def which_other(case: WeighedCase, model: CauseModel) -> Choice:
    """Which of the first answer's rivals is right in its place, or none."""
    first, *others = case.competing(model)
    first_points = first.by(model).points
    rivals = {answer.is_right: {FIXED: answer.by(model).points - first_points} for answer in others}
    options = [{FIXED: answer.by(model).points - first_points} for answer in others if not answer.is_right]
    return [rivals[True], *options, {NONE: 1.0}] if True in rivals else [{NONE: 1.0}, *options]


def fitted(choices: Sequence[Choice], judged: Mapping[str, float]) -> dict[str, float]:
    """The weights of the greatest likelihood less the penalty, by Newton's steps, one weight at a time."""
    names = sorted(judged)
    values, points = _arrays(choices, names)
    weights = np.array([judged[name] for name in names])
    points += values @ weights
    for _ in range(SWEEPS):
        before = weights.copy()
        for number, name in enumerate(names):
            moved = _moved(weights[number], judged[name], values[:, :, number], points)
            points += values[:, :, number] * (moved - weights[number])
            weights[number] = moved
        if np.abs(weights - before).max() < MIN_MOVE:
            break
    return dict(zip(names, weights.round(2).tolist(), strict=True))


def _arrays(choices: Sequence[Choice], names: Sequence[str]) -> tuple[Array, Array]:
    """What a weight counts for, by choice, option and name; short choices are filled with impossible options."""
    most = max(map(len, choices), default=1)
    values, points = np.zeros((len(choices), most, len(names))), np.full((len(choices), most), -np.inf)
    for row, choice in enumerate(choices):
        points[row, : len(choice)] = [option.get(FIXED, 0.0) for option in choice]
        values[row, : len(choice)] = [[option.get(name, 0.0) for name in names] for option in choice]
    return values, points


def _moved(weight: float, judged: float, values: Array, points: Array) -> float:
    """A weight after one of Newton's steps. It keeps at least a part of what was judged, if that is not 0."""
    ratios = np.exp2(points - points.max(axis=1, keepdims=True))
    shares = ratios / ratios.sum(axis=1, keepdims=True)
    mean = (shares * values).sum(axis=1)
    spread = (shares * values**2).sum(axis=1) - mean**2
    slope = np.log(2) * (values[:, 0] - mean).sum() - PENALTY * (weight - judged)
    step = slope / (np.log(2) ** 2 * spread.sum() + PENALTY)
    moved, least = weight + float(np.clip(step, -MAX_STEP, MAX_STEP)), MIN_PART * judged
    return max(moved, least) if judged > 0 else min(moved, least) if judged < 0 else moved


def print_figures(name: str, cases: Iterable[WeighedCase], before: CauseModel, after: CauseModel) -> None:
    """The reliability of the confidences with the weights before and after the fit."""
    found = [case for case in cases if case.answers]
    for when, model in (("before", before), ("after", after)):
        print(f"\n{name}, {when} the fit: {len(found)} incidents")
        print("\n".join(summary([(case.confidence_by(model), case.answers[0].is_right) for case in found])))


def rewritten(text: str, model: CauseModel, source: str) -> str:
    """The file with the weights of a model in the entries that have a `judged`, and everything else as it was."""
    weights = {**model.doubts, "none": model.none}

    def with_weight(found: re.Match[str]) -> str:
        return f"{found[1]}{{weight: {weights[found[2]]:g}, judged: {found[3]}, source: '{source}'}}"

    entry = re.compile(r"^( +([\w-]+): )\{weight: [^,]*, judged: ([^,]*), source: [^}]*\}", re.MULTILINE)
    return entry.sub(with_weight, text)


if __name__ == "__main__":
    main()
