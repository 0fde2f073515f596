"""Session fixtures `kafka` and `clickhouse`: started once a run, in the best way this machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.dev.broker import DevBroker, dev_broker, docker_answers
from deploy.dev.clickhouse import DATABASE, dev_clickhouse

CLICKHOUSE_IMAGE = "clickhouse/clickhouse-server:26.3"


class ClickHouse(msgspec.Struct, frozen=True):
    """A ClickHouse that answers HTTP: its DSN, and how we came by it ("given", "container" or "chdb")."""

    dsn: str
    how: str


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """A Kafka broker for the whole run: give your topics unique names."""
    with dev_broker(tmp_path_factory.mktemp("kafka")) as broker:
        _announce(request, f"kafka: {broker.how}, {broker.bootstrap}")
        yield broker


@pytest.fixture(scope="session")
def clickhouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """A ClickHouse for the whole run: give your tables unique names. The database of its DSN exists."""
    with _clickhouse(tmp_path_factory.mktemp("clickhouse")) as server:
        _announce(request, f"clickhouse: {server.how}")
        yield server


@contextmanager
def _clickhouse(work_dir: Path) -> Iterator[ClickHouse]:
    if dsn := os.environ.get("EPICENTER_TEST_CLICKHOUSE"):
        yield ClickHouse(dsn, "given")
    elif docker_answers():
        with _clickhouse_container() as dsn:
            yield ClickHouse(dsn, "container")
    else:
        with dev_clickhouse(work_dir) as server:
            yield ClickHouse(server.dsn, "chdb")


@contextmanager
def _clickhouse_container() -> Iterator[str]:
    from testcontainers.community.clickhouse import ClickHouseContainer

    # Any: testcontainers' port type knows no address, but the Docker client does; no number means any free one.
    container: Any = ClickHouseContainer(CLICKHOUSE_IMAGE, username="test", password="test", dbname=DATABASE)
    for port in list(container.ports):
        container.ports[port] = ("127.0.0.1", None)
    with container:
        yield f"http://test:test@127.0.0.1:{container.get_exposed_port(8123)}/{DATABASE}"


def _announce(request: pytest.FixtureRequest, line: str) -> None:
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    if reporter is None or capture is None:
        return
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.write_line(line)
