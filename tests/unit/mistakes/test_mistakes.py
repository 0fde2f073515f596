"""Golden answers to the mistakes that people make most: where, what is wrong, and what to write instead.

`python -m tests.unit.mistakes.test_mistakes` rewrites messages.txt; read its diff before you commit it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.command import epicenter

HERE: Final = Path(__file__).parent
CASES: Final = yaml.safe_load((HERE / "cases.yaml").read_text("utf-8"))
MISTAKES: Final = CASES["mistakes"]
REPOSITORY: Final = HERE.parents[2]
MESSAGES: Final = HERE / "messages.txt"


def answer(case: dict[str, Any], folder: Path) -> str:
    """The command, its output and its exit code, after the one change to the documents."""
    for name, text in CASES["documents"].items():
        if name == case.get("in"):
            for right, wrong in case["write"].items():
                assert right in text, right
                text = text.replace(right, wrong, 1)
        (folder / name).write_text(text, "utf-8")
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "XDG_DATA_HOME": str(folder), "COLUMNS": "120"}
    with chdir(folder):
        done = epicenter(*case["run"].split(), env=env | case.get("env", {}))
    output = (done.stdout + done.stderr).decode().rstrip().replace(str(folder), "~").replace(f"{REPOSITORY}/", "")
    return f"$ epicenter {case['run']}\n{output}\n[{done.returncode}]"


def recorded() -> dict[str, str]:
    """The answers of messages.txt, by mistake."""
    sections = MESSAGES.read_text("utf-8").split("\n\n# ")
    return dict(section.removeprefix("# ").rstrip("\n").split("\n", 1) for section in sections)


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case["mistake"])
def test_message_names_the_mistake_its_place_and_what_to_write(case: dict[str, Any], tmp_path: Path) -> None:
    assert answer(case, tmp_path) == recorded()[case["mistake"]]


@pytest.mark.parametrize("command", CASES["valid"])
def test_document_without_a_mistake_is_accepted(command: str, tmp_path: Path) -> None:
    assert answer({"run": command}, tmp_path).endswith("[0]")


def write_messages() -> None:
    """Write every answer into messages.txt."""
    sections = []
    for case in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:
            sections.append(f"# {case['mistake']}\n{answer(case, Path(folder))}\n")
    MESSAGES.write_text("\n".join(sections), "utf-8")


if __name__ == "__main__":
    write_messages()
