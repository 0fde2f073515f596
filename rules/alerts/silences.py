"""Silences: incidents that a person mutes until a given time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from epicenter.rules.alerts.labels import BUILT_IN, Labels, built_in_labels
from epicenter.rules.alerts.match import fits_words, values_of
from epicenter.rules.model.incident import Incident

MATCHERS: Final = BUILT_IN
"""The labels that a silence may match; all that it names must fit."""


class Silence(msgspec.Struct, frozen=True):
    """Mutes the incidents that fit all `matchers`, from `begins_ns` up to `ends_ns`, exclusive.

    A matcher is a label of `MATCHERS` with one word, as in `alerts.yaml`: `*` is any text, `!word` excludes the word.
    """

    silence_id: str
    matchers: Mapping[str, str]
    begins_ns: int
    ends_ns: int
    who: str
    reason: str
    changed_ns: int = 0

    def is_active(self, now_ns: int) -> bool:
        """Whether it is active now."""
        return self.begins_ns <= now_ns < self.ends_ns

    def fits(self, incident: Incident) -> bool:
        """Whether it matches this incident."""
        return self.fits_labels(built_in_labels(incident))

    def fits_labels(self, labels: Labels) -> bool:
        """Whether it matches an incident with these labels; a silence without matchers matches none."""
        fitting = (fits_words(values_of(labels, name), (word,)) for name, word in self.matchers.items())
        return bool(self.matchers) and all(fitting)


def silenced_by(silences: Sequence[Silence], incident: Incident, now_ns: int) -> Silence | None:
    """The active silence that mutes this incident; of several, the one that lasts longest."""
    return silenced_labels(silences, built_in_labels(incident), now_ns)


def silenced_labels(silences: Sequence[Silence], labels: Labels, now_ns: int) -> Silence | None:
    """The same for an incident with these labels."""
    fitting = [silence for silence in silences if silence.is_active(now_ns) and silence.fits_labels(labels)]
    return max(fitting, key=lambda silence: (silence.ends_ns, silence.silence_id), default=None)
