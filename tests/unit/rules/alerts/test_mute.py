"""A mute that version 0.1 stored as text is read as the same mute, and version 0.1 finds that text in our records."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.alerts.mute import Mute, mute_of_text
from epicenter.rules.model.ledger import Outcome

AT = "alerts.yaml:7"


@pytest.mark.parametrize(
    ("text", "mute"),
    [
        (
            "held: a silence, held back until 2027-01-15T08:02:00Z in case it is refuted",
            Mute(Outcome.PENDING, until="2027-01-15T08:02:00Z"),
        ),
        ("refuted: over before its grace was", Mute(Outcome.REFUTED)),
        (
            "maintenance: until 2030-01-01 00:00 UTC by ada: racks (by hand) move (alerts.yaml:7)",
            Mute(Outcome.MAINTENANCE, by="ada", why="racks (by hand) move", until="2030-01-01 00:00 UTC", place=AT),
        ),
        ("silenced: by ada: known: see\nabove", Mute(Outcome.SILENCED, by="ada", why="known: see\nabove")),
        (
            "inhibited: by incident 1f: its class is node-fail, and both have node n1 (alerts.yaml:7)",
            Mute(Outcome.INHIBITED, by="1f", why="its class is node-fail, and both have node n1", place=AT),
        ),
        ("acknowledged: ada takes care of it", Mute(Outcome.ACKNOWLEDGED, by="ada")),
        ("acknowledged: ada takes care of it: mine", Mute(Outcome.ACKNOWLEDGED, by="ada", why="mine")),
    ],
)
def test_a_text_stored_by_version_0_1_is_its_mute(text: str, mute: Mute) -> None:
    assert mute_of_text(text) == mute
    assert mute.text == text
    assert msgspec.json.decode(msgspec.json.encode(mute), type=Mute) == mute


@pytest.mark.parametrize("text", ["", "held", "sent: by ada: x", "silenced: somehow"])
def test_other_texts_are_no_mute(text: str) -> None:
    assert mute_of_text(text) is None


def test_a_mute_s_reason_is_not_bound_to_the_text_of_version_0_1() -> None:
    pending = Mute(Outcome.PENDING, until="2027-01-15T08:02:00Z")
    assert pending.reason == "pending until 2027-01-15T08:02:00Z, in case later lines refute the verdict"
    assert Mute(Outcome.REFUTED).reason == "resolved within its grace period"
    assert Mute(Outcome.SILENCED, by="ada", why="known").reason == "by ada: known"
