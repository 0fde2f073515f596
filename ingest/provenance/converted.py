"""The text of a file that is another than its bytes, as something that can be read."""

from __future__ import annotations

from io import BufferedReader, RawIOBase


class Converted(RawIOBase):
    """The bytes that a file is converted to. Whoever reads them counts them in `_read_bytes`."""

    def __init__(self, file: BufferedReader):
        self._file = file
        self._read_bytes = 0

    def readable(self) -> bool:
        """It can."""
        return True

    def tell(self) -> int:
        """How much of the text was read."""
        return self._read_bytes

    def fileno(self) -> int:
        """The descriptor of the file."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()
