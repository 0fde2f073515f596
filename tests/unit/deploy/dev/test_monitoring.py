"""What `make cluster` says where Prometheus and Alertmanager are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.dev.monitoring import find_alertmanager, find_prometheus


def test_what_to_install_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = find_alertmanager(tmp_path), find_prometheus(tmp_path, "127.0.0.1:6066", "")
    assert [one.command for one in found] == [[], []]
    assert [one.where.rpartition(" ")[2] for one in found] == ["prometheus-alertmanager", "prometheus"]
