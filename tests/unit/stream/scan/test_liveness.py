"""Which records of a batch show a sign of life."""

from __future__ import annotations

from epicenter.stream.scan.liveness import Liveness
from tests.support.logs import batch

STEP = b'{"host":"n1","message":"step 100"}'
KERNEL = b'{"host":"n1","source":"kernel","message":"usb 1-1: new device"}'


def test_kernel_line_held_back_is_not_read() -> None:
    read: list[int] = []

    def time_of(number: int) -> int:
        read.append(number)
        return 0

    Liveness().observe(batch([STEP, STEP, KERNEL]), 2, [2], time_of)
    assert set(read) == {0, 1}


def test_records_without_a_key_have_their_hosts_as_writers() -> None:
    read: list[int] = []

    def time_of(number: int) -> int:
        read.append(number)
        return 0

    other = STEP.replace(b"n1", b"n2")
    Liveness().observe(batch([STEP, other, STEP]), 3, [], time_of)
    assert 1 in read
