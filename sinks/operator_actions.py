"""What people say of incidents, from the page and from the command line: checked, and written to the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from epicenter.rules.alerts.silences import MATCHERS, Silence
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.times import NS_PER_S, duration_ns
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.sinks.clickhouse import operator_actions, reading
from epicenter.sinks.clickhouse.client import Client

MAX_SILENCE_NS: Final = duration_ns("90d")
Short = Annotated[str, msgspec.Meta(max_length=200)]
Long = Annotated[str, msgspec.Meta(max_length=2_000)]


class FeedbackForm(msgspec.Struct, forbid_unknown_fields=True):
    """A verdict on an incident: `right`, or `wrong` with the class that it really was, if known.

    Who says `wrong` has to say who says so; a nameless `right` counts as that of `someone`.
    """

    verdict: Short
    true_class: Short = ""
    note: Long = ""
    who: Short = ""


class AcknowledgementForm(msgspec.Struct, forbid_unknown_fields=True):
    """Who takes care of an incident; with `undo`, that nobody does any more, which needs no name."""

    who: Short = ""
    note: Long = ""
    undo: bool = False


class SilenceForm(msgspec.Struct, forbid_unknown_fields=True):
    """A silence: what has to fit, for how long (`4h`) or until when (ISO 8601), and why."""

    matchers: dict[Short, Short]
    reason: Long
    duration: Short = ""
    until: Short = ""
    who: Short = ""


class RefusedError(ValueError):
    """What a person said can't be taken; the message says what to write, `status` is that of HTTP."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST):
        super().__init__(message)
        self.status = status


def read_form(text: bytes, kind: type[Any]) -> Any:
    """A form from its JSON.

    Raises:
        RefusedError: it is none of this kind.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise RefusedError(str(error)) from error


def give_feedback(client: Client, incident_id: str, form: FeedbackForm, now_ns: int) -> operator_actions.Feedback:
    """Write a verdict on an incident, named by its id or a beginning of it.

    Raises:
        RefusedError: there is no such incident, or the form is wrong.
    """
    _check_feedback(form)
    incident = _incident(client, incident_id)
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
    """Write who takes care of an incident, named by its id or a beginning of it, or that nobody does any more.

    Raises:
        RefusedError: there is no such incident, it goes on as another one, or nobody is named.
    """
    who = form.who.strip()
    if not who and not form.undo:
        raise RefusedError("who: write your name; others want to know who takes care of it")
    incident = _incident(client, incident_id)
    if incident.merged_into:
        raise RefusedError(
            f"this goes on in incident {incident.merged_into}: acknowledge that one", HTTPStatus.CONFLICT
        )
    word = Acknowledgement(incident.incident_id, who or "someone", now_ns, form.note.strip(), form.undo)
    if form.undo and not operator_actions.standing(
        operator_actions.list_acknowledgements(client, incident_ids=[word.incident_id])
    ):
        raise RefusedError("nobody takes care of this incident, so there is nothing to take back", HTTPStatus.CONFLICT)
    operator_actions.write_acknowledgement(client, word)
    return word


def silence(client: Client, form: SilenceForm, now_ns: int) -> Silence:
    """Write a silence that begins now.

    Raises:
        RefusedError: the form is wrong.
    """
    matchers = _matchers(form.matchers)
    if not form.reason.strip():
        raise RefusedError("reason: say why, for those who wonder later")
    begun = Silence(
        silence_id=stable_id("silence", sorted(matchers.items()), now_ns),
        matchers=matchers,
        begins_ns=now_ns,
        ends_ns=_end_ns(form, now_ns),
        who=form.who.strip() or "someone",
        reason=form.reason.strip(),
        changed_ns=now_ns,
    )
    operator_actions.write_silence(client, begun)
    return begun


def end_silence(client: Client, silence_id: str, now_ns: int) -> Silence:
    """End a silence now, named by its id or by a beginning of the id that no other one of now has.

    Raises:
        RefusedError: no silence goes on that is named like this, or several.
    """
    active = operator_actions.list_silences(client, ending_after_ns=now_ns)
    found = [one for one in active if one.silence_id.startswith(silence_id)]
    if len(found) != 1 or not silence_id:
        told = "several silences have an id" if found else "no silence that goes on has an id"
        raise RefusedError(f"{told} that begins like this", HTTPStatus.NOT_FOUND)
    ended = msgspec.structs.replace(found[0], ends_ns=now_ns, changed_ns=now_ns)
    operator_actions.write_silence(client, ended)
    return ended


def _incident(client: Client, incident_id: str) -> Incident:
    incident = reading.get_incident(client, incident_id)
    if incident is None:
        raise RefusedError("no incident has this id", HTTPStatus.NOT_FOUND)
    return incident


def _check_feedback(form: FeedbackForm) -> None:
    if form.verdict not in operator_actions.VERDICTS:
        raise RefusedError("verdict: write right or wrong")
    if form.true_class and not vocabulary().knows(form.true_class):
        raise RefusedError("true_class: no class of the vocabulary; `epicenter rules list` shows them")
    if form.verdict == "wrong" and not form.who.strip():
        raise RefusedError("who: write your name; who reads this wants to ask why it is wrong")


def _matchers(given: Mapping[str, str]) -> dict[str, str]:
    matchers = {name: value.strip() for name, value in given.items() if value.strip()}
    for name in matchers:
        if name not in MATCHERS:
            raise RefusedError(f"matchers: {name} is no label; name {', '.join(MATCHERS)}, and nothing else")
    if not any(name != "cluster" and _narrows(value) for name, value in matchers.items()):
        raise RefusedError(
            "matchers: name a class, a node or a job, or another label, and more of it than * or what it is not;"
            " a whole cluster can't be silenced"
        )
    return matchers


def _narrows(value: str) -> bool:
    return bool(value.strip("*?")) and not value.startswith("!")


def _end_ns(form: SilenceForm, now_ns: int) -> int:
    if bool(form.duration) == bool(form.until):
        raise RefusedError("say how long (duration), or until when (until), one of them")
    name = "duration" if form.duration else "until"
    try:
        ends_ns = now_ns + duration_ns(form.duration) if form.duration else _moment_ns(form.until)
    except ValueError as error:
        raise RefusedError(f"{name}: {error}") from error
    if not now_ns < ends_ns <= now_ns + MAX_SILENCE_NS:
        raise RefusedError(f"{name}: more than nothing, and 90d at most")
    return ends_ns


def _moment_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write it such as 2026-03-02T09:00:00Z") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp()) * NS_PER_S
