"""What tools and people put around a line comes off, and what a program says itself stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.ingest.parse.pasted import undressed

TEXT = "slurmd: no memory for the step"


@pytest.mark.parametrize(
    "dressed",
    [
        f"> {TEXT}",
        f">> {TEXT}",
        f"- {TEXT}",
        f"`{TEXT}`",
        f"4711:{TEXT}",
        f"   4711\t{TEXT}",
        f"logs/rank3.log:4711:{TEXT}",
        f"02/Mar/2026:09:00:01 +0000 {TEXT}",
        f"Mar 2, 2026 @ 09:00:01.123 {TEXT}",
        f"[2026-03-02 09:00:01,123] {TEXT}",
        f"[rank=3] {TEXT}",
        f"Rank 3: {TEXT}",
        f"llama-worker-0 trainer {TEXT}",
        f"gpu017\t{TEXT}",
        f'{{app="trainer", pod="llama-0"}} {TEXT}',
        f'"2026-03-02T09:00:01.500Z","gpu017","{TEXT}"',
        f'    "textPayload": "{TEXT}",',
        f'ts=2026-03-02T09:00:01Z level=error msg="{TEXT}"',
    ],
)
def test_one_dress_comes_off(dressed: str) -> None:
    assert TEXT in undressed(dressed)


@pytest.mark.parametrize("head", ["2026-03-02 09:00:01,123 ERROR ", "2026-03-02 09:00:01,123 - trainer - ERROR - "])
def test_the_head_of_a_logging_library_stays(head: str) -> None:
    assert TEXT not in undressed(head + TEXT)


def test_quotes_in_a_cell_are_single_again() -> None:
    assert 'volume "hf-token" not found' in undressed('1772442001500,"volume ""hf-token"" not found"')


@pytest.mark.parametrize(
    "line",
    [f'7,"lamp" oil\n{TEXT}', f'7,"{"x" * 200_000}",{TEXT}', f'7,"lamp" oil\r\n{TEXT}'],
    ids=["a-line-break-outside-of-quotes", "a-huge-cell", "a-line-end-of-windows"],
)
def test_what_is_no_csv_after_all_has_no_cells(line: str) -> None:
    assert list(undressed(line)) == []


@given(st.text(alphabet=st.sampled_from("a1,\"'`\n\r\\ {}[]:=>-|/.")) | st.text())
def test_any_text_can_be_undressed(line: str) -> None:
    assert all(text != line for text in undressed(line))
