"""Dead letters as JSON, for the commands while this process holds the embedded store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import web

from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter

ListDeadLetters = Callable[[DeadLetterFilter, int], Awaitable[Sequence[dict[str, Any]]]]
GetDeadLetter = Callable[[str], Awaitable[dict[str, Any]]]


PATH: Final = "/api/dead-letters"
FORMER_PATH: Final = "/api/deadletters"
"""The path that commands of older versions use."""


def dead_letter_routes(list_dead_letters: ListDeadLetters, get_dead_letter: GetDeadLetter) -> list[web.RouteDef]:
    """The routes `PATH`, filtered by its query, and `PATH/{id}`; the same under `FORMER_PATH`."""

    async def find(request: web.Request) -> web.Response:
        """Dead letters, newest first. Filter with `reason`, `source` and `since_ns`; `limit` defaults to 50."""
        query = request.query
        try:
            wanted = DeadLetterFilter(query.get("reason", ""), query.get("source", ""), int(query.get("since_ns", 0)))
            limit = int(query.get("limit", 50))
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(list(await list_dead_letters(wanted, limit)))

    async def get(request: web.Request) -> web.Response:
        """One dead letter with its key and value in base64."""
        return web.json_response(await get_dead_letter(request.match_info["id"]))

    return [route for path in (PATH, FORMER_PATH) for route in (web.get(path, find), web.get(f"{path}/{{id}}", get))]
