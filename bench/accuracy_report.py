"""Scores -> tables for people, one JSON object for programs, and the goals that were missed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.accuracy_score import FaultScore, Scores

GOALS: Final = {"top1": 0.95, "top3": 0.99, "one": 0.97, "verdict": 0.97}
"""The least share of right answers: class and node of the cause, exactly one incident, the verdict on silence."""

MAX_FALSE_ALARMS: Final = 0
MAX_SHOWN_RESULTS: Final = 4
_COLUMNS: Final = ("faults", "top1", "top3", "one", "verdict", "false_alarms", "onset_p50_s", "onset_p95_s")


def goals_missed(figures: Mapping[str, Any]) -> list[str]:
    """The figures below their goals; a figure without cases has none."""
    missed = [
        f"{name} {figures[name]:.3f}, goal {goal}"
        for name, goal in GOALS.items()
        if figures[name] is not None and figures[name] < goal
    ]
    if figures["false_alarms"] > MAX_FALSE_ALARMS:
        missed.append(f"{figures['false_alarms']} incidents in healthy hours, goal {MAX_FALSE_ALARMS}")
    return missed


def as_json(scores: Mapping[str, Scores]) -> str:
    """The figures of all ways, and the details of the first."""
    ours = next(iter(scores.values()))
    return json.dumps(
        {
            "ways": {way: score.figures() for way, score in scores.items()},
            "by_kind": ours.by_kind(),
            "confusion": [[*pair, count] for pair, count in sorted(ours.confusion().items())],
            "missed_goals": goals_missed(ours.figures()),
        }
    )


def as_text(scores: Mapping[str, Scores]) -> str:
    """The tables: the ways side by side, kinds of fault, verdicts, misses and false alarms of the first."""
    ours = next(iter(scores.values()))
    return "\n".join(
        [
            f"{len(ours.faults)} faults, {ours.healthy_hours:.1f} healthy cluster-hours",
            *_table("way", {way: score.figures() for way, score in scores.items()}),
            "",
            *_table("kind of fault", ours.by_kind()),
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
