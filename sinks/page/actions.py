"""What people may change from the page: their verdict on an incident, who takes care of it, and silences."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import TypeVar
from urllib.parse import quote

from aiohttp import web

from epicenter.sinks import operator_actions
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.page.live import Ask, Feed
from epicenter.sinks.page.render import html_response, json_response

Word = TypeVar("Word")


class Actions:
    """The handlers of everything that writes; what is refused is for `guard.errors_as_json` to tell."""

    def __init__(self, ask: Ask, feed: Feed):
        self._ask = ask
        self._feed = feed

    async def give_feedback(self, request: web.Request) -> web.Response:
        """Say whether the verdict was right."""
        incident_id = request.match_info["id"]
        form = operator_actions.read_form(await request.read(), operator_actions.FeedbackForm)
        given = await self._say(lambda client: operator_actions.give_feedback(client, incident_id, form, time_ns()))
        return json_response(given, status=201)

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Say who takes care of it."""
        incident_id = request.match_info["id"]
        form = operator_actions.read_form(await request.read(), operator_actions.AcknowledgementForm)
        given = await self._say(lambda client: operator_actions.acknowledge(client, incident_id, form, time_ns()))
        return json_response(given, status=201)

    async def acknowledge_without_scripts(self, request: web.Request) -> web.StreamResponse:
        """The same from a plain form, and back to the incident."""
        incident_id, fields = request.match_info["id"], await request.post()
        who, note = (str(fields.get(name, "")) for name in ("who", "note"))
        form = operator_actions.AcknowledgementForm(who[:200], note[:2_000], undo="undo" in fields)
        try:
            given = await self._say(lambda client: operator_actions.acknowledge(client, incident_id, form, time_ns()))
        except operator_actions.RefusedError as error:
            return html_response("missing.html", status=error.status, what=str(error))
        raise web.HTTPSeeOther(f"/incidents/{quote(given.incident_id, safe='')}")

    async def silence(self, request: web.Request) -> web.Response:
        """Silence what fits the matchers for a while."""
        form = operator_actions.read_form(await request.read(), operator_actions.SilenceForm)
        return json_response(
            await self._say(lambda client: operator_actions.silence(client, form, time_ns())), status=201
        )

    async def end_silence(self, request: web.Request) -> web.Response:
        """End a silence now."""
        silence_id = request.match_info["id"]
        return json_response(
            await self._say(lambda client: operator_actions.end_silence(client, silence_id, time_ns()))
        )

    async def _say(self, word: Callable[[Client], Word]) -> Word:
        written = await self._ask(word)
        self._feed.tell()
        return written
