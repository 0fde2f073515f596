"""Incidents one by one: with a header, age, reach and what operators did about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import jobs_in_words
from epicenter.sinks.text import humanize
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.stream.cli.text.incident import incident_line
from epicenter.stream.cli.text.layout import Line
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, safe

MAX_SHOWN_ID: Final = 8
HEAD: Final = f"{'ID':<8}  {'SEVERITY':<8}  {'STATUS':<8}  {'BEGAN':<10}  "


def incident_rows(incidents: Sequence[Incident], actions: Mapping[str, str], now_ns: int) -> Iterator[Line]:
    """A header, and each incident; `actions` are acknowledgements and silences by incident id, in words."""
    yield Line(HEAD, "WHAT · REACH · WHO", left_style="bold")
    for incident in incidents:
        began_ns = humanize.ns(incident.first_seen)
        began = "unknown" if began_ns is None else humanize.ago(began_ns, now_ns)
        name = incident.incident_id[:MAX_SHOWN_ID]
        left = f"{safe(name):<8}  {safe(incident.severity):<8}  {safe(incident.status):<8}  {began:<10}  "
        facts = (_reach(incident), actions.get(incident.incident_id, ""))
        details = "".join(f" · {safe(fact)}" for fact in facts if fact)
        yield Line(
            left, f"{safe(incident.title)}[dim]{details}[/]", left_style=SEVERITY_STYLES.get(incident.severity, "")
        )


def piped_line(incident: Incident, action: str) -> str:
    """An incident on one line for other programs; what operators did is at the end."""
    return f"{incident_line(incident)}{f'  {safe(action)}' if action else ''}"


def _reach(incident: Incident) -> str:
    affected = jobs_in_words(incident.jobs, humanize.MAX_NAMES)
    return ", ".join(filter(None, (IncidentView(incident).reach, affected)))
