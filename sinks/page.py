"""The local page: the incidents as plain HTML and as JSON, for a browser on this machine only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import msgspec
from aiohttp import web

from rules.errors import PipelineError
from sinks.inert import make_inert

Document = Mapping[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LIMIT: Final = 200
HIGHEST_LIMIT: Final = 1_000
REFRESH_S: Final = 5

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

STYLE: Final = """\
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --quiet: #656d76; --line: #d8dee4; --soft: #f6f8fa;
  --critical: #b3261e; --error: #b54708; --warning: #8a6100; --info: #3b5b8c; --accent: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171b; --quiet: #9aa4af; --line: #2d333b;
  --soft: #1c2026; --critical: #ff8a80; --error: #ffb077; --warning: #f2cc60; --info: #9cc2ff; --accent: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
header { display: flex; align-items: baseline; gap: 1rem; margin-bottom: 1rem; }
header a { color: inherit; font-weight: 650; font-size: 1.1rem; }
h1 { font-size: 1.4rem; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.8rem 0 0.4rem; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; color: var(--quiet); font-weight: 500; font-size: 0.85rem; }
th, td { padding: 0.45rem 0.8rem 0.45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.text { font-family: ui-monospace, monospace; font-size: 0.85rem; overflow-wrap: anywhere; min-width: 20rem; }
time, td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
pre { margin: 0.2rem 0 0.8rem; padding: 0.6rem 0.8rem; background: var(--soft); border: 1px solid var(--line);
  border-radius: 6px; font: 0.85rem/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; margin: 0; }
dt, .quiet { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
ul, ol { margin: 0.2rem 0; padding-left: 1.3rem; }
.severity { font-weight: 650; }
.critical { color: var(--critical); } .error { color: var(--error); }
.warning { color: var(--warning); } .info { color: var(--info); }
"""


class ListIncidents(Protocol):
    """The documents seen last, newest first."""

    def __call__(self, limit: int, status: str | None = None) -> Awaitable[Sequence[Document]]:
        """At most `limit` of them."""


class GetIncident(Protocol):
    """One document by its id, or None."""

    def __call__(self, incident_id: str) -> Awaitable[Document | None]:
        """The stored document."""


class Health(Protocol):
    """How the program is; `status` is `ok` or says what is wrong, the rest is shown as it is."""

    def __call__(self) -> Mapping[str, object]:
        """A mapping that JSON can hold."""


def page(list_incidents: ListIncidents, get_incident: GetIncident, health: Health) -> web.Application:
    """The application; serve it on a loopback address. It answers only requests that name this machine as the host."""
    pages = _Pages(list_incidents, get_incident, health)
    application = web.Application(middlewares=[_guard, _store_errors])
    application.on_response_prepare.append(_add_headers)
    application.add_routes(
        [
            web.get("/", pages.incidents),
            web.get("/incidents/{id}", pages.incident),
            web.get("/api/incidents", pages.api_incidents),
            web.get("/api/incidents/{id}", pages.api_incident),
            web.get("/healthz", pages.healthz),
            web.get("/style.css", _style),
        ]
    )
    return application


class _Pages:
    def __init__(self, list_incidents: ListIncidents, get_incident: GetIncident, health: Health):
        self._list = list_incidents
        self._get = get_incident
        self._health = health

    async def incidents(self, request: web.Request) -> web.Response:
        return _html(incidents_html(await self._list(LIMIT), self._health()))

    async def incident(self, request: web.Request) -> web.Response:
        document = await self._get(request.match_info["id"])
        if document is None:
            return _html(_document_html("Not found", "<h1>No incident has this id</h1>"), status=404)
        return _html(incident_html(document))

    async def api_incidents(self, request: web.Request) -> web.Response:
        limit = request.query.get("limit", str(LIMIT))
        if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= HIGHEST_LIMIT):
            return _json({"error": f"limit: write a number from 1 to {HIGHEST_LIMIT}"}, status=400)
        return _json(list(await self._list(int(limit), request.query.get("status"))))

    async def api_incident(self, request: web.Request) -> web.Response:
        document = await self._get(request.match_info["id"])
        return _json({"error": "no incident has this id"}, status=404) if document is None else _json(document)

    async def healthz(self, request: web.Request) -> web.Response:
        health = self._health()
        return _json(health, status=200 if health.get("status") == "ok" else 503)


def incidents_html(documents: Sequence[Document], health: Mapping[str, object]) -> str:
    """The list, newest first, as one HTML document that loads itself again every few seconds."""
    head = ("Severity", "Status", "Incident", "Root node", "GPU", "Jobs", "First seen", "Last seen", "Signals")
    rows = [
        _cells(
            _severity(document["severity"]),
            _text(document["status"]),
            f'<a href="/incidents/{quote(document["incident_id"], safe="")}">{_text(document["title"])}</a>',
            _text(document["root_cause"]["node"] or "-"),
            _text(document["root_cause"]["gpu"] or "-"),
            _text(", ".join(document["jobs"]) or "-"),
            _time(document["first_seen"]),
            _time(document["last_seen"]),
            str(int(document["signal_count"])),
        )
        for document in documents
    ]
    facts = " · ".join(f"{_text(name)} {_text(value)}" for name, value in health.items())
    body = _table(head, rows) if rows else "<p>No incidents.</p>"
    return _document_html("Incidents", f'<h1>Incidents</h1>{body}<p class="quiet">{facts}</p>', refresh=True)


def incident_html(document: Document) -> str:
    """One incident as an HTML document: root cause with its reasons, chain, evidence, next steps."""
    parts = (
        f"<h1>{_text(document['title'])}</h1>",
        _facts(document),
        _root_cause(document["root_cause"]),
        _doubts(document),
        _next_steps(document),
        _chain(document["chain"]),
        _evidence(document["evidence"]),
        _progress(document["progress"]),
    )
    return _document_html(document["title"], "".join(parts))


def _facts(document: Document) -> str:
    blast = document["blast_radius"]
    facts = {
        "Severity": _severity(document["severity"]),
        "Status": _text(document["status"]),
        "Class": _text(document["class"]),
        "Cluster": _text(document["cluster"]),
        "Jobs": _text(", ".join(document["jobs"]) or "-"),
        "Nodes": _text(", ".join(document["nodes"]) or "-"),
        "Reaches": f"{int(blast['nodes'])} nodes, {int(blast['ranks'])} ranks, {int(blast['jobs'])} jobs",
        "Lost": _lost(document.get("cost", {})),
        "First seen": _time(document["first_seen"]),
        "Last seen": _time(document["last_seen"]),
        "Signals": str(int(document["signal_count"])),
        "Id": _text(document["incident_id"]),
        "Revision": str(int(document["revision"])),
    }
    if document.get("merged_into"):
        other = document["merged_into"]
        facts["Merged into"] = f'<a href="/incidents/{quote(other, safe="")}">{_text(other)}</a>'
    return _definitions(facts)


def _root_cause(root: Document) -> str:
    facts = {
        "Class": _text(root["class"]),
        "Rule": _text(root["rule"]),
        "Node": _text(root["node"] or "-"),
        "Rank": _text("-" if root["rank"] is None else root["rank"]),
        "GPU": _text(root["gpu"] or "-"),
        "Time": _time(root["event_time"], "milliseconds"),
        "Confidence": f"{float(root['confidence']):.0%}",
    }
    return f"<h2>Root cause</h2>{_definitions(facts)}{_list('ul', root['reasons'])}"


def _lost(cost: Document) -> str:
    steps, hours = cost.get("steps_lost"), cost.get("gpu_hours_lost")
    parts = [f"{int(steps)} steps"] if steps is not None else []
    parts += [f"{float(hours):.1f} GPU-hours"] if hours is not None else []
    return ", ".join(parts) or "-"


def _doubts(document: Document) -> str:
    """The other candidates, and what evidence is missing."""
    others, lacks = document.get("candidates", ())[1:], document.get("missing", ())
    told = [f"{one['class']} on {one['node'] or '-'}: {float(one['confidence']):.0%}" for one in others]
    parts = [f"<h2>Other candidates</h2>{_list('ul', told)}" if told else ""]
    parts += [f"<h2>Missing evidence</h2>{_list('ul', lacks)}" if lacks else ""]
    return "".join(parts)


def _next_steps(document: Document) -> str:
    return (
        f"<h2>Next steps</h2>{_list('ol', document['next_steps'])}"
        f'<p><span class="quiet">Action</span> {_text(document["action"] or "none")}</p>'
    )


def _chain(links: Sequence[Document]) -> str:
    rows = [
        _cells(
            _time(link["onset"], "milliseconds"),
            _time(link["event_time"], "milliseconds"),
            _text(link["node"] or "-"),
            _text("-" if link["rank"] is None else link["rank"]),
            _text(link["class"]),
            _text(link["role"]),
            _text(link["text"]),
            last="text",
        )
        for link in links
    ]
    return "<h2>Chain</h2>" + _table(("Began", "Logged", "Node", "Rank", "Class", "Role", "Line"), rows)


def _evidence(lines: Sequence[Document]) -> str:
    return "<h2>Evidence</h2>" + "".join(map(_evidence_line, lines))


def _evidence_line(line: Document) -> str:
    place = f"{line['source']}:{line['line']} {line['node']} {line['class']}"
    return f'<div class="quiet">{_text(place)}</div><pre>{_text(line["text"], multiline=True)}</pre>'


def _progress(progress_by_job: Mapping[str, Document]) -> str:
    rows = [
        _cells(
            _text(job),
            _text(progress["last_step"]),
            _time(progress["last_step_time"]),
            _text("-" if progress["step_time_s"] is None else f"{float(progress['step_time_s']):.3g} s"),
        )
        for job, progress in progress_by_job.items()
    ]
    return "<h2>Progress</h2>" + _table(("Job", "Last step", "At", "Step time"), rows) if rows else ""


def _text(value: object, *, multiline: bool = False) -> str:
    return escape(make_inert(str(value), multiline=multiline))


def _severity(severity: str) -> str:
    known = severity if severity in ("critical", "error", "warning") else "info"
    return f'<span class="severity {known}">{_text(severity)}</span>'


def _time(iso: str, precision: str = "seconds") -> str:
    shown = iso.replace("T", " ").rstrip("Z")[: 19 if precision == "seconds" else 23]
    return f'<time datetime="{_text(iso)}">{_text(shown)}</time>'


def _cells(*cells: str, last: str = "number") -> str:
    plain = "".join(f"<td>{cell}</td>" for cell in cells[:-1])
    return f'<tr>{plain}<td class="{last}">{cells[-1]}</td></tr>'


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    titles = "".join(f"<th>{title}</th>" for title in head)
    return (
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>' + "".join(rows) + "</tbody></table></div>"
    )


def _definitions(facts: Mapping[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items()) + "</dl>"


def _list(kind: str, items: Sequence[str]) -> str:
    return f"<{kind}>" + "".join(f"<li>{_text(item)}</li>" for item in items) + f"</{kind}>"


def _document_html(title: str, body: str, refresh: bool = False) -> str:
    again = f'<meta http-equiv="refresh" content="{REFRESH_S}">' if refresh else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f'<title>{_text(title)} – epicenter</title><link rel="stylesheet" href="/style.css"></head>'
        f'<body><header><a href="/">epicenter</a><span class="quiet">times are UTC</span></header>'
        f"<main>{body}</main></body></html>"
    )


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


async def _style(request: web.Request) -> web.Response:
    return web.Response(text=STYLE, content_type="text/css", charset="utf-8")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A foreign page may point its own name at 127.0.0.1 (DNS rebinding), but it can't change the Host header."""
    if not _is_local(request.headers.get("Host", "")):
        return _json({"error": "this page answers only to localhost"}, status=403)
    return await handler(request)


@web.middleware
async def _store_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except PipelineError as error:
        if request.path.startswith("/api/"):
            return _json({"error": make_inert(str(error))}, status=503)
        body = f"<h1>The store does not answer</h1><p>{_text(error)}</p>"
        return _html(_document_html("Store away", body, refresh=True), status=503)


def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
