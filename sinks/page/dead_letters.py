"""Dead letters as JSON, for the commands while this process holds the embedded store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import web

from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter
from epicenter.sinks.net.parameters import number

ListDeadLetters = Callable[[DeadLetterFilter, int], Awaitable[Sequence[dict[str, Any]]]]
GetDeadLetter = Callable[[str], Awaitable[dict[str, Any]]]


MAX_LISTED: Final = 1_000_000
PATH: Final = "/api/dead-letters"
FORMER_PATH: Final = "/api/deadletters"
"""The path that commands of older versions use."""


def dead_letter_routes(list_dead_letters: ListDeadLetters, get_dead_letter: GetDeadLetter) -> list[web.RouteDef]:
    """The routes `PATH`, filtered by its query, and `PATH/{id}`; the same under `FORMER_PATH`."""

    async def find(request: web.Request) -> web.Response:
        """Dead letters, newest first. Filter with `reason`, `source` and `since_ns`; `limit` is 50 unless given."""
        query = request.query
        try:
            since_ns, limit = number(query, "since_ns", 0), number(query, "limit", 50, 1, MAX_LISTED)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        wanted = DeadLetterFilter(query.get("reason", ""), query.get("source", ""), since_ns)
        return web.json_response(list(await list_dead_letters(wanted, limit)))

    async def get(request: web.Request) -> web.Response:
        """One dead letter with its key and value in base64."""
        return web.json_response(await get_dead_letter(request.match_info["id"]))

    return [route for path in (PATH, FORMER_PATH) for route in (web.get(path, find), web.get(f"{path}/{{id}}", get))]
