"""Who may ask our web servers: whoever has the token. Guesses take turns, so that they come to nothing."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final

from aiohttp import web

from epicenter.sinks.log import get_logger

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

GUESS_S: Final = 0.5
"""Two wrong tokens a second, from wherever they come; the right one is never kept waiting."""

MAX_GUESSES_WAITING: Final = 20
BEARER: Final = "Bearer "
NEEDED: Final = """\
This address needs a token.

Programs send it with each request: Authorization: Bearer TOKEN
Browsers come through a proxy that signs you in and adds this header: ask whoever runs epicenter for its address.
docs/security.md shows how to set one up.
"""
IS_KNOWN: Final = web.RequestKey("is_known", bool)
log: Final = get_logger(__name__)


class Shown(Enum):
    """What somebody shows: nothing, the right thing, or a guess."""

    NOTHING = auto()
    RIGHT = auto()
    WRONG = auto()


class TokenGuard:
    """Holds a token against what requests show. Comparisons take as long for wrong ones as for the right one."""

    def __init__(self, token: str):
        self._token = token.encode()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.wrong = 0

    def bearer(self, request: web.Request) -> Shown:
        """`Authorization: Bearer TOKEN`."""
        given = request.headers.get("Authorization", "")
        if not given:
            return Shown.NOTHING
        token = given.removeprefix(BEARER).strip() if given.startswith(BEARER) else ""
        is_right = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        return Shown.RIGHT if is_right else Shown.WRONG

    async def take_a_guess(self, remote: str | None) -> int:
        """Wait for the turn of a wrong one; the status to answer with."""
        self.wrong += 1
        if self.wrong & (self.wrong - 1) == 0:
            log.warning("wrong_token", remote=remote, wrong_so_far=self.wrong)
        if self._waiting >= MAX_GUESSES_WAITING:
            return 429
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(GUESS_S)
        finally:
            self._waiting -= 1
        return 401


def only_bearers(token: str, *open_paths: str) -> Any:
    """A middleware: with a token, everything but `open_paths` needs it; without one, nothing does.

    What is open may show more to whom it knows: `request[IS_KNOWN]`. A guess is one there too.
    """
    door = TokenGuard(token)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = door.bearer(request)
        request[IS_KNOWN] = not token or shown is Shown.RIGHT
        if request[IS_KNOWN] or (request.path in open_paths and shown is Shown.NOTHING):
            return await handler(request)
        status = 401 if shown is Shown.NOTHING else await door.take_a_guess(request.remote)
        refusal = web.HTTPUnauthorized if status == 401 else web.HTTPTooManyRequests
        raise refusal(text=NEEDED, headers={"WWW-Authenticate": "Bearer"})

    return check
