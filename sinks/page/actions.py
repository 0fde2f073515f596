"""What people may change from the page: their verdict on an incident, and silences."""

from __future__ import annotations

from time import time_ns
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web

from rules.model import stable_id
from rules.silenced import MATCHERS, Silence
from rules.times import duration_ns
from rules.vocabulary import vocabulary
from sinks.clickhouse import reading, said
from sinks.page.asking import Ask
from sinks.page.live import Feed
from sinks.page.render import json_response

LONGEST_SILENCE_NS: Final = duration_ns("90d")
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


class SilenceForm(msgspec.Struct, forbid_unknown_fields=True):
    """A silence: what has to fit, for how long (`4h`), and why."""

    matchers: dict[Short, Short]
    duration: Short
    reason: Long
    who: Short = ""


class WrongFormError(ValueError):
    """What a person sent can't be taken; the message says what to write."""


class Actions:
    """The handlers of everything that writes."""

    def __init__(self, ask: Ask, feed: Feed):
        self._ask = ask
        self._feed = feed

    async def give_feedback(self, request: web.Request) -> web.Response:
        """`POST /api/incidents/{id}/feedback`."""
        try:
            form = await _form(request, FeedbackForm)
            _check_feedback(form)
        except WrongFormError as error:
            return json_response({"error": str(error)}, status=400)
        incident_id = request.match_info["id"]
        document = await self._ask(lambda client: reading.get_incident(client, incident_id))
        if document is None:
            return json_response({"error": "no incident has this id"}, status=404)
        feedback = said.Feedback(
            incident_id=document["incident_id"],
            who=form.who.strip() or "someone",
            given_ns=time_ns(),
            revision=document["revision"],
            verdict=form.verdict,
            true_class=form.true_class,
            note=form.note.strip(),
        )
        await self._ask(lambda client: said.write_feedback(client, feedback))
        self._feed.tell()
        return json_response(feedback, status=201)

    async def silence(self, request: web.Request) -> web.Response:
        """`POST /api/silences`."""
        try:
            silence = _silence(await _form(request, SilenceForm), time_ns())
        except WrongFormError as error:
            return json_response({"error": str(error)}, status=400)
        await self._ask(lambda client: said.write_silence(client, silence))
        self._feed.tell()
        return json_response(silence, status=201)

    async def end_silence(self, request: web.Request) -> web.Response:
        """`POST /api/silences/{id}/end`."""
        now_ns, silence_id = time_ns(), request.match_info["id"]
        active = await self._ask(lambda client: said.list_silences(client, ending_after_ns=now_ns))
        found = next((one for one in active if one.silence_id == silence_id), None)
        if found is None:
            return json_response({"error": "no silence that goes on has this id"}, status=404)
        ended = msgspec.structs.replace(found, ends_ns=now_ns, changed_ns=now_ns)
        await self._ask(lambda client: said.write_silence(client, ended))
        self._feed.tell()
        return json_response(ended)


async def _form(request: web.Request, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.DecodeError as error:
        raise WrongFormError(str(error)) from error


def _check_feedback(form: FeedbackForm) -> None:
    if form.verdict not in said.VERDICTS:
        raise WrongFormError("verdict: write right or wrong")
    if form.true_class and not vocabulary().knows(form.true_class):
        raise WrongFormError("true_class: no class of the vocabulary; `epicenter rules list` shows them")
    if form.verdict == "wrong" and not form.who.strip():
        raise WrongFormError("who: write your name; who reads this wants to ask why it is wrong")


def _silence(form: SilenceForm, now_ns: int) -> Silence:
    matchers = {name: value.strip() for name, value in form.matchers.items() if value.strip()}
    if not matchers.keys() <= set(MATCHERS):
        raise WrongFormError(f"matchers: name {', '.join(MATCHERS)}, and nothing else")
    if not matchers.keys() - {"cluster"}:
        raise WrongFormError("matchers: name a class, a node or a job; a whole cluster can't be silenced")
    if not form.reason.strip():
        raise WrongFormError("reason: say why, for those who wonder later")
    try:
        length_ns = duration_ns(form.duration)
    except ValueError as error:
        raise WrongFormError(f"duration: {error}") from error
    if not 0 < length_ns <= LONGEST_SILENCE_NS:
        raise WrongFormError("duration: more than nothing, and 90d at most")
    silence_id = stable_id("silence", sorted(matchers.items()), now_ns)
    who = form.who.strip() or "someone"
    return Silence(silence_id, matchers, now_ns, now_ns + length_ns, who, form.reason.strip(), now_ns)
