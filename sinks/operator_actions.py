"""Operator actions from the page and the command line: validated and written to the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from epicenter.rules.alerts.silences import MATCHERS, Silence
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import named_jobs
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.clickhouse import operator_actions
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.named import named_incident, the_one

MAX_SILENCE_NS: Final = duration_ns("90d")
ShortText = Annotated[str, msgspec.Meta(max_length=200)]
LongText = Annotated[str, msgspec.Meta(max_length=2_000)]
SelectedIds = Annotated[list[ShortText], msgspec.Meta(min_length=1, max_length=200)]


class FeedbackForm(msgspec.Struct, forbid_unknown_fields=True):
    """Feedback on a diagnosis: `right`, or `wrong` with the actual class if known.

    `wrong` requires a name; `right` without one is recorded as `someone`.
    """

    verdict: ShortText
    true_class: ShortText = ""
    note: LongText = ""
    who: ShortText = ""


class AcknowledgementForm(msgspec.Struct, forbid_unknown_fields=True):
    """An acknowledgement; with `undo`, its withdrawal, which needs no name."""

    who: ShortText = ""
    note: LongText = ""
    undo: bool = False


class SilenceForm(msgspec.Struct, forbid_unknown_fields=True):
    """A silence: its matchers, its duration (`4h`) or end (ISO 8601), and its reason."""

    matchers: dict[ShortText, ShortText]
    reason: LongText
    duration: ShortText = ""
    until: ShortText = ""
    who: ShortText = ""


class AcknowledgeAllForm(msgspec.Struct, forbid_unknown_fields=True):
    """An acknowledgement of several incidents."""

    incident_ids: SelectedIds
    who: ShortText = ""
    note: LongText = ""


class SilenceAllForm(msgspec.Struct, forbid_unknown_fields=True):
    """A silence for each of several incidents, with the matchers that `proposed_matchers` gives."""

    incident_ids: SelectedIds
    reason: LongText
    duration: ShortText = ""
    until: ShortText = ""
    who: ShortText = ""


class RefusedError(ValueError):
    """An operator action was refused; the message says how to fix it, `status` is the HTTP status."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST):
        super().__init__(message)
        self.status = status


def read_form(text: bytes, kind: type[Any]) -> Any:
    """The form decoded from its JSON.

    Raises:
        RefusedError: the text is not a form of this kind.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise RefusedError(str(error)) from error


def give_feedback(client: Client, incident_id: str, form: FeedbackForm, now_ns: int) -> operator_actions.Feedback:
    """Store feedback on an incident, given by its id or a unique prefix.

    Raises:
        UnknownIdError: there is no such incident.
        RefusedError: the form is wrong.
    """
    _check_feedback(form)
    incident = named_incident(client, incident_id)
    feedback = operator_actions.Feedback(
        incident_id=incident.incident_id,
        who=form.who.strip() or "someone",
        given_ns=now_ns,
        revision=incident.revision,
        verdict=form.verdict,
        true_class=form.true_class,
        note=form.note.strip(),
    )
    operator_actions.write_feedback(client, feedback)
    return feedback


def acknowledge(client: Client, incident_id: str, form: AcknowledgementForm, now_ns: int) -> Acknowledgement:
    """Store an acknowledgement or its withdrawal; the incident is given by its id or a unique prefix.

    Raises:
        UnknownIdError: there is no such incident.
        RefusedError: it was merged into another one, or the name is missing.
    """
    who = form.who.strip()
    if not form.undo:
        _check_name(who)
    incident = _unmerged(client, incident_id)
    acknowledgement = Acknowledgement(incident.incident_id, who or "someone", now_ns, form.note.strip(), form.undo)
    if form.undo and not operator_actions.active_acknowledgements(
        operator_actions.list_acknowledgements(client, incident_ids=[acknowledgement.incident_id])
    ):
        raise RefusedError("this incident is not acknowledged: there is nothing to withdraw", HTTPStatus.CONFLICT)
    operator_actions.write_acknowledgements(client, acknowledgement)
    return acknowledgement


def acknowledge_all(client: Client, form: AcknowledgeAllForm, now_ns: int) -> list[Acknowledgement]:
    """Acknowledge several incidents in one write.

    Raises:
        RefusedError: one of them can't be acknowledged; then none is.
    """
    who, note = form.who.strip(), form.note.strip()
    _check_name(who)
    ids = dict.fromkeys(_unmerged(client, incident_id).incident_id for incident_id in form.incident_ids)
    acknowledgements = [Acknowledgement(incident_id, who, now_ns, note) for incident_id in ids]
    operator_actions.write_acknowledgements(client, *acknowledgements)
    return acknowledgements


def silence(client: Client, form: SilenceForm, now_ns: int) -> Silence:
    """Store a silence that begins now.

    Raises:
        RefusedError: the form is wrong.
    """
    created = _new_silence(form.matchers, form, now_ns)
    operator_actions.write_silences(client, created)
    return created


def silence_all(client: Client, form: SilenceAllForm, now_ns: int) -> list[Silence]:
    """Store a silence for each of several incidents in one write; incidents with the same matchers share one.

    Raises:
        RefusedError: the form is wrong, or one of them can't be silenced; then none is.
    """
    proposed = [proposed_matchers(named_incident(client, incident_id)) for incident_id in form.incident_ids]
    created = {silence.silence_id: silence for silence in (_new_silence(labels, form, now_ns) for labels in proposed)}
    operator_actions.write_silences(client, *created.values())
    return list(created.values())


def proposed_matchers(incident: Incident) -> dict[str, str]:
    """The matchers that silence this incident and those like it; unknown ones are empty."""
    root, jobs = incident.root_cause, named_jobs(incident.jobs)
    job = jobs[0] if len(jobs) == 1 else ""
    return {"class": root.failure_class, "node": root.node, "job": job, "cluster": incident.cluster}


def end_silence(client: Client, silence_id: str, now_ns: int) -> Silence:
    """Expire an active silence now, given by its id or a unique prefix.

    Raises:
        UnknownIdError: no active silence has this id, or several do.
    """
    active = operator_actions.list_silences(client, ending_after_ns=now_ns)
    found = {silence.silence_id: silence for silence in active if silence.silence_id.startswith(silence_id)}
    about = [(each, f"{silence.who}: {silence.reason}") for each, silence in found.items()]
    chosen = found[the_one("active silence", silence_id, about)]
    ended = msgspec.structs.replace(chosen, ends_ns=now_ns, changed_ns=now_ns)
    operator_actions.write_silences(client, ended)
    return ended


def _unmerged(client: Client, incident_id: str) -> Incident:
    incident = named_incident(client, incident_id)
    if incident.merged_into:
        raise RefusedError(
            f"this incident was merged into {incident.merged_into}: acknowledge that one", HTTPStatus.CONFLICT
        )
    return incident


def _check_name(who: str) -> None:
    if not who:
        raise RefusedError("who: enter your name, so that others know who is working on it")


def _new_silence(labels: Mapping[str, str], form: SilenceForm | SilenceAllForm, now_ns: int) -> Silence:
    matchers = _matchers(labels)
    if not form.reason.strip():
        raise RefusedError("reason: enter why this is silenced")
    return Silence(
        silence_id=stable_id("silence", sorted(matchers.items()), now_ns),
        matchers=matchers,
        begins_ns=now_ns,
        ends_ns=_end_ns(form, now_ns),
        who=form.who.strip() or "someone",
        reason=form.reason.strip(),
        changed_ns=now_ns,
    )


def _check_feedback(form: FeedbackForm) -> None:
    if form.verdict not in operator_actions.VERDICTS:
        raise RefusedError("verdict: write right or wrong")
    if form.true_class and not vocabulary().knows(form.true_class):
        raise RefusedError("true_class: unknown class; `epicenter rules list` shows all classes")
    if form.verdict == "wrong" and not form.who.strip():
        raise RefusedError("who: enter your name, so that others can ask why it is wrong")


def _matchers(labels: Mapping[str, str]) -> dict[str, str]:
    matchers = {name: value.strip() for name, value in labels.items() if value.strip()}
    for name in matchers:
        if name not in MATCHERS:
            raise RefusedError(f"matchers: unknown label {name}: use {', '.join(MATCHERS)}")
    if not any(name != "cluster" and _narrows(value) for name, value in matchers.items()):
        raise RefusedError(
            "matchers: add a class, a node, a job or another label with more than * or a negation;"
            " you can't silence a whole cluster"
        )
    return matchers


def _narrows(value: str) -> bool:
    return bool(value.strip("*?")) and not value.startswith("!")


def _end_ns(form: SilenceForm | SilenceAllForm, now_ns: int) -> int:
    if bool(form.duration) == bool(form.until):
        raise RefusedError("duration, until: give one of the two")
    name = "duration" if form.duration else "until"
    try:
        ends_ns = now_ns + duration_ns(form.duration) if form.duration else _iso_time_ns(form.until)
    except ValueError as error:
        raise RefusedError(f"{name}: {error}") from error
    if not now_ns < ends_ns <= now_ns + MAX_SILENCE_NS:
        raise RefusedError(f"{name}: must be in the future and at most 90d ahead")
    return ends_ns


def _iso_time_ns(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write it like 2026-03-02T09:00:00Z") from None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return int(aware.timestamp()) * NS_PER_S
