"""Templates to HTML: every text in one is sanitized and escaped, whoever wrote it."""

from __future__ import annotations

from time import time_ns
from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from epicenter.rules.model.job_names import job_in_words, jobs_in_words
from epicenter.sinks.text import humanize, job_state
from epicenter.sinks.text.commands import command_parts
from epicenter.sinks.text.sanitize import sanitize

OLD_AFTER_MS: Final = 600_000
"""The newest line is old after ten minutes."""
_DEFAULTS: Final = {"health": None, "version": "", "clusters": (), "freshness": None, "why": ""}

CUT_AT: Final = 600
"""At most this many characters of a line are shown before a button expands it."""


def html(template: str, **variables: Any) -> str:
    """A whole HTML document; `now_ns` defaults to the current time."""
    return _ENVIRONMENT.get_template(template).render({**_DEFAULTS, "now_ns": time_ns(), **variables})


def html_response(template: str, status: int = 200, **variables: Any) -> web.Response:
    """The same document as a response."""
    return web.Response(text=html(template, **variables), status=status, content_type="text/html", charset="utf-8")


def json_response(value: object, status: int = 200) -> web.Response:
    """A response with the value as JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _sanitized(value: Any) -> Any:
    return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _verbatim(text: str) -> Markup:
    """Log text with its own line breaks."""
    return escape(sanitize(text, multiline=True))


def _segment(text: str) -> Markup:
    """Text as one segment of a path, or as a value in a query."""
    return Markup(quote(text.encode("utf-8", "backslashreplace"), safe=""))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("epicenter.sinks.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_sanitized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(as_pair=lambda value: (value, value), command_parts=command_parts)
    environment.filters.update(verbatim=_verbatim, segment=_segment, ns=humanize.ns)
    environment.globals.update(
        humanize=humanize,
        job_in_words=job_in_words,
        jobs_in_words=jobs_in_words,
        job_state_words=job_state,
        CUT_AT=CUT_AT,
        OLD_AFTER_MS=OLD_AFTER_MS,
    )
    return environment


_ENVIRONMENT: Final = _environment()
