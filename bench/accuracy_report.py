"""Scores -> tables for people, one JSON object for programs, and the goals that were missed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.accuracy_score import FLEET_GPUS, FaultScore, Scores
from bench.reliability import bands, summary

GOALS: Final = {"all_right": 0.9, "top1": 0.95, "top3": 0.99, "one": 0.97, "verdict": 0.97}
"""The least share of right answers: everything, class and node of the cause, no page but one, the silence's verdict."""

MAX_PAGES_A_DAY: Final = 0.02
"""False pages a day in a fleet of 500 GPUs."""
MAX_SHOWN_RESULTS: Final = 4
_COLUMNS: Final = (
    "faults", "all_right", "top1", "top3", "one", "verdict", "brier", "false_pages", "onset_p50_s", "onset_p95_s"
)  # fmt: skip


def goals_missed(figures: Mapping[str, Any]) -> list[str]:
    """The figures below their goals; a figure without cases has none."""
    missed = [
        f"{name} {figures[name]:.3f}, goal {goal}"
        for name, goal in GOALS.items()
        if figures[name] is not None and figures[name] < goal
    ]
    if (figures["pages_a_day"] or 0) > MAX_PAGES_A_DAY:
        missed.append(f"{figures['pages_a_day']:.2f} false pages a day in {FLEET_GPUS} GPUs, goal {MAX_PAGES_A_DAY}")
    return missed


def as_json(scores: Mapping[str, Scores]) -> str:
    """The figures of all ways, and the details of the first."""
    ours = next(iter(scores.values()))
    return json.dumps(
        {
            "ways": {way: score.figures() for way, score in scores.items()},
            "by_kind": ours.by_kind(),
            "by_disturbance": ours.by_disturbance(),
            "reliability": [band._asdict() for band in bands(ours.answers())],
            "confusion": [[*pair, count] for pair, count in sorted(ours.confusion().items())],
            "missed_goals": goals_missed(ours.figures()),
        }
    )


def as_text(scores: Mapping[str, Scores]) -> str:
    """The tables: the ways side by side, kinds of fault, verdicts, misses and false alarms of the first."""
    ours = next(iter(scores.values()))
    return "\n".join(
        [
            _head(ours),
            *_table("way", {way: score.figures() for way, score in scores.items()}),
            "",
            *_table("disturbance", ours.by_disturbance()),
            "",
            *_table("kind of fault", ours.by_kind()),
            "",
            *summary(ours.answers()),
            "",
            "verdicts: true -> given, times",
            *(f"  {true:<16} -> {given:<16} {count:>4}" for (true, given), count in sorted(ours.confusion().items())),
            "",
            "misses",
            *(line for score in ours.faults if score.wrong for line in _miss(score)),
            "",
            "incidents in healthy hours",
            *(f"  {place}: {found}" for place, found in ours.false_alarms),
            "",
            "goals: " + ("; ".join(goals_missed(ours.figures())) or "all reached"),
        ]
    )


def _head(scores: Scores) -> str:
    figures = scores.figures()
    healthy = f"{scores.healthy_hours:.1f} healthy cluster-hours ({scores.healthy_gpu_hours:.0f} GPU-hours)"
    rate = f"{_cell(figures['pages_a_day'])} pages a day in {FLEET_GPUS} GPUs"
    found = f"{figures['false_pages']} false pages, {figures['false_tickets']} tickets: {rate}"
    return f"{len(scores.faults)} faults; {healthy} with {found}"


def _table(head: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"{head:<28}" + "".join(f"{name:>13}" for name in _COLUMNS)
    for name, figures in rows.items():
        yield f"{name:<28}" + "".join(f"{_cell(figures[column]):>13}" for column in _COLUMNS)


def _cell(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _miss(score: FaultScore) -> Iterator[str]:
    fault = score.fault
    wanted = f"{fault.failure_class or 'nothing'}@{fault.node or '-'} jobs={','.join(fault.jobs)} at {fault.onset}"
    yield f"  {score.place} {fault.fault} [{', '.join(score.wrong)}]: wanted {wanted} verdict={fault.verdict or '-'}"
    yield from (f"      found {found}" for found in score.found[:MAX_SHOWN_RESULTS])
    yield from (f"      stray {found}" for found in score.strays[:MAX_SHOWN_RESULTS])
