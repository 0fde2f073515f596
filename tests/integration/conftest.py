"""Fixtures of the tests on real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(bootstrap: str, dsn: str, share_raw: Cluster | None = None, **settings: str) -> Cluster:
        made.append(Cluster(bootstrap, dsn, tmp_path, share_raw, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def clusters(kafka: Any, clickhouse: Any, make_cluster: Callable[..., Cluster]) -> Callable[..., Cluster]:
    """Makes clusters on the broker and the store of the session."""

    def make(share_raw: Cluster | None = None, **settings: str) -> Cluster:
        return make_cluster(kafka.bootstrap, clickhouse.dsn, share_raw=share_raw, **settings)

    return make
