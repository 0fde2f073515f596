"""Any text as a YAML file is a document, or messages that each name a line."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.rules.documents.document import parse_document
from epicenter.rules.packs.spec import PackSpec

SHAPES = ("a: ", "- ", "? ", ": ", "[", "]", "{", "}", ", ", "&x ", "*x", "<<: ", "'", '"', "|\n", ">\n", "#", "\t")
LINES = ("\n", "\n  ", "\n    ", "---\n", "...\n", "%YAML 1.1\n", "pack: x\n", "rules: ")
VALUES = ("!!int ", "!!set ", "!!timestamp ", "!!binary ", "!t ", "2024-", "0x", "1:59", "1e9", ".inf", "~", "yes", "=")
CHARACTERS = ("\\ud800", "\\U00110000", "\\x", "\0", "\a", "\ufeff", "\x85")
TOKENS = st.sampled_from((*SHAPES, *LINES, *VALUES, *CHARACTERS))
TEXTS = st.lists(TOKENS | st.text(max_size=4), max_size=30).map("".join)


@given(TEXTS | st.text(max_size=60) | st.binary(max_size=60))
@settings(max_examples=1000)
def test_any_text_is_a_document_or_messages_with_lines(text: str | bytes) -> None:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    problems: list[str] = []
    document = parse_document(Path("f.yaml"), lambda _: data, "pack", problems)
    spec = document.checked(PackSpec, "pack", problems) if document else None
    assert spec or problems
    assert all(re.match(r"f\.yaml:\d+: \S", problem) for problem in problems)
