"""Signals, matches and heartbeats for tests of the core."""

from __future__ import annotations

from typing import Any

from epicenter.rules.cause.ranking import Relations
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.heartbeats import Alive, Step
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.records import LogEvent, Match, Position
from epicenter.rules.model.signals import Signal
from tests.support.logs import a_scanner, at, batch, the_rules, vector


def a_match(rule: str, second: float, node: str = "n1", job: str = "", text: str = "", **more: Any) -> Match:
    """A rule of the catalogue fits a line; `fields` and what else an event has go in by name."""
    spec = the_rules().by_id[rule].spec if rule in the_rules().by_id else None
    fields = more.pop("fields", {})
    source = more.pop("source", "worker" if spec is None or spec.source == "any" else spec.source)
    text = text or f"{rule} at {second}"
    rank = more.get("rank")
    event = LogEvent(
        at(second), text, Position(f"{node}.log", round(second) + 1), node=node, source=source, job=job, **more
    )
    return Match(stable_id(rule, node, job, rank, second, text, event.cluster), rule, event, fields)


def a_timeout(second: float, node: str, job: str, rank: int, waited_s: int = 600) -> Match:
    """The NCCL watchdog's line."""
    return a_match("nccl.watchdog_timeout", second, node, job, rank=rank, fields={"ran_ms": str(waited_s * 1000)})


def an_xid(number: int, second: float, node: str, pci: str = "0000:9a:00", **more: Any) -> Match:
    """The kernel's line: it knows no job."""
    return a_match(f"nvidia.xid_{number}", second, node, fields={"pci": pci}, **more)


def a_step(step: int, second: float, job: str = "A", node: str = "n1", cluster: str = "default") -> Step:
    """A job completed a step."""
    return Step(at(second), cluster, job, node, step)


def alive(second: float, job: str, node: str, cluster: str = "default") -> Alive:
    """A sign of life of a job on a node."""
    return Alive(at(second), cluster, job, node)


def a_signal(
    failure_class: str, second: float, node: str = "n1", job: str = "", onset: float | None = None, **more: Any
) -> Signal:
    """A signal of any class, kernel or not."""
    given: dict[str, Any] = {
        "signal_id": stable_id(failure_class, second, node, job, more.get("rank")),
        "rule": "test.rule",
        "severity": "error",
        "role": "cascade",
        "cluster": "default",
        "source": "worker",
        "rank": None,
        "gpu": "",
        "text": failure_class,
        "position": None,
        "fields": {},
    }
    times = {"event_time_ns": at(second), "onset_ns": at(second if onset is None else onset)}
    return Signal(failure_class=failure_class, node=node, job=job, **(given | times | more))


related = Relations(lambda cause, effect: the_rules().edges_between(cause, effect), lambda _: {"A"})
"""The catalogue's edges, when all signals touch job A."""


def signals_of(text: str, second: float = 0, node: str = "n1", job: str = "A", **more: Any) -> list[Signal]:
    """What the bundled rules find in a container's line."""
    matches = a_scanner().scan(batch([vector(node, second, text, job, **more)])).matches
    return [signal_of(the_rules(), match) for match in matches]
