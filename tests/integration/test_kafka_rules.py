"""Rules of a running worker change: a new rule works at once, a broken pack changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, Worker
from tests.support.logs import vector
from tests.support.packs import A_PACK
from tests.support.waiting import COMPILE_S, eventually

pytestmark = pytest.mark.integration


LOUD = """\
  - id: mine.loud
    title: It fits too many lines
    class: mine-loud
    source: worker
    patterns: ['LOUD']
    severity: error
    role: cascade
    entity: job
    meaning: A test wrote it.
    examples:
      matches: ['LOUD', 'so LOUD']
      near_misses: ['quiet']
"""


def has_reloaded(worker: Worker, outcome: str) -> bool:
    assert worker.process.poll() is None, worker.log.read_text()
    return f'epicenter_rules_reloads_total{{outcome="{outcome}"}} 1.0' in worker.get("/metrics")


def of_rule(worker: Worker, rule: str, name: str) -> float:
    return worker.metric(f'epicenter_rule_{name}_total{{rule="{rule}"}}')


def candidates(worker: Worker) -> float:
    """Lines that the loud rule may fit: those that it checked, and those that it passed over."""
    return of_rule(worker, "mine.loud", "candidates") + of_rule(worker, "mine.loud", "throttled")


def test_rules_change_while_a_worker_runs(kafka: Any, clickhouse: Any, tmp_path: Path) -> None:
    pack = tmp_path / "mine.yaml"
    pack.write_text("pack: mine\n")
    cluster = Cluster(kafka.bootstrap, clickhouse.dsn, tmp_path, RULE_PACKS=str(pack), RELOAD_EVERY="200ms",
                      ADVANCE_WHEN_IDLE="true", RULE_CPU_SHARE="1e-7")  # fmt: skip
    try:
        worker = cluster.start_worker()
        eventually(lambda: worker.metric("epicenter_partitions") == 4, COMPILE_S, "the worker's partitions")
        rules = worker.metric("epicenter_rules")

        pack.write_text(A_PACK + LOUD)
        eventually(lambda: has_reloaded(worker, "taken"), COMPILE_S, "the new rule is loaded")
        assert worker.metric("epicenter_rules") == rules + 2
        cluster.feed([("n1", vector("n1", 1, "it went wrong: 1", "A"))])
        (incident,) = eventually(cluster.incidents, 60, "an incident by the new rule")
        assert (incident["class"], incident["root_cause"]["rule"], incident["jobs"]) == ("mine-one", "mine.one", ["A"])

        pack.write_text(A_PACK.replace("role: root", "role: boss"))
        eventually(lambda: has_reloaded(worker, "broken"), COMPILE_S, "the broken pack is refused")
        message = f"{pack}:9: rules.0.role: write"
        assert message in worker.log.read_text()
        (problem,) = json.loads(worker.get("/healthz"))["rules"]["problems"]
        assert problem.startswith(message)
        cluster.feed([("n2", vector("n2", 4000, "it went wrong: 2", "B"))])
        eventually(lambda: len(cluster.incidents()) == 2, 60, "the old rule still works")
        assert worker.metric("epicenter_unknown_rule_matches_total") == 0

        cluster.feed(("n1", vector("n1", second, f"LOUD {second}", "A")) for second in range(50))
        eventually(lambda: candidates(worker) == 50, 60, "all candidates are counted")
        assert of_rule(worker, "mine.loud", "throttled") > 0
        assert of_rule(worker, "mine.one", "hits") == 2
        assert f"{pack}:15: mine.loud: " in worker.log.read_text()
    finally:
        cluster.stop()
