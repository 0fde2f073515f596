"""Which stage a job reached: by its launcher's lines, by its failure, or by what it printed last."""

from __future__ import annotations

from typing import Final

from epicenter.rules.triage.document import Check
from epicenter.rules.triage.story import Marker, Story

_STAGE_OF_CLASS: Final = {
    "container-pull-fail": "Docker pull",
    "container-load-fail": "Docker pull",
    "pull-timeout": "Docker pull",
    "preflight-timeout": "Preflight",
    "ecc-timeout": "ECC check",
    "no-gpu": "Container start",
    "nccl-nic-fail": "Container start",
    "patch-branch-fail": "Container start",
    "port-fail": "Job start",
    "model-not-found": "Training start",
    "ray-start-fail": "Ray init",
}
"""Stages of failures before training starts (job-log-triage, infrastructure failures)."""

_ORDER: Final = ("preprocess", "before_forward", "after_forward", "before_backward", "after_backward", "optimizer_step")
_PART: Final = {
    "preprocess": "data loading",
    "before_forward": "forward pass",
    "after_forward": "backward pass",
    "before_backward": "backward pass",
    "after_backward": "optimizer step",
    "optimizer_step": "optimizer step",
}
"""What a process does after each marker (incomplete-logs): it fails after its last marker."""


def stage(story: Story, primary: str | None) -> str | None:
    """The stage that failed, or in which the job is; None if unknown."""
    if failed := story.fact("job.stage", "stage") if story.fact("job.stage", "state") in ("FAILED", "TIMEOUT") else "":
        return _with_part(failed, story) if failed == "Training" else failed
    if story.steps.last is not None or story.markers:
        return _with_part("Training", story)
    is_of_launcher = any(rule.startswith("job.") for rule in story.facts)
    if is_of_launcher and primary in _STAGE_OF_CLASS:
        return _STAGE_OF_CLASS[primary]
    if stated := story.fact("job.stage", "stage"):
        return stated
    is_starting = is_of_launcher or any(rule.startswith("placement.") for rule in story.facts)
    return "initialisation" if is_starting else None


def marker_checks(story: Story) -> list[Check]:
    """Which part of the step the markers show, and which ranks are behind the others."""
    if not story.markers:
        return []
    furthest = max(story.markers.values(), key=_place)
    behind = {rank: marker for rank, marker in story.markers.items() if _place(marker) < _place(furthest)}
    found = [
        Check(
            "Which part of a step came last?", f"{_part(_last_marker(story))}: no marker follows {_marker_text(story)}"
        )
    ]
    if len(story.markers) > 1:
        found.append(Check("Is a rank behind the others?", _ranks_behind(behind, furthest)))
    return found


def _ranks_behind(behind: dict[int, Marker], furthest: Marker) -> str:
    if not behind:
        return f"no: all stopped at {furthest.name}, so a collective may hang"
    who = ", ".join(f"{_stream(rank)} at {marker.name}" for rank, marker in sorted(behind.items())[:8])
    return f"yes, {who}, while others are at {furthest.name}: suspect it first"


def _stream(rank: int) -> str:
    return f"rank {rank}" if rank >= 0 else "the stream without a rank"


def _last_marker(story: Story) -> Marker:
    """The marker of the rank that is furthest behind, where the failure is most likely."""
    return min(story.markers.values(), key=_place)


def _marker_text(story: Story) -> str:
    marker = _last_marker(story)
    return marker.name + (f" of batch {marker.batch}" if marker.batch >= 0 else "")


def _part(marker: Marker) -> str:
    return _PART.get(marker.name, marker.name)


def _with_part(stated: str, story: Story) -> str:
    return f"{stated}, {_part(_last_marker(story))}" if story.markers else stated


def _place(marker: Marker) -> tuple[int, int]:
    return marker.batch, _ORDER.index(marker.name) if marker.name in _ORDER else -1
