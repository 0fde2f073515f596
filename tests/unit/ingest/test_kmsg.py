"""The kernel's ring buffer: one record a read, as dev-kmsg documents it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from epicenter.ingest.collect.kmsg import KmsgSource, envelope
from tests.support.logs import START_NS, a_scanner, at

XID = b"3,4711,5250000,-;NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(b"6,7,5250000,-;usb 1-1: new\n", (7, "kernel", "usb 1-1: new"), id="kernel"),
        pytest.param(b"30,8,5250000,-;systemd[1]: Started\n", (8, "user", "systemd[1]: Started"), id="a-daemon"),
        pytest.param(
            b"6,9,5250000,-;a\n SUBSYSTEM=pci\n DEVICE=+pci:0000:9a:00.0\n", (9, "kernel", "a"), id="properties"
        ),
        pytest.param(b"6,9,5250000,c,caller=T1;a;b\n", (9, "kernel", "a;b"), id="more-fields-and-a-semicolon"),
        pytest.param(b"6,9,5250000,-;a\\x09b\\xff\n", (9, "kernel", "a\tb\ufffd"), id="escapes"),
        pytest.param(b"no record\n", None, id="no-record"),
        pytest.param(b"6,x,5250000,-;a\n", None, id="no-number"),
        pytest.param(b"6,9;a\n", None, id="too-short"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_a_record_becomes_an_envelope(record: bytes, expected: tuple[int, str, str] | None) -> None:
    found = envelope(record, "n1", START_NS)
    if expected is None:
        assert found is None
        return
    assert found
    number, fields = found[0], orjson.loads(found[1])
    assert (number, fields["source"], fields["message"]) == expected
    assert (fields["host"], fields["timestamp"]) == ("n1", f"{at(5) // 10**9}.250000000")


@pytest.fixture
def ring() -> Iterator[tuple[int, Path]]:
    """A pipe with one record a read, like the device."""
    reader, writer = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    yield writer, Path(f"/proc/self/fd/{reader}")
    os.close(reader)


def test_it_follows_the_device(ring: tuple[int, Path]) -> None:
    writer, device = ring
    source = KmsgSource("n1", follow=True, device=device)
    assert source.read(START_NS) is None
    os.write(writer, XID)
    os.write(writer, b"6,4712,5260000,-;usb 1-1: new\n")
    batch = source.read(START_NS)
    assert batch
    assert (list(batch.offsets), batch.keys, batch.received_ns) == ([4711, 4712], [b"n1"] * 2, [START_NS] * 2)
    (match,) = a_scanner().scan(batch).matches
    assert (match.rule, match.event.node, match.event.source) == ("nvidia.xid_79", "n1", "kernel")
    assert not source.has_ended
    os.close(writer)
    source.close()


def test_after_an_error_the_device_is_opened_again_and_no_record_comes_twice(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    source = KmsgSource("n1", follow=True, device=device)
    with pytest.raises(FileNotFoundError):
        source.read(START_NS)
    device.write_bytes(XID)
    batch = source.read(START_NS)
    assert batch
    assert list(batch.offsets) == [4711]
    source.close()
    assert source.read(START_NS) is None
    source.close()


def test_a_single_read_ends_with_the_last_record(ring: tuple[int, Path]) -> None:
    writer, device = ring
    os.write(writer, XID)
    source = KmsgSource("n1", follow=False, device=device)
    assert source.read(START_NS) is not None
    assert not source.has_ended
    assert source.read(START_NS) is None
    assert source.has_ended
    os.close(writer)
    source.close()


def test_overwritten_records_are_reported_in_place_of_the_first_one_lost(ring: tuple[int, Path]) -> None:
    writer, device = ring
    source = KmsgSource("n1", follow=True, device=device)
    for number in (10, 11, 423):
        os.write(writer, f"6,{number},5260000,-;usb 1-1: new\n".encode())
    batch = source.read(START_NS)
    assert batch
    assert list(batch.offsets) == [10, 11, 12, 423]
    (observed,) = a_scanner().scan(batch).observed
    assert (observed.rule, observed.fields, observed.event.node) == ("kernel.messages_dropped", {"lost": "411"}, "n1")
    assert source.read(START_NS) is None
    os.close(writer)
    source.close()


def test_a_restart_continues_after_the_last_record_of_the_same_boot(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    device.write_bytes(XID)
    first = KmsgSource("n1", follow=True, device=device)
    first.read(START_NS)
    start = first.position(None)
    assert start
    first.close()
    assert KmsgSource("n1", follow=True, device=device, start=start).read(START_NS) is None
    of_another_boot = replace(start, boot_id="another")
    assert KmsgSource("n1", follow=True, device=device, start=of_another_boot).read(START_NS)
