"""A page that has a token: programs show it as a bearer, browsers sign in with it once and keep a cookie."""

from __future__ import annotations

from time import time
from typing import Any, Final
from urllib.parse import parse_qsl

from aiohttp import web

from sinks.page.render import html_response, json_response
from sinks.token import SIGNED_IN_S, Door, Handler, Shown

COOKIE: Final = "epicenter_session"
LOGIN: Final = "/login"
NEEDS: Final = "this page needs its token: Authorization: Bearer …"


class Login:
    """The middleware and the form; `door` counts the guesses."""

    def __init__(self, token: str):
        self.door = Door(token)

    def middleware(self) -> Any:
        """Everything but the form, what it looks like and the bare health needs the token, or a cookie made with it."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path in (LOGIN, "/healthz") or request.path.startswith("/static/"):
                return await handler(request)
            shown = self.shown(request)
            if shown is Shown.RIGHT:
                return await handler(request)
            status = 401 if shown is Shown.NOTHING else await self.door.take_a_guess(request.remote)
            return _refused(request, status)

        return check

    def shown(self, request: web.Request) -> Shown:
        """What a request shows; a bearer counts before a cookie."""
        bearer = self.door.bearer(request)
        return self.door.session_shown(request.cookies.get(COOKIE, ""), time()) if bearer is Shown.NOTHING else bearer

    async def sign_in(self, request: web.Request) -> web.Response:
        """Sign in: the form's `token` and `next`; the answer sets a cookie."""
        fields = await _fields(request)
        path = _own_path(fields.get("next", "/"))
        if self.door.token(fields.get("token", "")) is not Shown.RIGHT:
            status = await self.door.take_a_guess(request.remote)
            return html_response("login.html", status=status, next=path, is_wrong=True)
        answer = web.Response(status=303, headers={"Location": path})
        is_encrypted = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
        session = self.door.session(time())
        answer.set_cookie(
            COOKIE, session, max_age=SIGNED_IN_S, httponly=True, samesite="Strict", secure=is_encrypted, path="/"
        )
        return answer

    async def form(self, request: web.Request) -> web.Response:
        """The form that asks for the token, where one is needed; `next`, where to go from there."""
        return html_response("login.html", next="/", is_wrong=False)


async def _fields(request: web.Request) -> dict[str, str]:
    """Of a plain form and no other: anybody may send here, and no charset or form with files is worth a traceback."""
    try:
        body = await request.read()
    except web.RequestPayloadError:
        raise web.HTTPBadRequest from None
    return dict(parse_qsl(body.decode("utf-8", "replace")))


def _refused(request: web.Request, status: int) -> web.Response:
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        return html_response("login.html", status=status, next=request.path_qs, is_wrong=False)
    answer = json_response({"error": NEEDS}, status=status)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _own_path(path: str) -> str:
    """A path on this page: never an address somewhere else, and nothing that ends the header."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own else "/"
