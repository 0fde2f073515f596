"""Guides, command by command in one folder, print what they show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.reader import Reader

pytestmark = pytest.mark.integration


@pytest.fixture
def a_reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop()


@pytest.mark.parametrize("document", ["docs/first-rule.md", "docs/from-other-rules.md"])
def test_every_step_prints_what_is_shown(a_reader: Reader, document: str) -> None:
    a_reader.follow(document)
