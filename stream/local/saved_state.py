"""What `epicenter run` continues from after a restart: a file in the data folder, replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec
from cramjam import DecompressionError, zstd

from epicenter.ingest.collect.positions import SourcePosition
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.dsn import address_of
from epicenter.stream.local.pipeline import PipelineState
from epicenter.stream.process.snapshot_interval import snapshot_interval_s
from epicenter.stream.settings import Settings

LEVEL: Final = 1
FILE: Final = "state.zst"


class SavedState(msgspec.Struct):
    """The pipeline's state, and up to where each file was read then. `about` names the paths and the store."""

    about: list[str]
    pipeline: PipelineState
    positions: dict[str, SourcePosition]


class StateFile:
    """The state of the last run on the same paths and store, if there is one, and the file for the next state.

    `report` gets each fault once. A run without a state reads all logs from their beginning.
    """

    def __init__(self, settings: Settings, paths: Sequence[str], report: Callable[[str], None]):
        self._file = settings.data_dir / FILE
        self._about = [address_of(settings.store_dsn), *sorted(os.path.realpath(path) for path in paths)]
        self._every_s = settings.snapshot_every_ns / NS_PER_S
        self._report = report
        self._fault = ""
        self._saved_s = monotonic()
        self._took_s = 0.0
        is_store_gone = not settings.store and not (settings.data_dir / "store").exists()
        self._saved = None if is_store_gone else self._load()

    @property
    def pipeline(self) -> PipelineState | None:
        """The state of the pipeline."""
        return self._saved.pipeline if self._saved else None

    @property
    def positions(self) -> Mapping[str, SourcePosition]:
        """Up to where each file was read."""
        return self._saved.positions if self._saved else {}

    def is_due(self, has_changes: bool) -> bool:
        """Whether it is time to save."""
        return monotonic() - self._saved_s >= snapshot_interval_s(self._every_s, self._took_s, has_changes)

    def save(self, pipeline: PipelineState, positions: dict[str, SourcePosition]) -> None:
        """Replace the file. If that fails, the next run reads more lines again."""
        begun_s = monotonic()
        state = SavedState(self._about, pipeline, positions)
        try:
            self._replace(bytes(zstd.compress(msgspec.msgpack.encode(state), LEVEL)))
            self._fault = ""
        except OSError as error:
            self._report_once(f"{self._file}: can't be written: {error.strerror}; a restart reads more lines again")
        self._saved_s = monotonic()
        self._took_s = self._saved_s - begun_s

    def _load(self) -> SavedState | None:
        try:
            saved = msgspec.msgpack.decode(bytes(zstd.decompress(self._file.read_bytes())), type=SavedState)
        except FileNotFoundError:
            return None
        except (OSError, DecompressionError, msgspec.DecodeError) as error:
            self._report_once(f"{self._file}: can't be read, so all logs are read from their beginning: {error}")
            return None
        return saved if saved.about == self._about else None

    def _replace(self, content: bytes) -> None:
        new = self._file.with_suffix(".new")
        try:
            new.touch(mode=0o600)
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._file)
        except OSError:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise

    def _report_once(self, fault: str) -> None:
        if fault != self._fault:
            self._report(fault)
        self._fault = fault
