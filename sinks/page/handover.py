"""The local page's answers to the hand-over's questions, as JSON: for commands while this process holds the store."""

from __future__ import annotations

from aiohttp import web

from sinks.handover.questions import answer
from sinks.page.asking import Ask
from sinks.page.render import json_response


def handover_routes(ask: Ask) -> list[web.RouteDef]:
    """`/api/handover/{question}`, what is given in the query."""

    async def reply(request: web.Request) -> web.Response:
        """`{"found": …}`: one of the questions below, with what it takes in the query."""
        question, given = request.match_info["question"], dict(request.query)
        try:
            return json_response(await ask(lambda client: answer(client, question, given)))
        except ValueError as error:
            return json_response({"error": str(error)}, status=400)

    return [web.get("/api/handover/{question}", reply)]
