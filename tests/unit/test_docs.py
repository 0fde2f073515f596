"""Every command in a document is run here, or by a test that is named here, and is a valid command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec.json import encode

from deploy.dev.process import EPICENTER
from epicenter.stream.kafka.fault_log import KafkaFault
from tests.support.alerts import an_incident
from tests.support.documents import DOCUMENTS, ROOT, Block, blocks, commands_in
from tests.support.shown_commands import complaint
from tests.support.snippets import SECRETS

WITH_SETUP = {
    "docs/alerts.md": "test_the_alerts_file_in_the_alerts_document_is_the_example_and_its_commands_run",
    **dict.fromkeys(("docs/first-rule.md", "docs/from-other-rules.md"), "tests/integration/test_guides.py"),
}
"""Documents whose commands need more than an empty folder -> the test that runs all of them."""

RUN_ELSEWHERE = {
    **dict.fromkeys(("topics", "migrate", "check", "worker"), "tests/integration/test_kafka_path.py"),
    "dead-letters": "tests/integration/test_dead_letters.py",
    "page": "tests/integration/test_page_command.py",
    "mcp": "tests/integration/test_mcp.py",
}
"""Commands that need servers, or are one -> the test that runs them."""

RUN_BY_LINT = (["rules", "test"], ["rules", "lint"])


def shown_in(document: str) -> list[list[str]]:
    return [command for block in blocks("sh") if block.document == document for command in commands_in(block.text)]


def is_run_here(command: list[str]) -> bool:
    given = command[1:]
    needs_servers = given[:1] and given[0] in RUN_ELSEWHERE
    has_address = any("://" in word for word in given) or "--kafka" in given
    return command[0] == "epicenter" and not (needs_servers or has_address or given in RUN_BY_LINT)


RUN_HERE = {
    document: commands
    for document in DOCUMENTS
    if document not in WITH_SETUP and (commands := [command for command in shown_in(document) if is_run_here(command)])
}


def run(command: list[str], cwd: Path) -> str:
    done = subprocess.run([*EPICENTER, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize("document", RUN_HERE)
def test_commands_of_the_documents_run(document: str, tmp_path: Path) -> None:
    for command in RUN_HERE[document]:
        run(command, tmp_path)


@pytest.mark.parametrize(
    "block", [block for block in blocks("sh", "text") if "$ " not in block.text], ids=lambda block: block.place
)
def test_commands_have_the_shape_of_the_real_ones(block: Block) -> None:
    is_shell = block.kind == "sh"
    ours = [line for line in block.text.splitlines() if line.startswith(("epicenter ", "make "))]
    shown = commands_in(block.text if is_shell else "\n".join(ours))
    assert [problem for command in shown if (problem := complaint(command))] == []


def test_commands_run_elsewhere_are_run_there() -> None:
    for name in {*RUN_ELSEWHERE.values(), *(name for name in WITH_SETUP.values() if "/" in name)}:
        assert (ROOT / name).exists(), name
    makefile = (ROOT / "Makefile").read_text()
    lint, rules = (makefile.partition(f"\n{name}:")[2].partition("\n\n")[0] for name in ("lint", "rules"))
    assert "rules" in lint.split()
    assert all(f"epicenter {shlex.join(command)}" in rules for command in RUN_BY_LINT)


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    shown = [" ".join(command) for command in shown_in("README.md") if command[0] == "make"]
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] in shown


def test_the_scenario_in_the_scenario_document_passes(tmp_path: Path) -> None:
    (scenario,) = (block for block in blocks("yaml") if block.document == "docs/scenarios.md")
    (tmp_path / "scenario.yaml").write_text(scenario.text)
    output = run(["epicenter", "rules", "test", "--only-scenarios", "--scenarios", "scenario.yaml"], tmp_path)
    assert output.startswith("1 scenarios, 2 expectations, 14 runs")


def test_the_alerts_file_in_the_alerts_document_is_the_example_and_its_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = next(block.text for block in blocks("yaml") if block.document == "docs/alerts.md")
    assert file == (ROOT / "deploy/alerts.example.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text(file)
    (tmp_path / "incidents.jsonl").write_bytes(encode(an_incident()))
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    check, *_, route = (run(command, tmp_path) for command in shown_in("docs/alerts.md"))
    assert check == "alerts.yaml: ok: 5 targets, 5 routes\n"
    assert [target["target"] for target in json.loads(route)["legs"]] == [
        "on-call",
        "on-call-lead",
        "gpu-channel",
        "drain-bot",
    ]


def test_every_kafka_fault_is_in_the_operation_document() -> None:
    rows = (ROOT / "docs/operations.md").read_text().splitlines()
    documented = {row.split("`")[1] for row in rows if row.startswith("| `") and row.count("|") == 5}
    assert documented == set(KafkaFault)


def test_every_event_of_our_log_lines_is_in_the_log_document() -> None:
    call = re.compile(r'(?:log|get_logger\(__name__\))\.(?:warning|error|exception)\(\s*"(\w+)"')
    code = [file.read_text() for folder in ("ingest", "sinks", "stream") for file in (ROOT / folder).rglob("*.py")]
    _, _, table = (ROOT / "docs/logs.md").read_text().partition("| event | what happened |\n|---|---|\n")
    cells = [row.split("|")[1] for row in table.partition("\n\n")[0].splitlines()]
    assert {event for text in code for event in call.findall(text)} == set(re.findall(r"`(\w+)`", " ".join(cells)))
