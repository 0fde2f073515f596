"""Bearer-token access to our web servers. Wrong tokens are answered slowly, one at a time, so guessing is futile."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, Final

from aiohttp import web

from epicenter.sinks.log import get_logger

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

WRONG_TOKEN_DELAY_S: Final = 0.5
"""Delay per wrong token: two guesses a second over all clients. The right token never waits."""

MAX_PENDING_GUESSES: Final = 20
BEARER: Final = "Bearer "
TOKEN_REQUIRED: Final = """\
Token required.

Programs: send this header with each request: Authorization: Bearer TOKEN
Browsers: use the proxy that signs you in and adds this header. Ask the operator of epicenter for its address.
docs/security.md explains how to set up a proxy.
"""
OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz")
"""Probes can't send a token; without it these say only whether all is well."""

IS_KNOWN: Final = web.RequestKey("is_known", bool)
log: Final = get_logger(__name__)


class Credentials(Enum):
    """The result of checking a request's token."""

    MISSING = auto()
    VALID = auto()
    INVALID = auto()


class TokenGuard:
    """Checks requests against a token in constant time."""

    def __init__(self, token: str):
        self._token = token.encode()
        self._one_at_a_time = asyncio.Lock()
        self._pending = 0
        self.wrong = 0

    def check(self, request: web.Request) -> Credentials:
        """Whether the request's `Authorization: Bearer TOKEN` is missing, valid or invalid."""
        header = request.headers.get("Authorization", "")
        if not header:
            return Credentials.MISSING
        token = header.removeprefix(BEARER).strip() if header.startswith(BEARER) else ""
        is_valid = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        return Credentials.VALID if is_valid else Credentials.INVALID

    async def delay_refusal(self, remote: str | None) -> int:
        """The status for a wrong token, after a delay: 401, or 429 when too many wait."""
        self.wrong += 1
        if self.wrong & (self.wrong - 1) == 0:
            log.warning("wrong_token", remote=remote, wrong_so_far=self.wrong)
        if self._pending >= MAX_PENDING_GUESSES:
            return 429
        self._pending += 1
        try:
            async with self._one_at_a_time:
                await asyncio.sleep(WRONG_TOKEN_DELAY_S)
        finally:
            self._pending -= 1
        return 401


def require_token(token: str, *open_paths: str) -> Any:
    """A middleware that requires `token` on every path except `open_paths`; an empty token allows everything.

    Open paths may show more to requests with the token: `request[IS_KNOWN]`. Wrong tokens are refused there too.
    """
    guard = TokenGuard(token)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        credentials = guard.check(request)
        request[IS_KNOWN] = not token or credentials is Credentials.VALID
        if request[IS_KNOWN] or (request.path in open_paths and credentials is Credentials.MISSING):
            return await handler(request)
        status = 401 if credentials is Credentials.MISSING else await guard.delay_refusal(request.remote)
        refusal = web.HTTPUnauthorized if status == 401 else web.HTTPTooManyRequests
        raise refusal(text=TOKEN_REQUIRED, headers={"WWW-Authenticate": "Bearer"})

    return check
