"""Lines that hold several records are split where the records begin."""

from __future__ import annotations

import pytest

from epicenter.ingest.parse.pieces import pieces_of

BAR = "Loading:  45%|####5     | 9/20 [00:12<00:14, 1.31s/it, loss=2.1]"
ERROR = "[rank0]: RuntimeError: CUDA error: unspecified launch failure"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("RuntimeError: bad", ["RuntimeError: bad"], id="one"),
        pytest.param("", [""], id="nothing"),
        pytest.param(" 10%\r 20%\rRuntimeError: bad", [" 10%", " 20%", "RuntimeError: bad"], id="carriage-returns"),
        pytest.param("\r\r 20%\r \rbad\r", [" 20%", "bad"], id="blank-pieces"),
        pytest.param("a\r\nb", ["a\r\nb"], id="windows-newline-in-a-record"),
        pytest.param(f"{BAR}{ERROR}", [BAR, ERROR], id="bar-and-error"),
        pytest.param(f"{BAR}slurmstepd: error: x", [BAR, "slurmstepd: error: x"], id="bar-and-launcher"),
        pytest.param(
            "0%|  | 0/9 [00:00<?, ?it/s]/opt/a.cu:9: bad",
            ["0%|  | 0/9 [00:00<?, ?it/s]", "/opt/a.cu:9: bad"],
            id="empty-bar",
        ),
        pytest.param(BAR, [BAR], id="bar-alone"),
        pytest.param(f"step 7 done{ERROR}", ["step 7 done", ERROR], id="missing-newline"),
        pytest.param("a[1,0]<stderr>:b[1,1]<stderr>:c", ["a", "[1,0]<stderr>:b", "[1,1]<stderr>:c"], id="open-mpi"),
        pytest.param(
            "usb 1-1: new[   12.400000] NVRM: Xid[   12.500000][ T9] x",
            ["usb 1-1: new", "[   12.400000] NVRM: Xid", "[   12.500000][ T9] x"],
            id="kernel",
        ),
        pytest.param("a<4>[   12.400000] b", ["a", "<4>[   12.400000] b"], id="kernel-with-level"),
        pytest.param("x [0x12.400000] [rank 3] [12.5] y", ["x [0x12.400000] [rank 3] [12.5] y"], id="none-of-these"),
    ],
)
def test_a_line_is_split_where_its_records_begin(body: str, expected: list[str]) -> None:
    assert pieces_of(body) == expected
