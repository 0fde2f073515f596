"""Prometheus and Alertmanager for `make cluster`, where these programs are installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from deploy.dev.broker import REPOSITORY
from deploy.dev.process import port_or_free

READY: Final = "/-/ready"
PROMETHEUS_RULES: Final = REPOSITORY / "deploy/prometheus/epicenter.rules.yaml"
ALERTMANAGER_CONFIG: Final = REPOSITORY / "deploy/compose/alertmanager.yaml"
ALERTS: Final = REPOSITORY / "deploy/compose/alerts.yaml"


class Monitor(NamedTuple):
    """The command that starts it, and its address. Without a command, `where` says what to install."""

    where: str
    command: list[str]


def find_alertmanager(base: Path) -> Monitor:
    """Alertmanager, also under the name of Debian's package."""
    program = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    if not program:
        return _missing("prometheus-alertmanager")
    address = f"127.0.0.1:{port_or_free(9093)}"
    files = [f"--config.file={ALERTMANAGER_CONFIG}", f"--storage.path={base / 'alertmanager'}"]
    addresses = [f"--web.listen-address={address}", "--cluster.listen-address="]
    return Monitor(f"http://{address}", [program, *files, *addresses])


def find_prometheus(base: Path, worker: str, alertmanager: str) -> Monitor:
    """Prometheus, which scrapes `worker` and alerts `alertmanager`, both host:port; the latter may be empty."""
    program = shutil.which("prometheus")
    if not program:
        return _missing("prometheus")
    address, config = f"127.0.0.1:{port_or_free(9090)}", base / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_scraping(worker, alertmanager)))
    files = [f"--config.file={config}", f"--storage.tsdb.path={base / 'prometheus'}"]
    return Monitor(f"http://{address}", [program, *files, f"--web.listen-address={address}"])


def _missing(package: str) -> Monitor:
    return Monitor(f"not started, because it is not on PATH: apt-get install {package}", [])


def _scraping(worker: str, alertmanager: str) -> dict[str, object]:
    return {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(PROMETHEUS_RULES)],
        "scrape_configs": [{"job_name": "epicenter", "static_configs": [{"targets": [worker]}]}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager] if alertmanager else []}]}]},
    }
