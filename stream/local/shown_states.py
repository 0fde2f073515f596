"""Which states of jobs an open page does not show yet."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from epicenter.rules.model.ledger import JobPhase, JobState


class ShownStates:
    """The newest state of each job that has not ended."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], JobState] = {}

    def update(self, states: Iterable[JobState]) -> bool:
        """Record states; true if one of them differs from its job's last one in more than its times."""
        changed = [state for state in states if self._record(state)]
        return bool(changed)

    def _record(self, state: JobState) -> bool:
        key, timeless = (state.cluster, state.job), replace(state, time_ns=0, since_ns=0)
        is_new = self._states.get(key) != timeless
        if state.phase is JobPhase.ENDED:
            self._states.pop(key, None)
        else:
            self._states[key] = timeless
        return is_new
