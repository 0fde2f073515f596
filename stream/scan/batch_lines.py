"""The records of a batch as lines: each is parsed at most once, however many questions are asked about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.batch.text import TextLines
from epicenter.ingest.parse.envelope import Parsed, may_state_time, parse, stated_time
from epicenter.rules.errors import RecordError

Speaker = tuple[str, str, str, str, int | None, str]


class BatchLines:
    """The lines of one batch. `invalid` are the records that hold none; some may be added later."""

    def __init__(self, batch: Batch, cluster: str, invalid: Mapping[int, object]):
        self.batch = batch
        self._cluster = cluster
        self._invalid = invalid
        self._parsed: dict[int, Parsed] = {}
        self._stated_ns: dict[int, int | None] = {}
        self._numbers_by_speaker: dict[Speaker, list[int]] = {}
        self._upto = 0

    def __len__(self) -> int:
        return len(self.batch)

    def read(self, number: int) -> Parsed:
        """The line of a record.

        Raises:
            RecordError: the record can't be read as one.
        """
        if number not in self._parsed:
            self._parsed[number] = parse(self.batch.record(number), self._cluster)
        return self._parsed[number]

    def at(self, number: int) -> Parsed | None:
        """The line; None if the record can't be read as one."""
        if number in self._invalid:
            return None
        try:
            return self.read(number)
        except RecordError:
            return None

    def stated_ns(self, number: int) -> int | None:
        """The time that the record states itself."""
        if number not in self._stated_ns:
            record = self.batch.record(number)
            self._stated_ns[number] = stated_time(record) if may_state_time(record.value) else None
        return self._stated_ns[number]

    @cached_property
    def may_be_timed(self) -> list[int]:
        """The records that may state a time, by a cheap look at each."""
        values = self.batch.values
        lines = values.cut_up() if isinstance(values, TextLines) else values
        return [number for number, line in enumerate(lines) if may_state_time(line)]

    def following(self, number: int, writer: Speaker, end: int) -> Iterator[tuple[int, Parsed]]:
        """The lines of this writer after a line and before `end`, with their numbers. Ask in the order of lines."""
        if number >= self._upto:
            self._numbers_by_speaker, self._upto = {}, number + 1
        while True:
            known = self._numbers_by_speaker.get(writer, ())
            if (place := bisect_right(known, number)) == len(known):
                if not self._index_until(writer, end):
                    return
                continue
            number = known[place]
            if number >= end or (line := self.at(number)) is None:
                return
            yield number, line

    def _index_until(self, writer: Speaker, end: int) -> bool:
        """Index lines up to the next one of this writer; false if there is none before `end`."""
        while self._upto < end:
            number, self._upto = self._upto, self._upto + 1
            if line := self.at(number):
                self._numbers_by_speaker.setdefault(found := speaker(line), []).append(number)
                if found == writer:
                    return True
        return False


def speaker(line: Parsed) -> Speaker:
    """Who wrote the line: lines of one block have one writer."""
    event = line.event
    return event.node, event.source, event.pod, event.container, event.rank, line.speaker
