"""Documents of incidents at the border: those of older and newer versions are read, invalid ones refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from epicenter.rules.errors import InputError
from epicenter.rules.model.incident import BlastRadius, Cost, Incident
from epicenter.sinks.page import incident_html, incidents_html, postmortem
from epicenter.sinks.text.incident_document import decode_incident, incident_of
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.stream.cli.text.incident import incident_report
from epicenter.stream.cli.text.summary import incident_summary
from tests.unit.sinks.page.test_postmortem import a_full_incident

FIRST_VERSION = """{
    "incident_id": "5f2b8c1d9e3a4f60", "revision": 3, "status": "resolved", "class": "xid-79", "severity": "critical",
    "title": "GPU has fallen off the bus on n1", "cluster": "default", "jobs": ["7801"], "nodes": ["n1", "n2"],
    "root_cause": {"class": "xid-79", "rule": "nvidia.xid_79", "node": "n1", "rank": null, "gpu": "0000:3b:00",
        "event_time": "2026-03-02T09:00:01.000000000Z", "confidence": 0.87, "reasons": ["it began first"]},
    "chain": [{"event_time": "2026-03-02T09:00:01.000000000Z", "onset": "2026-03-02T09:00:01.000000000Z", "node": "n1",
        "rank": null, "class": "xid-79", "role": "root", "text": "NVRM: Xid (PCI:0000:3b:00): 79"}],
    "blast_radius": {"nodes": 2, "ranks": 16, "jobs": 1},
    "progress": {"7801": {"last_step": 42, "last_step_time": "2026-03-02T09:00:00.000000000Z", "step_time_s": null}},
    "first_seen": "2026-03-02T09:00:01.000000000Z", "last_seen": "2026-03-02T09:00:01.000000000Z", "signal_count": 1,
    "evidence": [{"source": "kern.log", "line": 3, "node": "n1", "class": "xid-79", "text": "NVRM: Xid 79"}],
    "next_steps": ["Drain the node."], "action": "drain-node", "merged_into": ""
}"""
"""A document of the first version: without history, recurrence, candidates, cost, missing, verdict, reopened, checks
and commands."""

ADDED_SINCE = (
    ("history", ()),
    ("recurrence", None),
    ("candidates", ()),
    ("cost", Cost()),
    ("missing", ()),
    ("verdict", ""),
    ("reopened", 0),
    ("checks", ()),
    ("commands", ()),
)


def a_document(**changed: Any) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(a_full_incident())
    return document | changed


def test_first_version_is_read_with_defaults() -> None:
    incident = decode_incident(FIRST_VERSION, "store")
    assert incident.blast_radius == BlastRadius(nodes=2, ranks=16, jobs=1, gpus=0)
    assert [(name, getattr(incident, name)) for name, _ in ADDED_SINCE] == list(ADDED_SINCE)
    assert incident_of(msgspec.json.decode(FIRST_VERSION), "a.json") == incident


def test_every_rendering_shows_the_first_version() -> None:
    incident = decode_incident(FIRST_VERSION, "store")
    shown = (
        postmortem.markdown(incident).replace("\\", ""),
        postmortem.html(incident),
        incident_html(incident),
        incidents_html([incident]),
        "\n".join(line.text for line in incident_report(incident)),
        "\n".join(line.text for line in incident_summary(incident)),
    )
    for text in shown:
        assert "xid-79" in text and "87%" in text


@pytest.mark.parametrize(("name", "default"), ADDED_SINCE)
def test_each_later_field_may_be_missing(name: str, default: object) -> None:
    document = a_document()
    del document[name]
    assert getattr(decode_incident(msgspec.json.encode(document), "store"), name) == default


def test_fields_of_a_newer_version_are_left_out() -> None:
    document = a_document(weather="rain")
    document["root_cause"]["colour"] = "red"
    document["chain"][0]["depth"] = {"of": [1, 2]}
    assert decode_incident(msgspec.json.encode(document), "store") == a_full_incident()
    assert incident_of(document, "a.json") == a_full_incident()


def test_written_incident_is_read_back() -> None:
    incident = a_full_incident()
    assert decode_incident(msgspec.json.encode(incident), "store") == incident
    assert incident_of(incident, "store") is incident


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        a_document(incident_id="../x"),
        a_document(revision=-1),
        a_document(chain=3),
        a_document(jobs=[10**40]),
        a_document(root_cause={**a_document()["root_cause"], "confidence": 7.0}),
    ],
)
def test_invalid_document_is_refused_with_its_place(document: Any) -> None:
    with pytest.raises(InputError, match=r"^a\.json: "):
        incident_of(document, "a.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"incident_id": "a1"}', '{"incident_id": 3}'])
def test_invalid_row_is_refused_with_its_id(text: str) -> None:
    with pytest.raises(InputError, match=r"^stored incident a1: not an incident as "):
        decode_incident(text, "stored incident a1")


def test_stored_id_is_not_validated() -> None:
    unusual = msgspec.structs.replace(a_full_incident(), incident_id="../x")
    assert decode_incident(msgspec.json.encode(unusual), "store").incident_id == "../x"


def test_view_of_the_first_version_shows_known_fields() -> None:
    view = IncidentView(decode_incident(FIRST_VERSION, "store"))
    assert (view.reach, view.reach_in_full) == ("2 nodes, 16 ranks", "2 nodes, 16 ranks, 1 job, 0 GPUs")
    assert (view.lost, view.lost_since, view.missing, view.history, view.recurrence, view.candidates) == (
        *("", ""),
        *((), (), (), ()),
    )
    assert isinstance(view.incident, Incident)
