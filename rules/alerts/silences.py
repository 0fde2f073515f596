"""Silences: what people do not want to hear of for a while, and which incidents each of them fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from epicenter.rules.alerts.labels import BUILT_IN, Labels, built_in_labels
from epicenter.rules.alerts.match import fits_words, values_of
from epicenter.rules.model.incident import Incident

MATCHERS: Final = BUILT_IN
"""What a silence may name; all that it names has to fit."""


class Silence(msgspec.Struct, frozen=True):
    """`matchers` by one of `MATCHERS`; it holds from `begins_ns` up to `ends_ns`, the end not included.

    A matcher is one word, as in `alerts.yaml`: `*` stands for anything, `!word` for anything but that word.
    """

    silence_id: str
    matchers: Mapping[str, str]
    begins_ns: int
    ends_ns: int
    who: str
    reason: str
    changed_ns: int = 0

    def is_active(self, now_ns: int) -> bool:
        """Whether it holds now."""
        return self.begins_ns <= now_ns < self.ends_ns

    def fits(self, incident: Incident) -> bool:
        """Whether it concerns this incident."""
        return self.fits_labels(built_in_labels(incident))

    def fits_labels(self, labels: Labels) -> bool:
        """Whether it concerns an incident with these labels; a silence that names nothing concerns none."""
        fitting = (fits_words(values_of(labels, name), (word,)) for name, word in self.matchers.items())
        return bool(self.matchers) and all(fitting)


def silenced_by(silences: Sequence[Silence], incident: Incident, now_ns: int) -> Silence | None:
    """The silence that keeps people from hearing of this incident now; of several the one that lasts longest."""
    return silenced_labels(silences, built_in_labels(incident), now_ns)


def silenced_labels(silences: Sequence[Silence], labels: Labels, now_ns: int) -> Silence | None:
    """The same for an incident with these labels."""
    fitting = [one for one in silences if one.is_active(now_ns) and one.fits_labels(labels)]
    return max(fitting, key=lambda one: (one.ends_ns, one.silence_id), default=None)
