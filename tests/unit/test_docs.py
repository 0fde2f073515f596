"""Every command shown in the documents is run, in the order in which it stands there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode

from stream.dev_process import EPICENTER
from stream.trouble import Trouble
from tests.support.alerts import an_incident

ROOT = Path(__file__).parents[2]
NEEDS_SERVERS = "docs/operations.md"
NEEDS_ALERTS = "docs/alerts.md"
DOCUMENTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))

SECRETS_OF_THE_EXAMPLE = {
    "PAGERDUTY_KEY": "0123456789abcdef" * 2,
    "PAGERDUTY_LEAD_KEY": "fedcba9876543210" * 2,
    "SLACK_TOKEN": "xoxb-of-a-test",
    "SLACK_WEBHOOK": "https://hooks.slack.example/services/x",
    "BOT_SECRET": "whsec_" + "MDEyMzQ1" * 4,
}


def commands_in(document: str) -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run([*EPICENTER, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one not in (NEEDS_SERVERS, NEEDS_ALERTS)])
def test_commands_of_the_documents_run(document: str, tmp_path: Path) -> None:
    for command in commands_in(document):
        if command[0] == "make":
            assert re.search(rf"^{command[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        else:
            run(command, tmp_path)


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    shown = [" ".join(command) for command in commands_in("README.md") if command[0] == "make"]
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] in shown


def test_the_rules_in_the_rule_document_pass(tmp_path: Path) -> None:
    packs = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/rules.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(packs) >= 2
    for number, pack in enumerate(packs):
        (tmp_path / f"pack{number}.yaml").write_text(pack)
    given = [word for number in range(len(packs)) for word in ("--rules", f"pack{number}.yaml")]
    assert "0 failures" in run(["epicenter", "rules", "test", *given], tmp_path)


def test_the_scenario_in_the_scenario_document_passes(tmp_path: Path) -> None:
    scenario = re.search(r"^```yaml\n(.*?)^```", (ROOT / "docs/scenarios.md").read_text(), re.MULTILINE | re.DOTALL)
    assert scenario
    (tmp_path / "scenario.yaml").write_text(scenario[1])
    told = run(["epicenter", "rules", "test", "--only-scenarios", "--scenarios", "scenario.yaml"], tmp_path)
    assert told.startswith("1 scenarios, 2 expectations, 14 runs")


def test_the_alerts_file_in_the_alerts_document_is_the_example_and_its_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = re.search(r"^```yaml\n(.*?)^```", (ROOT / NEEDS_ALERTS).read_text(), re.MULTILINE | re.DOTALL)
    assert file and file[1] == (ROOT / "deploy/alerts.example.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text(file[1])
    (tmp_path / "incidents.jsonl").write_bytes(encode(an_incident()))
    for name, secret in SECRETS_OF_THE_EXAMPLE.items():
        monkeypatch.setenv(name, secret)
    check, *_, route = (run(command, tmp_path) for command in commands_in(NEEDS_ALERTS))
    assert check == "alerts.yaml: ok: 5 targets, 5 routes\n"
    assert [leg["target"] for leg in json.loads(route)["legs"]] == [
        "on-call",
        "on-call-lead",
        "gpu-channel",
        "drain-bot",
    ]


def test_every_trouble_stands_in_the_operation_document() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / NEEDS_SERVERS).read_text(), re.MULTILINE)) == set(Trouble)


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / document).read_text()):
            assert ((ROOT / document).parent / target).exists(), f"{document}: {target}"
