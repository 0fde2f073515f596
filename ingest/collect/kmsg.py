"""The kernel's ring buffer, /dev/kmsg: `<prio>,<seq>,<usec since boot>,<flags>;<text>` (Linux, dev-kmsg)."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.positions import KmsgPosition
from epicenter.rules.model.times import NS_PER_S

DEVICE: Final = Path("/dev/kmsg")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_RECORD_BYTES: Final = 8192
_RECORDS_A_BATCH: Final = 10_000
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


class KmsgSource:
    """Records of the ring buffer as JSON envelopes, with wall-clock time computed from the time since boot.

    The kernel overwrites what is not read in time. A record in place of the first lost one reports that. After an
    error the next read opens the device again, and continues after the last record; so does a `start` of this boot.
    """

    def __init__(self, host: str, follow: bool, device: Path = DEVICE, start: KmsgPosition | None = None):
        self.name = str(device)
        self.has_ended = False
        self.fault = ""
        self._host = host
        self._follow = follow
        self._device = device
        self._descriptor: int | None = None
        self._boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._boot_id = boot_id()
        self._next_number = start.next_number if start and start.boot_id == self._boot_id else None

    @staticmethod
    def is_readable() -> bool:
        """Whether this user may read the ring buffer."""
        return os.access(DEVICE, os.R_OK)

    def read(self, now_ns: int) -> Batch | None:
        """The records that have come, numbered by the kernel.

        Raises:
            OSError: the device can't be read now.
        """
        records = [record for raw in self._raw_records() for record in self._read(raw)]
        self.has_ended = not records and not self._follow
        if not records:
            return None
        offsets, values = zip(*records, strict=True)
        return Batch(self.name, values, [self._host.encode()] * len(values), [now_ns] * len(values), offsets)

    def position(self, first_buffered: int | None) -> KmsgPosition | None:
        """The number of the next record, or of the first buffered one; None before the first."""
        number = self._next_number if first_buffered is None else first_buffered
        return None if number is None else KmsgPosition(self._boot_id, number)

    def close(self) -> None:
        """Close the device."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self, raw: bytes) -> Iterator[tuple[int, bytes]]:
        found = envelope(raw, self._host, self._boot_ns)
        if found is None:
            return
        number, expected = found[0], self._next_number
        if expected is not None and number < expected:
            return
        if expected is not None and number > expected:
            time_us = raw.split(b",", 3)[2].decode()
            text = f"{self.name}: {number - expected} messages were overwritten before they were read"
            lost = envelope(f"4,{expected},{time_us},-;{text}".encode(), self._host, self._boot_ns)
            yield from (lost,) if lost else ()
        self._next_number = number + 1
        yield found

    def _raw_records(self) -> list[bytes]:
        records: list[bytes] = []
        if self._descriptor is None:
            self._descriptor = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK)
        while len(records) < _RECORDS_A_BATCH:
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue  # overwritten: the next record's number tells how many
                if error.errno in (errno.EAGAIN, errno.EINVAL):
                    break
                self.close()
                if records:
                    break
                raise
            if not record:
                break
            records.append(record)
        return records


def boot_id() -> str:
    """The kernel's name for this boot; empty where it has none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def envelope(record: bytes, host: str, boot_ns: int) -> tuple[int, bytes] | None:
    """(sequence number, JSON envelope) of one record; None if it is not a kmsg record."""
    head, found, rest = record.partition(b";")
    parts = head.split(b",")
    if not found or len(parts) < 3 or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    text = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), rest.partition(b"\n")[0])
    time_ns = boot_ns + int(parts[2]) * 1000
    fields = {
        "timestamp": f"{time_ns // NS_PER_S}.{time_ns % NS_PER_S:09d}",
        "host": host,
        "source": "kernel" if parts[0].isdigit() and int(parts[0]) < 8 else "user",
        "message": text.decode("utf-8", "replace"),
    }
    return int(parts[1]), orjson.dumps(fields)
