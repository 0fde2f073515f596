"""The examples of docs/targets.md load, and agree with the text around them."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from time import time_ns

import pytest

from epicenter.sinks.notify.load import load_alerts
from epicenter.sinks.notify.templates import Writer
from tests.support.notifications import MUCH

TEXT = (Path(__file__).parents[4] / "docs" / "targets.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
SECRETS = {
    "ALERTMANAGER_TOKEN": "a-token",
    "SLACK_BOT_TOKEN": "xoxb-not-a-real-token",
    "SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T0/B0/none",
    "WEBHOOK_SECRET": f"whsec_{base64.b64encode(bytes(32)).decode()}",
    "WEBHOOK_SECRET_OF_LAST_MONTH": f"whsec_{base64.b64encode(bytes(24)).decode()}",
    "INCIDENT_TOOL_URL": "https://tool.example.org/in",
    "MAIL_URL": "mailtos://me:password@mail.example.org?to=you@example.org",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "pagerduty.key").write_text("0123456789abcdef0123456789abcdef\n")
    return tmp_path


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_loads(folder: Path, number: int) -> None:
    (folder / "alerts.yaml").write_text(EXAMPLES[number])
    alerts = load_alerts(folder / "alerts.yaml")
    assert set(alerts.make_targets(time_ns)) == set(alerts.spec.targets)
    for name, template in alerts.spec.templates.items():
        message = Writer(name, template).write_strictly(MUCH)
        assert message.title == "CRITICAL xid-79 in default"
        assert message.body.splitlines()[1:] == ["Jobs: 7801", MUCH.link]


def test_every_type_of_target_has_an_example() -> None:
    assert set(re.findall(r"type: (\w+)", "".join(EXAMPLES))) == {
        "alertmanager",
        "pagerduty",
        "slack",
        "webhook",
        "apprise",
    }
