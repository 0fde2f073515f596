"""One field of many records, computed when it is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence, Sized
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Column(Sequence[T], Generic[T]):
    """As long as the lines or records that it belongs to."""

    def __init__(self, lines: Sized):
        self._lines = lines

    @abstractmethod
    def _at(self, number: int) -> T:
        """The content at this place, from 0."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> list[T]: ...

    def __getitem__(self, number: int | slice) -> T | list[T]:
        if isinstance(number, slice):
            return [self._at(place) for place in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._at(number)


class Repeated(Column[T]):
    """The same content for each of some lines."""

    def __init__(self, content: T, lines: Sized):
        super().__init__(lines)
        self.content = content

    def _at(self, number: int) -> T:
        return self.content


class Numbers(Column[int]):
    """The numbers of some lines, one after the other."""

    def __init__(self, first: int, lines: Sized):
        super().__init__(lines)
        self._first = first

    def _at(self, number: int) -> int:
        return self._first + number


class Read(Column[T]):
    """The result of a function for each of some records."""

    def __init__(self, records: Sequence[Any], read: Callable[[Any], T]):
        super().__init__(records)
        self._records = records
        self._read = read

    def _at(self, number: int) -> T:
        return self._read(self._records[number])
