"""Dead letters as JSON: under the present address, and under the one that older commands request."""

from __future__ import annotations

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
