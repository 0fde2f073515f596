"""Incident -> the action that a machine may take, with everything it needs to take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import named_jobs
from epicenter.rules.model.notification import Action
from epicenter.rules.packs.vocabulary import vocabulary

SURE_ENOUGH: Final = 0.6
"""Below this confidence no action is allowed. `rules.cause.ranking` gives 0.59 when the best cause is one point
ahead of an unexplained rival, and 0.5 when they are even: a machine must not drain the wrong one of two suspects."""

HARDWARE_FAMILIES: Final = ("nvidia", "amd", "machine", "network")
"""A failure of these families recurs on the same node, so the job has to run elsewhere."""


def action_of(incident: Incident, sure_enough: float = SURE_ENOUGH) -> Action:
    """What may be done now, as far as the incident decides; the guard judges it afterwards.

    A resolved incident needs no action, and no action is allowed while the cause is uncertain.
    """
    if incident.status != "open":
        return Action(why="the incident is resolved")
    make = _MAKERS.get(incident.action)
    if make is None:
        return Action(why=f"a person must decide: {_sentence(incident)}")
    action = make(incident)
    missing = _missing(action)
    confidence = incident.root_cause.confidence
    if missing:
        return replace(action, why=f"{missing} is unknown, so a person must decide: {_sentence(incident)}")
    if action.kind != "wait" and confidence < sure_enough:
        needed = f"at least {sure_enough:.2f} is needed"
        return replace(action, why=f"the cause is too uncertain: confidence {confidence:.2f}, {needed}")
    return replace(action, is_allowed=True, why=_sentence(incident))


def _sentence(incident: Incident) -> str:
    return vocabulary().actions.get(incident.action, incident.action)


def _node(incident: Incident) -> tuple[str, ...]:
    """The node where it began, or else the only node it reaches."""
    if incident.root_cause.node:
        return (incident.root_cause.node,)
    return incident.nodes if len(incident.nodes) == 1 else ()


def _drain(incident: Incident) -> Action:
    return Action("drain-node", nodes=_node(incident))


def _reboot(incident: Incident) -> Action:
    return Action("reboot-node", nodes=_node(incident))


def _reset(incident: Incident) -> Action:
    return Action("reset-gpu", nodes=_node(incident), gpu=incident.root_cause.gpu)


def _restart(incident: Incident) -> Action:
    is_hardware = vocabulary().family(incident.root_cause.failure_class) in HARDWARE_FAMILIES
    suspects = incident.recurrence.nodes if incident.recurrence else ()
    return Action(
        "restart-job",
        jobs=named_jobs(incident.jobs),
        exclude_nodes=tuple(sorted({*suspects, *(_node(incident) if is_hardware else ())})),
        resume_step=incident.cost.since_checkpoint_step,
    )


def _raise_memory(incident: Incident) -> Action:
    return Action("raise-memory", jobs=named_jobs(incident.jobs))


def _wait(incident: Incident) -> Action:
    return Action("wait", jobs=named_jobs(incident.jobs))


_MAKERS: Final[dict[str, Callable[[Incident], Action]]] = {
    "drain-node": _drain,
    "replace-hardware": _drain,
    "reboot-node": _reboot,
    "reset-gpu": _reset,
    "restart-app": _restart,
    "resubmit": _restart,
    "fix-memory": _raise_memory,
    "add-capacity": _wait,
}


def _missing(action: Action) -> str:
    """What the action needs and the incident does not have; empty when nothing is missing."""
    if action.kind in ("drain-node", "reboot-node", "reset-gpu") and not action.nodes:
        return "the node"
    if action.kind == "reset-gpu" and not action.gpu:
        return "the GPU"
    if action.kind in ("restart-job", "raise-memory") and not action.jobs:
        return "the job"
    return ""
