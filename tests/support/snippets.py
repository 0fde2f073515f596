"""Checks configuration in documents: ours is loaded as in use, that of other programs is checked as far as possible."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from epicenter.rules.packs.topology import read_topology
from epicenter.rules.redact.load import load_redactor
from epicenter.sinks.notify.load import load_alerts
from epicenter.stream.load_settings import load_settings
from epicenter.stream.scenarios.reading import read_scenarios
from epicenter.stream.settings import Settings
from tests.support.documents import ROOT
from tests.support.shown_commands import CHART, has_value, of_epicenter

KUBERNETES = "1.37"
OF_OPERATORS = ("monitoring.coreos.com/", "external-secrets.io/", "cert-manager.io/", "kafka.strimzi.io/")
"""Kinds that no cluster knows by itself; nothing here has their schemas."""

FOREIGN = {
    "Fluent Bit": {"service", "env", "parsers", "multiline_parsers", "pipeline", "includes", "plugins"},
    "Vector": {"sources", "transforms", "sinks", "api", "data_dir", "acknowledgements", "secret"},
    "Prometheus": {"global", "scrape_configs", "rule_files", "alerting", "groups"},
    "Compose": {"name", "services", "volumes", "networks", "secrets", "configs"},
    "Grafana": {"apiVersion", "datasources", "providers"},
}
"""Whose file it is -> its top-level keys."""

SECRETS = {
    **dict.fromkeys(("PAGERDUTY_KEY", "PAGERDUTY_LEAD_KEY"), "0123456789abcdef" * 2),
    **dict.fromkeys(("SLACK_TOKEN", "SLACK_BOT_TOKEN"), "xoxb-of-a-test"),
    **dict.fromkeys(("SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "INCIDENT_TOOL_URL"), "https://tool.example.org/in"),
    **dict.fromkeys(("BOT_SECRET", "WEBHOOK_SECRET", "WEBHOOK_SECRET_OF_LAST_MONTH"), "whsec_" + "MDEyMzQ1" * 4),
    "MAIL_URL": "mailtos://me:password@mail.example.org?to=you@example.org",
    "ALERTMANAGER_TOKEN": "a-token",
}


def load_yaml(text: str, folder: Path) -> None:
    """Check each document of it; an unknown shape fails."""
    file = folder / "shown.yaml"
    file.write_text(text)
    for content in yaml.safe_load_all(text):
        if ours := next((key for key in OURS if isinstance(content, dict) and key in content), ""):
            (folder / "pagerduty.key").write_text(SECRETS["PAGERDUTY_KEY"])
            OURS[ours](file)
        elif isinstance(content, dict) and "kind" in content:
            check_kubernetes(content)
        elif not any(set(content) <= keys for keys in FOREIGN.values()):
            assert CHART.exists(), f"whose file is this? {list(content)}: add it to tests/support/snippets.py"
            values = yaml.safe_load((CHART / "values.yaml").read_text())
            assert [path for path in paths_of(content) if not has_value(values, path)] == []


def read_nodes(file: Path) -> None:
    """A topology file."""
    problems: list[str] = []
    read_topology(file, problems)
    assert problems == []


OURS: dict[str, Callable[[Path], Any]] = {
    "pack": lambda file: None,  # another test checks all packs against their examples
    "secrets": lambda file: load_redactor([file]),
    "route": load_alerts,
    "steps": lambda file: read_scenarios([file]),
    "nodes": read_nodes,
}
"""The key by which a file of ours is known -> what reads it."""


def check_kubernetes(content: dict[str, Any]) -> None:
    """Against the schema of its kind."""
    if not content["apiVersion"].startswith(OF_OPERATORS):
        kubernetes_validate.validate(content, KUBERNETES, strict=True)


def paths_of(content: dict[str, Any], above: str = "") -> list[str]:
    """`{a: {b: 1}}` -> `a.b`."""
    found: list[str] = []
    for key, value in content.items():
        name = f"{above}.{key}" if above else key
        found += paths_of(value, name) if isinstance(value, dict) and value else [name]
    return found


def load_toml(text: str, folder: Path) -> None:
    """Our settings, or a file of Vector's."""
    content = tomllib.loads(text)
    if set(content) <= FOREIGN["Vector"]:
        return
    (folder / "epicenter.toml").write_text(text)
    known = {field.alias or name for name, field in Settings.model_fields.items()}
    assert set(content) <= known
    load_settings(folder / "epicenter.toml", secrets_dir=folder if "secrets_dir" in content else None)


def load_json(text: str, folder: Path) -> None:
    """JSON, or one object a line; our commands in it exist."""
    documents = [json.loads(text)] if text.startswith("{\n") else [json.loads(line) for line in text.splitlines()]
    for server in (server for content in documents for server in content.get("mcpServers", {}).values()):
        assert (server["command"], of_epicenter(server["args"])) == ("epicenter", "")


def load_ini(text: str, folder: Path) -> None:
    """A unit of systemd, which may have the same key twice."""
    ConfigParser(strict=False, interpolation=None).read_string(text)


def load_conf(text: str, folder: Path) -> None:
    """An excerpt of a file that is shipped, and tested."""
    shipped = {line.strip() for path in ROOT.glob("deploy/**/*.conf") for line in path.read_text().splitlines()}
    shown = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert [line for line in shown if line not in shipped] == []


LOADERS = {"yaml": load_yaml, "toml": load_toml, "json": load_json, "ini": load_ini, "conf": load_conf}
