"""Operator actions from the page: feedback on a diagnosis, acknowledgements and silences."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import TypeVar
from urllib.parse import quote

from aiohttp import web

from epicenter.sinks import operator_actions
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.page.live import Feed, StoreQuery
from epicenter.sinks.page.render import html_response, json_response

Written = TypeVar("Written")


class Actions:
    """Handlers for every write. `guard.errors_as_json` turns a `RefusedError` into a response."""

    def __init__(self, query: StoreQuery, feed: Feed):
        self._query = query
        self._feed = feed

    async def give_feedback(self, request: web.Request) -> web.Response:
        """Mark the diagnosis right or wrong."""
        incident_id = request.match_info["id"]
        form = operator_actions.read_form(await request.read(), operator_actions.FeedbackForm)
        stored = await self._write(lambda client: operator_actions.give_feedback(client, incident_id, form, time_ns()))
        return json_response(stored, status=201)

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Acknowledge the incident, or withdraw the acknowledgement."""
        incident_id = request.match_info["id"]
        form = operator_actions.read_form(await request.read(), operator_actions.AcknowledgementForm)
        stored = await self._write(lambda client: operator_actions.acknowledge(client, incident_id, form, time_ns()))
        return json_response(stored, status=201)

    async def acknowledge_without_scripts(self, request: web.Request) -> web.StreamResponse:
        """Acknowledge from a plain HTML form; redirects to the incident."""
        incident_id, fields = request.match_info["id"], await request.post()
        who, note = (str(fields.get(name, "")) for name in ("who", "note"))
        form = operator_actions.AcknowledgementForm(who[:200], note[:2_000], undo="undo" in fields)
        try:
            stored = await self._write(
                lambda client: operator_actions.acknowledge(client, incident_id, form, time_ns())
            )
        except operator_actions.RefusedError as error:
            return html_response("missing.html", status=error.status, what=str(error))
        raise web.HTTPSeeOther(f"/incidents/{quote(stored.incident_id, safe='')}")

    async def silence(self, request: web.Request) -> web.Response:
        """Create a silence that begins now."""
        form = operator_actions.read_form(await request.read(), operator_actions.SilenceForm)
        return json_response(
            await self._write(lambda client: operator_actions.silence(client, form, time_ns())), status=201
        )

    async def acknowledge_all(self, request: web.Request) -> web.Response:
        """Acknowledge several incidents; all or none."""
        form = operator_actions.read_form(await request.read(), operator_actions.AcknowledgeAllForm)
        return json_response(
            await self._write(lambda client: operator_actions.acknowledge_all(client, form, time_ns())), status=201
        )

    async def silence_all(self, request: web.Request) -> web.Response:
        """Create a silence for each of several incidents; all or none."""
        form = operator_actions.read_form(await request.read(), operator_actions.SilenceAllForm)
        return json_response(
            await self._write(lambda client: operator_actions.silence_all(client, form, time_ns())), status=201
        )

    async def end_silence(self, request: web.Request) -> web.Response:
        """Expire a silence now."""
        silence_id = request.match_info["id"]
        return json_response(
            await self._write(lambda client: operator_actions.end_silence(client, silence_id, time_ns()))
        )

    async def _write(self, action: Callable[[Client], Written]) -> Written:
        written = await self._query(action)
        self._feed.notify()
        return written
