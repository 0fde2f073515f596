"""Access checks and response headers: only browsers on this machine, and only the page's own forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import time_ns
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from epicenter.rules.errors import PipelineError
from epicenter.sinks.clickhouse.named import UnknownIdError
from epicenter.sinks.net.loopback import is_loopback
from epicenter.sinks.operator_actions import RefusedError
from epicenter.sinks.page.render import html_response, json_response
from epicenter.sinks.text.sanitize import sanitize

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES: Final = 16 << 10
MAX_SHOWN_PATH: Final = 200
MESSAGES: Final = {
    401: "token required: send Authorization: Bearer TOKEN",
    404: "not found: check the address",
    413: f"request too long: send at most {MAX_BODY_BYTES >> 10} KiB",
}
"""The error message by status; every other status gets its standard reason phrase."""
FORWARDED_HEADERS: Final = ("Allow", "WWW-Authenticate")

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add headers that keep shown text inactive; browsers may cache static files."""
    caching = {"Cache-Control": "no-cache"} if request.path.startswith("/static/") else {}
    response.headers.update({**HEADERS, **caching})


@web.middleware
async def only_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse other Host headers: DNS rebinding can point a foreign name at 127.0.0.1, but can't change this header."""
    if not _is_local(request.headers.get("Host", "")):
        return json_response({"error": "this page answers only to localhost: open it as http://127.0.0.1"}, status=403)
    return await handler(request)


@web.middleware
async def only_own_pages_write(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse writes from foreign pages: they can't set a JSON content type or hide their origin.

    Without JavaScript the page sends plain forms, and with `no-referrer` no origin; `Sec-Fetch-Site` vouches for them.
    """
    if request.method in ("GET", "HEAD") or _is_own_plain_form(request):
        return await handler(request)
    if not _has_own_origin(request) or request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return json_response({"error": "request from another site refused: use the page's own forms"}, status=403)
    if request.content_type != "application/json":
        return json_response({"error": "send JSON, with Content-Type: application/json"}, status=415)
    return await handler(request)


def store_errors(health: Callable[[], Mapping[str, object]]) -> Middleware:
    """Answer 404 for an id that means nothing or several things, 503 when the store fails; the open page retries.

    `away_since_ns` of the process's health is when the store was first found away, 0 while it answers.
    """

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except UnknownIdError as error:
            if request.path.startswith("/api/"):
                return json_response({"error": str(error)}, status=404)
            return html_response("missing.html", status=404, what="Incident not found", why=str(error))
        except PipelineError as error:
            if request.path.startswith("/api/"):
                return json_response({"error": sanitize(str(error))}, status=503)
            since_ns = health().get("away_since_ns", 0)
            return html_response("unreachable.html", status=503, error=str(error), since_ns=since_ns, now_ns=time_ns())

    return answer


@web.middleware
async def missing_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer an address without a page with one that says so."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        if request.path.startswith("/api/"):
            raise
        shown = request.path if len(request.path) <= MAX_SHOWN_PATH else f"{request.path[:MAX_SHOWN_PATH]}…"
        return html_response("missing.html", status=404, what="Page not found", why=f"There is no page at {shown}")


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every refused `/api/` request with `{"error": …}`; unexpected errors go to the server's log."""
    if not request.path.startswith("/api/"):
        return await handler(request)
    try:
        return await handler(request)
    except RefusedError as error:
        return json_response({"error": str(error)}, status=error.status)
    except web.HTTPException as error:
        response = json_response({"error": MESSAGES.get(error.status, error.reason)}, status=error.status)
        response.headers.update({name: error.headers[name] for name in FORWARDED_HEADERS if name in error.headers})
        return response


def _is_own_plain_form(request: web.Request) -> bool:
    return (
        not request.path.startswith("/api/")
        and request.content_type == "application/x-www-form-urlencoded"
        and request.headers.get("Sec-Fetch-Site") == "same-origin"
        and (request.headers.get("Origin") == "null" or _has_own_origin(request))
    )


def _has_own_origin(request: web.Request) -> bool:
    origin = request.headers.get("Origin")
    return origin is None or origin in (f"{scheme}://{request.headers.get('Host', '')}" for scheme in ("http", "https"))


def _is_local(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
