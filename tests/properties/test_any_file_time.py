"""The same lines in a file of any age: the same answers, byte for byte. Under any name: the same but for the name."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from epicenter.stream.cli.main import cli

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
LINES = (
    f"[12345.678901] {XID}",
    f"Mar  2 09:00:00 n7 kernel: [12345.678901] {XID}",
    f"2026-03-02T09:00:01.000000+00:00 n8 kernel: [12346.678901] {XID}",
    "Traceback (most recent call last):\n  File \"train.py\", line 55, in <module>\nKeyError: 'input_ids'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "loading the data",
    "[ 5259.834757] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [md0_raid5:3222]",
)
COMMANDS = (["match", "--json"], ["replay", "--json"], ["triage", "--json"])
AGES = st.integers(0, 2**32)
TEXTS = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).map("\n".join)


def answers(folder: Path, given_path: Path) -> list[str]:
    """What the commands print on standard output, without the names of the folder."""
    found = [CliRunner().invoke(cli, [*command, str(given_path)]) for command in COMMANDS]
    assert [result.exit_code for result in found] == [0] * len(COMMANDS)
    return [result.stdout.replace(str(folder), "FOLDER") for result in found]


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(AGES, min_size=6, max_size=6))
def test_the_age_of_files_changes_no_answer(texts: list[str], ages: list[int]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"part{'abc'[number]}.log" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(f"{text}\n")
        found = []
        for shift in (0, 3):
            for file, age_s in zip(files, ages[shift:], strict=False):
                os.utime(file, (age_s, age_s))
            found.append(answers(folder, folder))
        assert found[0] == found[1]


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(TEXTS, st.sampled_from(["app.log", "out.txt", "b/c.out", "20260302.log", "notes"]), AGES)
def test_the_name_of_a_file_changes_no_more_than_the_name(text: str, name: str, age_s: int) -> None:
    found = []
    for file_name in ("train.log", name):
        with TemporaryDirectory() as folder:
            file = Path(folder) / file_name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
            os.utime(file, (age_s, age_s))
            found.append([without_names(answer, file) for answer in answers(Path(folder), file)])
    assert found[0] == found[1]


def without_names(answer: str, file: Path) -> list[Any]:
    """The documents without the path, the job's name that is made of it, and ids, which decide their order."""
    names = {str(file), f"FOLDER/{file.name}", f"FOLDER/b/{file.name}", file.stem, "b"}
    return sorted((_blanked(json.loads(line), names) for line in answer.splitlines()), key=json.dumps)


def _blanked(document: Any, names: set[str]) -> Any:
    if isinstance(document, dict):
        return {name: _blanked(content, names) for name, content in document.items()}
    if isinstance(document, list):
        return [_blanked(part, names) for part in document]
    if not isinstance(document, str):
        return document
    shown = "NAME" if document in names else document
    for name in names:
        shown = re.sub(rf"\blog([: ]){re.escape(name)}(?!\w)", r"log\1NAME", shown)
    return re.sub(r"\b[0-9a-f]{16}\b", "ID", re.sub(r"FOLDER/\S+", "NAME", shown))
