"""Fixtures of the tests on real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(bootstrap: str, dsn: str, **settings: str) -> Cluster:
        made.append(Cluster(bootstrap, dsn, tmp_path, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()
