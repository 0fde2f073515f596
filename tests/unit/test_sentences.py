"""No fact is read out of a sentence: with another text in the table of reasons, only the sentences change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.rules.cause.collectives import NamedBy
from epicenter.rules.cause.reasons import ReasonKind
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.report import reason_text
from epicenter.sinks.evidence.pack import pack_of
from epicenter.sinks.page.lanes import lay_out
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.stream.local.pipeline import Pipeline, replay
from tests.support.job_logs import AT_300, OOM, TRACEBACK, labelled, node_exit, report_on, summary
from tests.support.logs import the_rules

SCENARIOS = Path(__file__).parents[1] / "scenarios"
NONSENSE = "explained by nobody on nowhere: it explains nothing: {{}}"


def incidents(scenario: str) -> list[Incident]:
    sources = Sources([str(SCENARIOS / scenario / "input.jsonl")], "elsewhere", follow=False)
    try:
        return list(replay(Pipeline(the_rules(), "default", NS_PER_S), sources))
    finally:
        sources.close()


def facts(incident: Incident) -> dict[str, Any]:
    """The document, its drawing and its edges, without the sentences of the table."""
    document = msgspec.to_builtins(incident)
    for cause in (document["root_cause"], *document["candidates"]):
        del cause["reasons"]
    drawing, edges, sentence = lay_out(incident), pack_of(incident).edges, IncidentView(incident).headline
    return {"document": document, "drawing": drawing, "edges": edges, "cause": sentence}


@pytest.mark.parametrize("scenario", ["gpu_off_bus_then_timeouts", "host_oom_then_remote_errors"])
def test_an_incident_s_facts_do_not_depend_on_the_text_of_its_reasons(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = incidents(scenario)
    monkeypatch.setattr(reason_text, "REASONS", dict.fromkeys(ReasonKind, NONSENSE))
    others = incidents(scenario)
    assert {*others[0].root_cause.reasons} == {NONSENSE.format()}
    assert [facts(incident) for incident in others] == [facts(incident) for incident in plain]
    assert facts(plain[0])["edges"]
    titles = " ".join(arrow.title for arrow in facts(plain[0])["drawing"].arrows)
    assert any(effect.why in titles for effect in plain[0].root_cause.explains)


def test_a_log_s_cascade_does_not_depend_on_the_text_of_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        *AT_300,
        labelled(3, TRACEBACK),
        labelled(3, OOM),
        node_exit(3, 1),
        *summary(1, "Training FAILED (exit=1)"),
    ]
    plain = report_on(lines)
    monkeypatch.setattr(reason_text, "REASONS", dict.fromkeys(ReasonKind, NONSENSE))
    other = report_on(lines)
    assert {*other.reasons} == {NONSENSE.format()}
    assert other.cascade == plain.cascade != ()
    of_its_file_or_text = ("path", "files", "incident", "incidents", "reasons")
    same = {name: getattr(plain, name) for name in of_its_file_or_text}
    assert msgspec.structs.replace(other, **same) == plain


def test_every_kind_of_reason_has_a_text() -> None:
    assert reason_text.REASONS.keys() == set(ReasonKind)
    assert reason_text.NAMED.keys() == set(NamedBy)
