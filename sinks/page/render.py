"""Templates to HTML: every text that goes into one is made inert and escaped, whoever wrote it."""

from __future__ import annotations

from time import time_ns
from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from epicenter.sinks.text import humanize
from epicenter.sinks.text.sanitize import sanitize

CUT_AT: Final = 600
"""So many characters of a line are shown at once."""


def html(template: str, **shown: Any) -> str:
    """A whole HTML document; `now_ns` is the clock's when it is not given."""
    return _ENVIRONMENT.get_template(template).render({"now_ns": time_ns(), "health": None, "version": "", **shown})


def html_response(template: str, status: int = 200, **shown: Any) -> web.Response:
    """The same as an answer."""
    return web.Response(text=html(template, **shown), status=status, content_type="text/html", charset="utf-8")


def json_response(value: object, status: int = 200) -> web.Response:
    """A value as JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _inert(value: Any) -> Any:
    return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _verbatim(text: str) -> Markup:
    """Log text with its own line ends."""
    return escape(sanitize(text, multiline=True))


def _segment(text: str) -> Markup:
    """A text as one part of a path, or a value in a query."""
    return Markup(quote(text.encode("utf-8", "backslashreplace"), safe=""))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("epicenter.sinks.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(verbatim=_verbatim, segment=_segment, ns=humanize.ns)
    environment.globals.update(words=humanize, CUT_AT=CUT_AT)
    return environment


_ENVIRONMENT: Final = _environment()
