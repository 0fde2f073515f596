"""Next steps of a site, from its own pack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from epicenter.rules.report.report import report
from tests.support.signals import a_signal

DOCS = Path(__file__).parents[4] / "docs" / "rules.md"


def test_example_pack_of_the_docs_adds_its_steps_after_those_of_the_rule(tmp_path: Path) -> None:
    example = re.search(r"```text\n(pack: our-site\n.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert example
    (tmp_path / "site.yaml").write_text(example[1], "utf-8")
    state = IncidentState("5f2b8c1d9e3a4f60", "default")
    state.add(a_signal("xid-79", 0, "node0003", "7801", rule="nvidia.xid_79"), {"7801"})
    *shipped, own = report(state, load([tmp_path])).next_steps
    assert own == "Open a ticket in the queue GPU-HW with the output of `ssh node0003 nvidia-bug-report.sh`."
    assert tuple(shipped) == report(state, load([])).next_steps != ()


def test_advice_for_an_unknown_class_or_placeholder_is_refused(tmp_path: Path) -> None:
    text = "pack: site\nadvice:\n  xid-79: ['Run `look {card}`.']\n  weather: [Wait.]\n"
    (tmp_path / "site.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as refused:
        load([tmp_path])
    assert "{card}: unknown in the command" in str(refused.value)
    assert "class weather is unknown" in str(refused.value)


def test_shipped_texts_name_no_private_tool() -> None:
    private = re.compile(
        r"container_env|COREDUMP_EXTRA|slurm_job_monitor|docs/debugging|docs/model-configs|_env_[A-Z]|train_env|RAY=1"
        r"|prometheus\.sh|postmortem\.md|choose_nccl"
    )
    rules = load([])
    steps = [step for rule in rules.all_rules for step in (*rule.spec.next_steps, rule.spec.meaning)]
    triage = Path(__file__).parents[4] / "rules" / "triage"
    steps += [file.read_text("utf-8") for file in triage.glob("*.py")]
    assert [step for step in steps if private.search(step)] == []
