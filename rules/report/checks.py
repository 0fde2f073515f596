"""Checks that need no person: who is waited for, what the kernel logs say, who else reports it, who never logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from epicenter.rules.cause.context import IncidentContext
from epicenter.rules.cause.suspects import Suspects
from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Check
from epicenter.rules.model.ranges import rank_list
from epicenter.rules.model.signals import QUIET_ROLES, Signal
from epicenter.rules.model.times import iso_from_ns
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import CheckName
from epicenter.rules.report.culprit import OPEN_CLASSES, culprit_of, nodes_alike
from epicenter.rules.report.headline import headline
from epicenter.rules.report.title import awaited_text

MAX_SHOWN: Final = 3
_STARTING: Final = ("rendezvous-timeout",)


def checks_of(
    state: IncidentState, root: Signal, suspects: Suspects | None, rules: RuleSet, context: IncidentContext
) -> dict[CheckName, Check]:
    """The checks that can be made with what is known, by name; `root` is the signal as its line has it."""
    node = culprit_of(state, root, suspects, context).node
    rule = rules.by_id.get(root.rule)
    is_step = rule is not None and "kernel-before" in rule.spec.checks
    made: dict[CheckName, Check | None] = {
        "awaited-rank": _awaited_rank(root, suspects),
        "kernel-log": _kernel_log(state, root, node, rules, context),
        "kernel-before": _kernel_before(state, root, rules, is_step),
        "other-nodes": _other_nodes(state, root, context),
        "silent-ranks": _silent_ranks(root, context),
        "outlier": _outlier(root, context),
    }
    return {name: check for name, check in made.items() if check}


def steps_left(steps: Sequence[str], by_check: Mapping[CheckName, int], made: Iterable[CheckName]) -> tuple[str, ...]:
    """The steps without those that the checks made. `by_check` numbers steps from 1."""
    done = {by_check[name] for name in made if name in by_check}
    return tuple(step for number, step in enumerate(steps, start=1) if number not in done)


def _awaited_rank(root: Signal, suspects: Suspects | None) -> Check | None:
    if suspects is None or suspects.job != root.job:
        return None
    return Check("Which rank do the others wait for?", awaited_text(suspects))


def _kernel_log(
    state: IncidentState, root: Signal, node: str, rules: RuleSet, context: IncidentContext
) -> Check | None:
    if not node or root.source not in ("worker", "any") or node not in (context.kernel_nodes or ()):
        return None
    found = _listed(_of_kernel(state, node), rules)
    return Check(f"What does the kernel log of {node} say?", found or "no failure that a rule knows")


def _kernel_before(state: IncidentState, root: Signal, rules: RuleSet, is_step: bool) -> Check | None:
    if not root.node or root.source != "kernel":
        return None
    earlier = [signal for signal in _of_kernel(state, root.node) if signal.event_time_ns < root.event_time_ns]
    if not (earlier or is_step):
        return None
    question = f"Did the kernel of {root.node} report a failure before it?"
    return Check(question, _listed(earlier, rules) or "none that a rule knows")


def _of_kernel(state: IncidentState, node: str) -> list[Signal]:
    signals = state.signals()
    return [
        signal
        for signal in signals
        if signal.node == node and signal.source == "kernel" and signal.role not in QUIET_ROLES
    ]


def _listed(signals: Sequence[Signal], rules: RuleSet) -> str:
    """The first signal of each class with its time, at most `MAX_SHOWN`."""
    firsts: dict[str, Signal] = {}
    for signal in signals:
        firsts.setdefault(signal.failure_class, signal)
    shown = [_line(signal, rules) for signal in list(firsts.values())[:MAX_SHOWN]]
    more = [f"{len(firsts) - MAX_SHOWN} more"] if len(firsts) > MAX_SHOWN else []
    return "; ".join([*shown, *more])


def _line(signal: Signal, rules: RuleSet) -> str:
    rule = rules.by_id.get(signal.rule)
    text = headline(signal, rule.spec if rule else None, with_place=False)
    return f"{iso_from_ns(signal.event_time_ns)[11:19]}Z {text}"


def _other_nodes(state: IncidentState, root: Signal, context: IncidentContext) -> Check | None:
    known = {node for job in state.jobs for node in context.nodes_by_job.get(job, ())}
    if not root.node or root.position is None or not known - {root.node}:
        return None
    others = nodes_alike(state, root)
    shown = [*others[: 2 * MAX_SHOWN], *([f"{len(others) - 2 * MAX_SHOWN} more"] if others[2 * MAX_SHOWN :] else [])]
    return Check("Which other nodes report the same?", ", ".join(shown) or f"none, only {root.node}")


def _silent_ranks(root: Signal, context: IncidentContext) -> Check | None:
    size, seen = context.world_size_by_job.get(root.job), context.seen_ranks_by_job.get(root.job)
    if size is None or seen is None:
        return None
    unseen = set(range(size)) - set(seen)
    if unseen:
        return Check("Which ranks never logged?", f"{rank_list(unseen)}, of {size}")
    return Check("Which ranks never logged?", f"none: all {size} logged") if root.failure_class in _STARTING else None


def _outlier(root: Signal, context: IncidentContext) -> Check | None:
    outliers = context.outliers_by_job.get(root.job, ())
    if not outliers or root.failure_class not in OPEN_CLASSES:
        return None
    shown = [f"{outlier.node}: {outlier}" for outlier in outliers[:MAX_SHOWN]]
    more = [f"{len(outliers) - MAX_SHOWN} more"] if len(outliers) > MAX_SHOWN else []
    return Check("Which node differs from the job's others?", "; ".join([*shown, *more]))
