"""While we are behind, lines are matched with the critical rules first; all the others come later, from Kafka again.

A range of raw records of which only the critical rules were matched is noted on a topic of its own, before it counts
as read. When there is nothing else to do, its records are read again and matched with all rules. Ids come from
content, so what is found twice is there once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from rules.model import DeadLetter, DeadLetterKind, Match, Position
from rules.redact import Redactor
from rules.ruleset import Rule, RuleSet
from stream.clients import make_consumer
from stream.found import FoundInRange
from stream.holding import HoldingScanner
from stream.metrics import Metrics
from stream.own_topics import Message, OwnTopics
from stream.raw_batches import Chunk, RawBatches, source_of
from stream.raw_topic import described
from stream.scan import BatchScanner, Scanned
from stream.settings import Settings
from stream.throttle import Throttle
from stream.topics import TopicNames
from stream.trouble import Trouble, Troubles

LOOK_BACK_RECORDS: Final = 500
"""A block that a range begins within is seen from its head."""

FETCH_WAIT_MS: Final = 1_000
PAUSE_S: Final = 1.0
_STATE_ROLES: Final = ("progress", "placement", "finished", "teardown")
"""What silences are judged by: without it, a job that goes on would look dead."""


class PutOff(msgspec.Struct, frozen=True, array_like=True):
    """Raw records of a partition from the offset `first` to `end`, which is not included.

    `topic_id` says which topic of this name that is, where it is known: one that was made after it has other records.
    """

    topic: str
    partition: int
    first: int
    end: int
    topic_id: str = ""

    @property
    def source(self) -> TopicPartition:
        """The raw partition."""
        return TopicPartition(self.topic, self.partition)


Send = Callable[[Sequence[FoundInRange]], Awaitable[None]]
SendDead = Callable[[DeadLetter], Awaitable[Any]]
_decode = msgspec.msgpack.Decoder(PutOff).decode


def critical_first(rules: RuleSet) -> RuleSet:
    """The rules that are matched even when we are behind: they say nothing that all rules together would not say.

    So harmless ones, which win, are with them; and a fallback, which speaks where no other failure does, takes its
    lines and says nothing yet.
    """
    chosen = (rule for rule in rules.rules if rule.spec.role == "harmless" or _comes_first(rule))
    return RuleSet(tuple(map(_without_fallback, chosen)), rules.edges, rules.topology, marks=rules.marks)


def _without_fallback(rule: Rule) -> Rule:
    if not rule.spec.fallback:
        return rule
    return replace(rule.silenced(), finer={code: _without_fallback(finer) for code, finer in rule.finer.items()})


def _comes_first(rule: Rule) -> bool:
    specs = [one.spec for one in (rule, *rule.finer.values())]
    return any(spec.severity == "critical" for spec in specs) or rule.spec.role in _STATE_ROLES


class Later:
    """Takes up what was put off, one range after the other."""

    def __init__(
        self,
        settings: Settings,
        rules: RuleSet,
        throttle: Throttle,
        metrics: Metrics,
        troubles: Troubles,
        redactor: Redactor | None = None,
    ):
        self._settings = settings
        self._metrics = metrics
        self._troubles = troubles
        self._scanner = HoldingScanner(BatchScanner(rules, settings.cluster, throttle=throttle, redactor=redactor))

    def use(self, rules: RuleSet) -> None:
        """Go on with these rules."""
        self._scanner.use(rules)

    async def start(self, producer: AIOKafkaProducer, admin: AIOKafkaAdminClient) -> None:
        """Join the group; `admin` is asked which topic it is."""
        settings, names = self._settings, TopicNames(self._settings.prefix)
        self._admin = admin
        self._ranges = OwnTopics(settings, names.later_group, producer, self._metrics)
        self._raw = make_consumer(settings, None, isolation_level="read_committed", auto_offset_reset="none")
        await self._raw.start()
        await self._ranges.start(names.put_off)
        self._batches = RawBatches(self._raw, settings.fetch_records)

    async def stop(self) -> None:
        """Leave the group; a range that is not done will be taken up by another."""
        await self._ranges.stop()
        await self._raw.stop()

    async def take_up(self, send: Send, send_dead: SendDead) -> None:
        """The next range, if any comes soon: scan it, send what it holds, commit."""
        async with self._ranges.fetched(FETCH_WAIT_MS, 1) as fetched:
            for source, (message,) in fetched.items():
                done = await self._do(message, send, send_dead)
                await self._ranges.commit({source: message.offset + 1})
                if done:
                    self._metrics.note_done_later(*done)

    async def _do(self, message: Message, send: Send, send_dead: SendDead) -> tuple[str, Scanned] | None:
        """What the range holds, by all rules; None and a dead letter when somebody else wrote to its topic."""
        value = message.value or b""
        try:
            put_off = _decode(value)
        except msgspec.DecodeError as error:
            position = Position(f"{message.topic}/{message.partition}", message.offset)
            letter = DeadLetter.of(DeadLetterKind.NOT_OURS, f"no range of ours: {error}", position, value)
            await (await send_dead(letter))
            return None
        scanned = await self._scan_until_it_works(put_off)
        await send([FoundInRange(put_off.source, put_off.first, put_off.end, scanned, moves_time=False)])
        return source_of(put_off.source), scanned

    async def _scan_until_it_works(self, put_off: PutOff) -> Scanned:
        while True:
            try:
                if await self._is_there(put_off):
                    return await self._scan(put_off)
                self._note_lost(put_off, put_off.end - put_off.first, "deleted with their topic")
                return Scanned()
            except OffsetOutOfRangeError:
                continue  # just deleted: what is left of it is read
            except KafkaError as error:
                self._troubles.note(Trouble.KAFKA_ERROR, repr(error), "what was put off waits")
                await asyncio.sleep(PAUSE_S)

    async def _is_there(self, put_off: PutOff) -> bool:
        """Whether its topic is still the one that it was put off from."""
        return put_off.topic_id in ("", (await described(self._admin, put_off.topic)).topic_id)

    async def _scan(self, range_: PutOff) -> Scanned:
        """What its records hold by all rules.

        Raises:
            KafkaError: the broker is away, or the topic is not the one any more.
        """
        partition = range_.source
        oldest = (await self._raw.beginning_offsets([partition]))[partition]
        newest = (await self._raw.end_offsets([partition]))[partition]
        first, end = max(range_.first, oldest), min(range_.end, newest)
        self._raw.assign([partition])
        self._raw.seek(partition, max(oldest, range_.first - LOOK_BACK_RECORDS))
        self._scanner.forget()
        found, reached = Scanned(), first
        while reached < end or self._goes_on(range_):
            chunks = await self._batches.fetch(FETCH_WAIT_MS)
            if not chunks and reached >= end:
                break
            if not chunks and not await self._is_there(range_):
                break
            for _, chunk in chunks:
                if chunk.corrupt:
                    _add_corrupt(found, self._troubles.note_corrupt(source_of(partition), chunk.corrupt), chunk, range_)
                found.records += _records_within(chunk, range_)
                _add(found, self._scanner.scan(chunk.as_batch(partition, chunk.newest_ms)), range_)
                reached = chunk.next_offset
        for _, scanned in self._scanner.rest():
            _add(found, scanned, range_)
        if not await self._is_there(range_):
            raise UnknownTopicOrPartitionError(f"{partition} was made again")
        self._note_lost(range_, range_.end - range_.first - max(0, end - first), "deleted")
        return found

    def _note_lost(self, range_: PutOff, records: int, what: str) -> None:
        if records:
            text = f"{records} records were {what} before all rules had seen them"
            self._troubles.note_lost(source_of(range_.source), range_.first, records, text)
            self._metrics.note_lost_records(source_of(range_.source), records)

    def _goes_on(self, range_: PutOff) -> bool:
        """Whether a block that began within the range waits for its rest."""
        held = [self._scanner.first_held(source) for source in self._scanner.waiting]
        return any(one is not None and one < range_.end for one in held)


def _records_within(chunk: Chunk, range_: PutOff) -> int:
    return sum(range_.first <= record.offset < range_.end for record in chunk.records)


def _add(found: Scanned, scanned: Scanned, range_: PutOff) -> None:
    """What lies within the range; beats were told when it was read first."""

    def is_within(offset: int) -> bool:
        return range_.first <= offset < range_.end

    def of_range(matches: list[Match]) -> list[Match]:
        return [match for match in matches if is_within(match.event.position.offset)]

    letters = [letter for letter in scanned.dead_letters if is_within(letter.position.offset)]
    found.matched += sum(map(is_within, scanned.matched_offsets))
    found.matches += of_range(scanned.matches)
    found.observed += of_range(scanned.observed)
    found.seats += scanned.seats
    found.dead_letters += letters
    found.dead += len(letters)
    found.redactions += [(offset, kind) for offset, kind in scanned.redactions if is_within(offset)]


def _add_corrupt(found: Scanned, letter: DeadLetter, chunk: Chunk, range_: PutOff) -> None:
    """Records that were sound when they were put off, and can't be unpacked any more."""
    records = min(chunk.next_offset, range_.end) - max(letter.position.offset, range_.first)
    if records > 0:
        found.records += records
        found.dead += records
        found.dead_letters.append(letter)
