"""`epicenter explain` and `epicenter logs` on a real store: every reference of a pack leads to the line itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ingest.simulate import write_all
from sinks.clickhouse.client import Client, connect
from sinks.clickhouse.migrate import migrate
from sinks.clickhouse.sink import ClickHouseSink
from sinks.handover.questions import answer
from stream.demo import demo_scenario
from stream.dev_process import EPICENTER
from tests.integration.test_dead_letters import sent_to  # noqa: F401  (to be replaced)
