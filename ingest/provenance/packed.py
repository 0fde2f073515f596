"""What gzip, zstd, xz and bzip2 packed, unpacked as it is read: in bounded memory, up to a bounded size."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from typing import TYPE_CHECKING, Final, Protocol

from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

from epicenter.ingest.provenance.converted import Converted

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD_BYTES: Final = 256 << 10
PIECE_BYTES: Final = 128 << 10
"""At most so much is unpacked at once, and lost where it is damaged."""

MAX_MEMORY_BYTES: Final = 256 << 20
"""At most this much memory may a packed file ask for; `xz -9` needs 65 MiB, `zstd --ultra -22` 128 MiB."""

ANY_RATIO_BYTES: Final = 12 << 30
MAX_RATIO: Final = 200
"""Of a file that unpacks to more than `MAX_RATIO` times its size, only the first `ANY_RATIO_BYTES` are read.

A line that repeats without a time can be packed to a thousandth or less, and such a log may have 10 GB.
"""

_FAULTS: Final = (EOFError, OSError, zlib.error, lzma.LZMAError, ZstdError)


class UnpackingError(OSError):
    """The rest of a packed file can't be read. The text says why."""


class Decompressor(Protocol):
    """Unpacks one frame, as the classes of `bz2`, `lzma` and `zstd` do."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more comes out only if more is put in."""

    @property
    def unused_data(self) -> bytes:
        """What came after the end of the frame."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """At most so many bytes that the frame unpacks to."""


class _Gzip:
    def __init__(self) -> None:
        self._frame = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def needs_input(self) -> bool:
        return not self._frame.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        packed, before = self._frame.unconsumed_tail + data, self._frame.copy()
        try:
            return self._frame.decompress(packed, max_length)
        except zlib.error:
            if part := _before_damage(before, packed, max_length):
                return part
            raise


def _before_damage(frame: zlib._Decompress, packed: bytes, max_length: int) -> bytes:
    part = b""
    with suppress(zlib.error):
        for place in range(len(packed)):
            part += frame.decompress(packed[place : place + 1], max_length - len(part) or 1)
    return part[:max_length]


def _zstd() -> Decompressor:
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: (MAX_MEMORY_BYTES // 2).bit_length() - 1})


def _xz() -> Decompressor:
    return lzma.LZMADecompressor(memlimit=MAX_MEMORY_BYTES)


DECOMPRESSORS: Final[dict[bytes, tuple[str, Callable[[], Decompressor]]]] = {
    b"\x1f\x8b": ("gzip", _Gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x50\x2a\x4d\x18": ("zstd", _zstd),
    b"\xfd7zXZ\0": ("xz", _xz),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
}
"""By a file's first bytes. pzstd writes a frame first that is to be skipped."""


class Unpacked(BufferedReader):
    """The text of a packed file. `packed_with` is the name of its format."""

    def __init__(self, file: BufferedReader, packed_with: str, new_frame: Callable[[], Decompressor]):
        self.packed_with = packed_with
        super().__init__(_Frames(file, packed_with, new_frame), HEAD_BYTES)


def unpacked(file: BufferedReader) -> BufferedReader:
    """The text of the file if it is packed, else the file itself."""
    head = file.peek(PIECE_BYTES)
    found = next((packing for magic, packing in DECOMPRESSORS.items() if head.startswith(magic)), None)
    return Unpacked(file, *found) if found else file


class _Frames(Converted):
    """The content of all frames, one after the other. What ends them early comes after what could be read."""

    def __init__(self, file: BufferedReader, packed_with: str, new_frame: Callable[[], Decompressor]):
        super().__init__(file)
        self._packed_with = packed_with
        self._new_frame = new_frame
        self._frame, self._rest = new_frame(), b""
        self._packed_bytes = 0
        self._fault: UnpackingError | None = None

    def readinto(self, buffer: WriteableBuffer) -> int:
        into, filled = memoryview(buffer).cast("B"), 0
        while filled < len(into) and (part := self._part(min(len(into) - filled, PIECE_BYTES))):
            into[filled : filled + len(part)] = part
            filled += len(part)
        if self._fault and not filled:
            raise self._fault
        return filled

    def _part(self, most_bytes: int) -> bytes:
        """The next bytes; none at the end or after a fault."""
        try:
            part = b"" if self._fault else self._unpacked(most_bytes)
        except _FAULTS as error:
            self._fault = UnpackingError(self._why(error))
            return b""
        self._read_bytes += len(part)
        if self._read_bytes > max(ANY_RATIO_BYTES, MAX_RATIO * self._packed_bytes):
            self._fault = UnpackingError(
                f"packed with {self._packed_with}, and unpacks to more than {ANY_RATIO_BYTES >> 30} GiB and "
                f"{MAX_RATIO} times its size"
            )
        return part

    def _unpacked(self, most_bytes: int) -> bytes:
        part = b""
        while not part and not (self._frame.eof and self._was_last_frame()):
            is_hungry = self._frame.needs_input
            packed = self._next_packed() if is_hungry else b""
            part = self._frame.decompress(packed, most_bytes)
            if is_hungry and not (part or packed or self._frame.eof):
                raise EOFError
        return part

    def _was_last_frame(self) -> bool:
        """Whether only zeros follow; otherwise the next frame begins."""
        rest = self._frame.unused_data.lstrip(b"\0")
        while not rest and (more := self._more()):
            rest = more.lstrip(b"\0")
        if rest:
            self._frame, self._rest = self._new_frame(), rest
        return not rest

    def _next_packed(self) -> bytes:
        packed, self._rest = self._rest or self._more(), b""
        return packed

    def _more(self) -> bytes:
        packed = self._file.read(PIECE_BYTES)
        self._packed_bytes += len(packed)
        return packed

    def _why(self, error: BaseException) -> str:
        if isinstance(error, OSError) and error.errno:
            return f"can't be read: {error.strerror}"
        if isinstance(error, lzma.LZMAError | ZstdError | MemoryError) and "memory" in str(error).lower():
            return f"packed with {self._packed_with}, and needs more than {MAX_MEMORY_BYTES >> 20} MiB of memory"
        return f"packed with {self._packed_with}, and cut off or damaged"
