"""Who may ask our web servers: whoever has the token. Guesses take turns, so that they come to nothing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

GUESS_S: Final = 0.5
"""Two wrong tokens a second, from wherever they come; the right one is never kept waiting."""

MOST_GUESSES_WAITING: Final = 20
SIGNED_IN_S: Final = 12 * 3600
BEARER: Final = "Bearer "
IS_KNOWN: Final = web.RequestKey("is_known", bool)
log: Final = logging.getLogger(__name__)


class Shown(Enum):
    """What somebody shows: nothing, the right thing, or a guess."""

    NOTHING = auto()
    RIGHT = auto()
    WRONG = auto()


class Door:
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
        token = given.removeprefix(BEARER) if given.startswith(BEARER) else ""
        return self.token(token.strip())

    def token(self, given: str) -> Shown:
        """The token itself."""
        is_right = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)
        return Shown.RIGHT if is_right else Shown.WRONG

    def session(self, now_s: float) -> str:
        """What a browser keeps in place of the token: until when, and a signature that only the token makes."""
        until = str(int(now_s) + SIGNED_IN_S)
        return f"{until}.{self._signature(until)}"

    def session_shown(self, given: str, now_s: float) -> Shown:
        """A session that is over is nothing; one with another signature is a guess."""
        until, _, signature = given.partition(".")
        if not given:
            return Shown.NOTHING
        if not hmac.compare_digest(signature.encode("utf-8", "surrogateescape"), self._signature(until).encode()):
            return Shown.WRONG
        return Shown.RIGHT if int(until) > now_s else Shown.NOTHING

    async def take_a_guess(self, remote: str | None) -> int:
        """Wait for the turn of a wrong one; the status to answer with."""
        self.wrong += 1
        if self.wrong & (self.wrong - 1) == 0:
            log.warning("a wrong token from %s; %d so far", remote, self.wrong)
        if self._waiting >= MOST_GUESSES_WAITING:
            return 429
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(GUESS_S)
        finally:
            self._waiting -= 1
        return 401

    def _signature(self, until: str) -> str:
        return hmac.new(self._token, b"session " + until.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def only_bearers(token: str, *open_paths: str) -> Any:
    """A middleware: with a token, everything but `open_paths` needs it; without one, nothing does.

    What is open may show more to whom it knows: `request[IS_KNOWN]`. A guess is one there too.
    """
    door = Door(token)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = door.bearer(request)
        request[IS_KNOWN] = not token or shown is Shown.RIGHT
        if request[IS_KNOWN] or (request.path in open_paths and shown is Shown.NOTHING):
            return await handler(request)
        status = 401 if shown is Shown.NOTHING else await door.take_a_guess(request.remote)
        return web.Response(status=status, text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    return check
