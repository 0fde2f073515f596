"""Dead letters as JSON: under the present address, and under the one that older commands request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from epicenter.sinks.clickhouse.dead_letters import DeadLetterFilter
from epicenter.sinks.clickhouse.named import UnknownIdError
from epicenter.sinks.page.dead_letters import dead_letter_routes
from epicenter.sinks.page.guard import store_errors

DOCUMENT = {"dead_letter_id": "3f2a", "reason": "not JSON"}


async def newest(wanted: DeadLetterFilter, limit: int) -> Sequence[dict[str, Any]]:
    return [DOCUMENT] * limit if wanted.reason == "not JSON" else []


async def get(dead_letter_id: str) -> dict[str, Any]:
    if dead_letter_id != "3f2a":
        raise UnknownIdError("no such dead letter")
    return DOCUMENT


@pytest.mark.parametrize("path", ["/api/dead-letters", "/api/deadletters"])
async def test_both_addresses_answer(path: str) -> None:
    application = web.Application(middlewares=[store_errors(dict)])
    application.add_routes(dead_letter_routes(newest, get))
    async with TestClient(TestServer(application)) as client:
        found = await (await client.get(path, params={"reason": "not JSON", "limit": "2"})).json()
        assert found == [DOCUMENT, DOCUMENT]
        assert await (await client.get(f"{path}/3f2a")).json() == DOCUMENT
        assert (await client.get(f"{path}/4711")).status == 404
        assert (await client.get(path, params={"limit": "many"})).status == 400


TOO_LARGE = str(10**30)


@pytest.mark.parametrize("name", ["limit", "since_ns"])
@pytest.mark.parametrize("text", ["-1", TOO_LARGE, "NaN", "1e3", "²", "", "9" * 5000, str(2**63)])
async def test_a_number_out_of_bounds_is_refused_with_what_is_allowed(name: str, text: str) -> None:
    wanted: list[object] = []

    async def find(*query: object) -> Sequence[dict[str, Any]]:
        wanted.append(query)
        return []

    application = web.Application()
    application.add_routes(dead_letter_routes(find, get))
    async with TestClient(TestServer(application)) as client:
        response = await client.get("/api/dead-letters", params={name: text})
        assert (response.status, wanted) == (400, [])
        assert re.fullmatch(rf"{name}: write a number from \d+ to \d+", (await response.json())["error"])
        assert (await client.get("/api/dead-letters", params={"limit": "0"})).status == 400
        assert (await client.get("/api/dead-letters", params={"limit": "1", "since_ns": "0"})).status == 200
