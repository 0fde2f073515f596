"""A log without a named job: its name is no label, and keeps its capitals in reports."""

from __future__ import annotations

from msgspec.structs import replace

from epicenter.rules.alerts.labels import built_in_labels
from epicenter.rules.model.incident import Progress
from epicenter.sinks.notify.alert import first_labels
from epicenter.sinks.operator_actions import proposed_matchers
from epicenter.sinks.text.story import Facts, story_of
from tests.unit.sinks.clickhouse.test_rows import an_incident

PROGRESS = Progress(42, "2026-03-02T09:00:00.000000000Z", None)


def test_a_log_s_name_is_no_label_and_no_matcher() -> None:
    unnamed, named = (replace(an_incident(), jobs=(job,)) for job in ("log:train", "7801"))
    assert (first_labels(unnamed, {})["job"], first_labels(named, {})["job"]) == ("", "7801")
    assert (proposed_matchers(unnamed)["job"], proposed_matchers(named)["job"]) == ("", "7801")
    assert ("job" in built_in_labels(unnamed), built_in_labels(named)["job"]) == (False, ("7801",))


def test_names_keep_their_capitals_at_the_head_of_a_fact() -> None:
    incident = replace(an_incident(), progress={"llama-70B": PROGRESS, "log:Train": PROGRESS})
    blocks = [block for section in story_of(incident).sections for block in section.blocks]
    names = {name for block in blocks if isinstance(block, Facts) for name, _ in block.pairs}
    assert {"Job llama-70B", "Log Train"} <= names
