"""The routes of the local page: incidents, jobs and silences, as HTML for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import time_ns
from typing import Any, Final

from aiohttp import web

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import JobState
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse import jobs, operator_actions, reading
from epicenter.sinks.clickhouse.named import named_incident
from epicenter.sinks.clickhouse.unnamed import list_unnamed
from epicenter.sinks.evidence.questions import answer
from epicenter.sinks.net.parameters import number
from epicenter.sinks.net.proof import PROOF_PATH
from epicenter.sinks.net.token_guard import IS_KNOWN, OPEN_PATHS, require_token
from epicenter.sinks.page import guard, postmortem
from epicenter.sinks.page.actions import Actions
from epicenter.sinks.page.freshness import Freshness, StateReader
from epicenter.sinks.page.grid import Grid, grid_of
from epicenter.sinks.page.listing import load_listing
from epicenter.sinks.page.listing import template_variables as listing_variables
from epicenter.sinks.page.live import Feed, Health, StoreQuery, events
from epicenter.sinks.page.node import load_node
from epicenter.sinks.page.node import template_variables as node_variables
from epicenter.sinks.page.render import html_response, json_response
from epicenter.sinks.page.search import ListQuery
from epicenter.sinks.page.story import load_story, template_variables
from epicenter.sinks.text.incident_view import IncidentView

DEFAULT_LIMIT: Final = 200
MAX_LIMIT: Final = 1_000
MAX_UNNAMED: Final = 200
UNNAMED_WITHIN_NS: Final = 7 * 86_400 * NS_PER_S
STATIC: Final = Path(__file__).with_name("static")


def page(query: StoreQuery, health: Health, feed: Feed, token: str = "") -> web.Application:
    """The page as an application.

    Without `token`, serve it on a loopback address: it answers only requests whose Host is this machine. With `token`
    it answers every request that carries it.
    """
    state = StateReader(query)
    pages, actions = _Pages(query, health, feed, state), Actions(query, feed)
    admit = require_token(token, *OPEN_PATHS, PROOF_PATH) if token else guard.only_this_machine
    application = web.Application(
        middlewares=[
            guard.errors_as_json,
            admit,
            guard.only_own_pages_write,
            guard.store_errors(health),
            guard.missing_page,
        ],
        client_max_size=guard.MAX_BODY_BYTES,
    )
    application.on_response_prepare.append(guard.add_headers)
    application.on_shutdown.append(_close_on_shutdown(feed))
    application.add_routes(
        [
            web.get("/", pages.incidents),
            web.get("/incidents/{id}", pages.incident),
            web.get("/jobs", pages.jobs),
            web.get("/jobs/{cluster:[^/]+}/{job:[^/]+}", pages.job),
            web.get("/nodes/{node:[^/]+}", pages.node),
            web.get("/silences", pages.silences),
            web.get("/unnamed", pages.unnamed),
            web.get("/events", events(feed, health, state.read)),
            web.get("/healthz", pages.healthz),
            web.get("/livez", pages.livez),
            web.get("/readyz", pages.readyz),
            web.get("/api/incidents", pages.api_incidents),
            web.get("/api/incidents/{id}.md", pages.api_markdown),
            web.get("/api/incidents/{id}", pages.api_incident),
            web.get("/api/jobs/{cluster:[^/]+}/{job:[^/]+}/ranks", pages.api_ranks),
            web.get("/api/handover/{question}", pages.api_evidence),
            web.post("/api/incidents/{id}/feedback", actions.give_feedback),
            web.post("/api/incidents/{id}/acknowledgement", actions.acknowledge),
            web.post("/incidents/{id}/acknowledgement", actions.acknowledge_without_scripts),
            web.post("/api/incidents/acknowledgements", actions.acknowledge_all),
            web.post("/api/incidents/silences", actions.silence_all),
            web.get("/api/silences", pages.api_silences),
            web.get("/api/acknowledgements", pages.api_acknowledgements),
            web.post("/api/silences", actions.silence),
            web.post("/api/silences/{id}/end", actions.end_silence),
            web.static("/static", STATIC),
        ]
    )
    return application


class _Pages:
    def __init__(self, query: StoreQuery, health: Health, feed: Feed, state: StateReader):
        self._query = query
        self._health = health
        self._state = state
        self._feed = feed

    async def incidents(self, request: web.Request) -> web.Response:
        """The list as HTML: `q`, `status`, `severity`, `class`, `cluster`, `time`, `group`, `view`, `page`."""
        version, now_ns, query = str(self._feed.version), time_ns(), ListQuery.of(request.query)
        listing = await self._query(lambda client: load_listing(client, query, now_ns))
        variables = listing_variables(listing, query, now_ns)
        return await self._render("incidents.html", version, now_ns=now_ns, **variables)

    async def incident(self, request: web.Request) -> web.Response:
        """One incident as HTML."""
        version, now_ns = str(self._feed.version), time_ns()
        story = await self._query(lambda client: load_story(client, request.match_info["id"], now_ns))
        return await self._render("incident.html", version, now_ns=now_ns, **template_variables(story, now_ns))

    async def jobs(self, request: web.Request) -> web.Response:
        """Recent jobs as HTML."""
        version = str(self._feed.version)
        return await self._render("jobs.html", version, jobs=await self._query(jobs.list_jobs))

    async def job(self, request: web.Request) -> web.Response:
        """A job's ranks as HTML."""
        version, cluster, job = str(self._feed.version), request.match_info["cluster"], request.match_info["job"]
        state, grid = await self._grid(cluster, job)
        wanted = reading.IncidentFilter(cluster=cluster, job=job)
        incidents = await self._query(lambda client: reading.find_incidents(client, wanted, 10))
        if not grid.newest_ns and not incidents:
            return self._not_found("Job not found", f"Nothing is stored of job {job} in cluster {cluster}")
        return await self._render(
            "job.html",
            version,
            cluster=cluster,
            job=job,
            state=state,
            grid=grid,
            views=list(map(IncidentView, incidents)),
            acknowledgements=await self._acknowledgements(incidents),
        )

    async def node(self, request: web.Request) -> web.Response:
        """A node's incidents, kernel matches and jobs as HTML; `cluster` tells nodes of one name apart."""
        version, now_ns, node = str(self._feed.version), time_ns(), request.match_info["node"]
        cluster = request.query.get("cluster", "")
        story = await self._query(lambda client: load_node(client, node, cluster, now_ns))
        if story is None:
            within = f" in cluster {cluster}" if cluster else ""
            return self._not_found("Node not found", f"Nothing is stored of node {node}{within}")
        variables = node_variables(story, node, cluster, now_ns)
        return await self._render("node.html", version, now_ns=now_ns, **variables)

    async def silences(self, request: web.Request) -> web.Response:
        """Silences as HTML."""
        version = str(self._feed.version)
        return await self._render("silences.html", version, silences=await self._query(operator_actions.list_silences))

    async def api_incidents(self, request: web.Request) -> web.Response:
        """Incidents, open ones first; filtered as the list is. `limit` is at most 1000."""
        try:
            limit = number(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        except ValueError as error:
            return json_response({"error": str(error)}, status=400)
        wanted = ListQuery.of(request.query).store_filter(time_ns())
        return json_response(await self._query(lambda client: reading.find_incidents(client, wanted, limit)))

    async def api_incident(self, request: web.Request) -> web.Response:
        """An incident, as `epicenter incidents show --json` prints it."""
        return json_response(await self._incident(request))

    async def api_markdown(self, request: web.Request) -> web.Response:
        """The draft post-mortem as Markdown."""
        text = postmortem.markdown(await self._incident(request))
        return web.Response(text=text, content_type="text/markdown", charset="utf-8")

    async def unnamed(self, request: web.Request) -> web.Response:
        """Messages of the last week that look like failures and that no rule names, as HTML."""
        version, since_ns = str(self._feed.version), time_ns() - UNNAMED_WITHIN_NS
        messages = await self._query(lambda client: list_unnamed(client, since_ns, MAX_UNNAMED))
        return await self._render("unnamed.html", version, messages=messages)

    async def api_silences(self, request: web.Request) -> web.Response:
        """Active silences; with `all=1` expired ones too."""
        after_ns = 0 if request.query.get("all") == "1" else time_ns()
        return json_response(await self._query(lambda client: operator_actions.list_silences(client, after_ns)))

    async def api_acknowledgements(self, request: web.Request) -> web.Response:
        """Every acknowledgement, oldest first."""
        return json_response(await self._query(operator_actions.list_acknowledgements))

    async def api_ranks(self, request: web.Request) -> web.Response:
        """A job's ranks in columns, for the grid."""
        cluster, job = request.match_info["cluster"], request.match_info["job"]
        _, grid = await self._grid(cluster, job)
        return json_response(grid.columns())

    async def api_evidence(self, request: web.Request) -> web.Response:
        """`{"found": …}`: the answer to one of the questions below; its parameters are in the query."""
        question, parameters = request.match_info["question"], dict(request.query)
        try:
            return json_response(await self._query(lambda client: answer(client, question, parameters)))
        except ValueError as error:
            return json_response({"error": str(error)}, status=400)

    async def healthz(self, request: web.Request) -> web.Response:
        """The process's health, with status 503 unless `status` is `ok`. Without the required token, only `status`."""
        health = self._health()
        is_healthy = health.get("status") == "ok"
        shown = health if request.get(IS_KNOWN, True) else {"status": "ok" if is_healthy else "not well"}
        return json_response(shown, status=200 if is_healthy else 503)

    async def livez(self, request: web.Request) -> web.Response:
        """200 as long as the process answers. A liveness probe asks this: restarting does not mend a store."""
        return json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        """200: the page answers. While its store is away it says so, which a proxy without a ready page could not."""
        return json_response({"status": "ok"})

    async def _acknowledgements(self, incidents: Sequence[Incident]) -> dict[str, Acknowledgement]:
        """The active acknowledgement of each incident, by incident id."""
        ids = [incident.incident_id for incident in incidents]
        return operator_actions.active_acknowledgements(
            await self._query(lambda client: operator_actions.list_acknowledgements(client, incident_ids=ids))
        )

    async def _grid(self, cluster: str, job: str) -> tuple[JobState | None, Grid]:
        state = await self._query(lambda client: jobs.get_job_state(client, cluster, job))
        ranks = await self._query(lambda client: jobs.list_ranks(client, cluster, job))
        return state, grid_of(ranks, state, time_ns())

    async def _incident(self, request: web.Request) -> Incident:
        return await self._query(lambda client: named_incident(client, request.match_info["id"]))

    async def _render(self, template: str, version: str, **variables: Any) -> web.Response:
        """A page with `version` from before the query: the browser reloads if data changed meanwhile."""
        state, now_ns = await self._state.read(), variables.pop("now_ns", time_ns())
        freshness = Freshness(state.newest_ns, now_ns)
        known = {"health": self._health(), "clusters": state.clusters, "freshness": freshness, "now_ns": now_ns}
        return html_response(template, version=version, **known, **variables)

    def _not_found(self, what: str, why: str) -> web.Response:
        return html_response("missing.html", status=404, what=what, why=why)


def _close_on_shutdown(feed: Feed) -> Any:
    async def close(application: web.Application) -> None:
        feed.close()

    return close
