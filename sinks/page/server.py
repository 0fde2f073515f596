"""The routes of the local page: incidents, jobs and silences, as HTML for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import time_ns
from typing import Any, Final

from aiohttp import web

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Acknowledgement
from epicenter.sinks.clickhouse import jobs, operator_actions, reading
from epicenter.sinks.evidence.questions import answer
from epicenter.sinks.net.token_guard import IS_KNOWN, only_bearers
from epicenter.sinks.page import guard, postmortem
from epicenter.sinks.page.actions import Actions
from epicenter.sinks.page.grid import grid_of
from epicenter.sinks.page.live import Ask, Feed, Health, events
from epicenter.sinks.page.render import html_response, json_response
from epicenter.sinks.page.search import LAST_PAGE, PER_PAGE, ListQuery
from epicenter.sinks.page.story import load_story, shown_of
from epicenter.sinks.text.incident_view import IncidentView

LIMIT: Final = 200
HIGHEST_LIMIT: Final = 1_000
STATIC: Final = Path(__file__).with_name("static")


def page(ask: Ask, health: Health, feed: Feed, token: str = "") -> web.Application:
    """The application. Without a token serve it on a loopback address: it answers whoever names this machine as host.

    With one it answers whoever sends it, by whatever name: a foreign page does not have it.
    """
    pages, actions = _Pages(ask, health, feed), Actions(ask, feed)
    admit = only_bearers(token, "/healthz") if token else guard.only_this_machine
    application = web.Application(
        middlewares=[guard.errors_as_json, admit, guard.only_own_pages_write, guard.store_errors],
        client_max_size=guard.MAX_BODY_BYTES,
    )
    application.on_response_prepare.append(guard.add_headers)
    application.on_shutdown.append(_let_go_of(feed))
    application.add_routes(
        [
            web.get("/", pages.incidents),
            web.get("/incidents/{id}", pages.incident),
            web.get("/jobs", pages.jobs),
            web.get("/jobs/{cluster}/{job}", pages.job),
            web.get("/silences", pages.silences),
            web.get("/events", events(feed, health)),
            web.get("/healthz", pages.healthz),
            web.get("/api/incidents", pages.api_incidents),
            web.get("/api/incidents/{id}.md", pages.api_markdown),
            web.get("/api/incidents/{id}", pages.api_incident),
            web.get("/api/jobs/{cluster}/{job}/ranks", pages.api_ranks),
            web.get("/api/handover/{question}", pages.api_handover),
            web.post("/api/incidents/{id}/feedback", actions.give_feedback),
            web.post("/api/incidents/{id}/acknowledgement", actions.acknowledge),
            web.post("/incidents/{id}/acknowledgement", actions.acknowledge_without_scripts),
            web.get("/api/silences", pages.api_silences),
            web.post("/api/silences", actions.silence),
            web.post("/api/silences/{id}/end", actions.end_silence),
            web.static("/static", STATIC),
        ]
    )
    return application


class _Pages:
    def __init__(self, ask: Ask, health: Health, feed: Feed):
        self._ask = ask
        self._health = health
        self._feed = feed

    async def incidents(self, request: web.Request) -> web.Response:
        """The list, for people; `q`, `status`, `class`, `cluster` and `page` narrow it."""
        version, query = str(self._feed.version), ListQuery.of(request.query)
        groups = await self._ask(reading.incident_groups)
        found = await self._ask(
            lambda client: reading.find_incidents(client, query.wanted(), PER_PAGE + 1, query.offset)
        )
        return self._shown(
            "incidents.html",
            version,
            query=query,
            groups=groups,
            views=list(map(IncidentView, found[:PER_PAGE])),
            taken=await self._taken(found),
            has_more=len(found) > PER_PAGE and query.page < LAST_PAGE,
        )

    async def incident(self, request: web.Request) -> web.Response:
        """One incident, for people."""
        version, now_ns = str(self._feed.version), time_ns()
        story = await self._ask(lambda client: load_story(client, request.match_info["id"], now_ns))
        if story is None:
            return self._missing("No incident has this id")
        return self._shown("incident.html", version, now_ns=now_ns, **shown_of(story, now_ns))

    async def jobs(self, request: web.Request) -> web.Response:
        """Jobs that were heard of, for people."""
        version = str(self._feed.version)
        return self._shown("jobs.html", version, jobs=await self._ask(jobs.list_jobs))

    async def job(self, request: web.Request) -> web.Response:
        """A job's ranks, for people."""
        version, cluster, job = str(self._feed.version), request.match_info["cluster"], request.match_info["job"]
        grid = grid_of(await self._ask(lambda client: jobs.list_ranks(client, cluster, job)), time_ns())
        wanted = reading.IncidentFilter(cluster=cluster, job=job)
        incidents = await self._ask(lambda client: reading.find_incidents(client, wanted, 10))
        if not grid.newest_ns and not incidents:
            return self._missing("Nothing was heard of this job")
        return self._shown(
            "job.html",
            version,
            cluster=cluster,
            job=job,
            grid=grid,
            views=list(map(IncidentView, incidents)),
            taken=await self._taken(incidents),
        )

    async def silences(self, request: web.Request) -> web.Response:
        """Silences, for people."""
        version = str(self._feed.version)
        return self._shown("silences.html", version, silences=await self._ask(operator_actions.list_silences))

    async def api_incidents(self, request: web.Request) -> web.Response:
        """Incidents, open ones first; `q`, `status`, `class` and `cluster` narrow them, `limit` is at most 1000."""
        limit = request.query.get("limit", str(LIMIT))
        if not (limit.isascii() and limit.isdecimal() and len(limit) < 9 and 1 <= int(limit) <= HIGHEST_LIMIT):
            return json_response({"error": f"limit: write a number from 1 to {HIGHEST_LIMIT}"}, status=400)
        wanted = ListQuery.of(request.query).wanted()
        return json_response(await self._ask(lambda client: reading.find_incidents(client, wanted, int(limit))))

    async def api_incident(self, request: web.Request) -> web.Response:
        """An incident, as `epicenter incidents show --json` prints it."""
        incident = await self._incident(request)
        return json_response(incident or {"error": "no incident has this id"}, status=200 if incident else 404)

    async def api_markdown(self, request: web.Request) -> web.Response:
        """The draft of its post-mortem."""
        incident = await self._incident(request)
        if incident is None:
            return json_response({"error": "no incident has this id"}, status=404)
        text = postmortem.markdown(incident)
        return web.Response(text=text, content_type="text/markdown", charset="utf-8")

    async def api_silences(self, request: web.Request) -> web.Response:
        """Those that go on; with `all=1` those that are over too."""
        after_ns = 0 if request.query.get("all") == "1" else time_ns()
        return json_response(await self._ask(lambda client: operator_actions.list_silences(client, after_ns)))

    async def api_ranks(self, request: web.Request) -> web.Response:
        """A job's ranks in columns, as the page draws them."""
        cluster, job = request.match_info["cluster"], request.match_info["job"]
        ranks = await self._ask(lambda client: jobs.list_ranks(client, cluster, job))
        return json_response(grid_of(ranks, time_ns()).columns())

    async def api_handover(self, request: web.Request) -> web.Response:
        """`{"found": …}`: one of the questions below, with what it takes in the query."""
        question, given = request.match_info["question"], dict(request.query)
        try:
            return json_response(await self._ask(lambda client: answer(client, question, given)))
        except ValueError as error:
            return json_response({"error": str(error)}, status=400)

    async def healthz(self, request: web.Request) -> web.Response:
        """How the process is; status 503 unless `status` is `ok`. Who needs a token and has none gets that alone."""
        health = self._health()
        is_well = health.get("status") == "ok"
        shown = health if request.get(IS_KNOWN, True) else {"status": "ok" if is_well else "not well"}
        return json_response(shown, status=200 if is_well else 503)

    async def _taken(self, incidents: Sequence[Incident]) -> dict[str, Acknowledgement]:
        """Who takes care of each of these incidents, by its id."""
        ids = [incident.incident_id for incident in incidents]
        return operator_actions.standing(
            await self._ask(lambda client: operator_actions.list_acknowledgements(client, incident_ids=ids))
        )

    async def _incident(self, request: web.Request) -> Incident | None:
        return await self._ask(lambda client: reading.get_incident(client, request.match_info["id"]))

    def _shown(self, template: str, version: str, **shown: Any) -> web.Response:
        """`version` is that of before the store was asked: news that came meanwhile make the page ask again."""
        return html_response(template, version=version, health=self._health(), **shown)

    def _missing(self, what: str) -> web.Response:
        return html_response("missing.html", status=404, what=what)


def _let_go_of(feed: Feed) -> Any:
    async def close(application: web.Application) -> None:
        feed.close()

    return close
