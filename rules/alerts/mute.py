"""Why no target is notified of an incident now, as a type; people read the sentence made from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from epicenter.rules.model.ledger import Outcome


class Mute(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision not to notify; fields that do not apply are empty.

    `by` is the person, or for an inhibition the incident; `until` is when it ends, in words; `place` is the
    line of `alerts.yaml` that decides it.
    """

    outcome: Outcome
    by: str = ""
    why: str = ""
    until: str = ""
    place: str = ""

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        match self.outcome:
            case Outcome.PENDING:
                return f"pending until {self.until}, in case later lines refute the verdict"
            case Outcome.REFUTED:
                return "resolved within its grace period"
            case Outcome.ACKNOWLEDGED:
                return f"acknowledged by {self.by}" + (f": {self.why}" if self.why else "")
            case _:
                return self.reason_0_1

    @property
    def reason_0_1(self) -> str:
        """The sentence of version 0.1: ids and records keep it."""
        match self.outcome:
            case Outcome.PENDING:
                return f"a silence, held back until {self.until} in case it is refuted"
            case Outcome.REFUTED:
                return "over before its grace was"
            case Outcome.MAINTENANCE:
                return f"until {self.until} by {self.by}: {self.why} ({self.place})"
            case Outcome.SILENCED:
                return f"by {self.by}: {self.why}"
            case Outcome.INHIBITED:
                return f"by incident {self.by}: {self.why} ({self.place})"
            case Outcome.ACKNOWLEDGED:
                return f"{self.by} takes care of it" + (f": {self.why}" if self.why else "")
            case _:
                return self.why

    @property
    def text(self) -> str:
        """What version 0.1 stores of it."""
        return f"{self.outcome.value}: {self.reason_0_1}"


_REASONS: Final[Mapping[Outcome, re.Pattern[str]]] = {
    Outcome.PENDING: re.compile(r"a silence, held back until (?P<until>\S+) in case it is refuted"),
    Outcome.REFUTED: re.compile(r"over before its grace was"),
    Outcome.MAINTENANCE: re.compile(r"until (?P<until>.+?) by (?P<by>.+?): (?P<why>.*) \((?P<place>[^()]*)\)", re.S),
    Outcome.SILENCED: re.compile(r"by (?P<by>.*?): (?P<why>.*)", re.S),
    Outcome.INHIBITED: re.compile(r"by incident (?P<by>\S+): (?P<why>.*) \((?P<place>[^()]*)\)", re.S),
    Outcome.ACKNOWLEDGED: re.compile(r"(?P<by>.*?) takes care of it(?:: (?P<why>.*))?", re.S),
}


def mute_of_text(text: str) -> Mute | None:
    """The mute that version 0.1 stored as `text`; None for no text, or for one that version 0.1 never wrote."""
    name, _, reason = text.partition(": ")
    outcome = next((outcome for outcome in _REASONS if outcome.value == name), None)
    found = _REASONS[outcome].fullmatch(reason) if outcome else None
    return Mute(outcome, **found.groupdict("")) if outcome and found else None
