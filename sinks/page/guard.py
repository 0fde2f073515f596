"""Who may ask the page, and what every answer carries: it is for browsers of this machine, and for its own pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from epicenter.rules.errors import PipelineError
from epicenter.sinks.net.loopback import is_loopback
from epicenter.sinks.operator_actions import RefusedError
from epicenter.sinks.page.render import html_response, json_response
from epicenter.sinks.text.sanitize import sanitize

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES: Final = 16 << 10
TOLD: Final = {
    401: "this page needs its token: Authorization: Bearer …",
    404: "nothing is here; look at the address",
    413: f"this is too long: {MAX_BODY_BYTES >> 10} KiB at most",
}
"""What programs and forms are told beside the status; others get its usual words."""
PASSED_ON: Final = ("Allow", "WWW-Authenticate")

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
    """Headers that keep what is shown from doing anything; static files may be kept by the browser."""
    kept = {"Cache-Control": "no-cache"} if request.path.startswith("/static/") else {}
    response.headers.update({**HEADERS, **kept})


@web.middleware
async def only_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A foreign page may point its own name at 127.0.0.1 (DNS rebinding), but it can't change the Host header."""
    if not _is_local(request.headers.get("Host", "")):
        return json_response({"error": "this page answers only to localhost"}, status=403)
    return await handler(request)


@web.middleware
async def only_own_pages_write(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A foreign page may send a form here; it can't set a JSON content type, nor hide where it comes from.

    A page without scripts sends plain forms, and with `no-referrer` no origin: its browser has to vouch for it.
    """
    if request.method in ("GET", "HEAD") or _is_own_plain_form(request):
        return await handler(request)
    if not _has_own_origin(request) or request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return json_response({"error": "only this page's own forms may change something"}, status=403)
    if request.content_type != "application/json":
        return json_response({"error": "send JSON, with Content-Type: application/json"}, status=415)
    return await handler(request)


@web.middleware
async def store_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A store that does not answer is told as such; the page asks again by itself."""
    try:
        return await handler(request)
    except PipelineError as error:
        if request.path.startswith("/api/"):
            return json_response({"error": sanitize(str(error))}, status=503)
        return html_response("away.html", status=503, error=str(error))


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What asks `/api/` gets every refusal as `{"error": …}`; a bug of ours is for the server's log."""
    if not request.path.startswith("/api/"):
        return await handler(request)
    try:
        return await handler(request)
    except RefusedError as error:
        return json_response({"error": str(error)}, status=error.status)
    except web.HTTPException as error:
        response = json_response({"error": TOLD.get(error.status, error.reason)}, status=error.status)
        response.headers.update({name: error.headers[name] for name in PASSED_ON if name in error.headers})
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
