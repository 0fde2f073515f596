"""`make cluster` without Prometheus and Alertmanager."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.dev.monitoring import find_alertmanager, find_prometheus


def test_missing_programs_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = find_alertmanager(tmp_path), find_prometheus(tmp_path, "127.0.0.1:6066", "")
    assert [server.command for server in found] == [[], []]
    assert [server.where.rpartition(" ")[2] for server in found] == ["prometheus-alertmanager", "prometheus"]
