"""The most likely disaster: ClickHouse's data are lost. The others: `make disaster`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.disaster import run_disaster

pytestmark = pytest.mark.integration


def test_a_lost_store_is_refilled_from_kafka(kafka: Any, clickhouse: Any, tmp_path: Path) -> None:
    assert run_disaster("store-lost", kafka.bootstrap, clickhouse.dsn, tmp_path, incidents=1)
