"""Matches, heartbeats, incidents and dead letters from our topics into the store.

A service of the Faust app with its own consumer group, so that an unreachable store blocks nothing else: Kafka holds
the backlog. Rows are written first and committed after; ids make a second write harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, Final, Literal, NamedTuple

import msgspec
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from mode import Service

from epicenter.rules.errors import (
    ConfigError,
    DeadLetterKind,
    PipelineError,
    RecordError,
    RejectedError,
    TransientError,
)
from epicenter.rules.model.flat_heartbeats import flattened, unflattened
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import Match, Position
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.spec import RuleSpec
from epicenter.sinks.log import get_logger
from epicenter.stream.kafka.clients import make_producer
from epicenter.stream.kafka.messages import Part, ProgressTick, ScanMessage, StoreMessage, decode, encode
from epicenter.stream.kafka.own_topics import Fetched, Message, OwnTopics
from epicenter.stream.kafka.raw_batches import source_of
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.settings import Settings
from epicenter.stream.store.thread import Store

log: Final = get_logger(__name__)

RECORDS_A_FETCH: Final = 2_000
BYTES_A_WRITE: Final = 4 << 20
"""About 8,000 rows of matches, which take ten times as much memory while they are written."""

PAUSE_MS: Final = 1_000
CHECK_STORE_EVERY_S: Final = 10.0
RETRY_FOR_S: Final = 5.0


Table = Literal[
    "matches",
    "observed",
    "heartbeats",
    "rank_placements",
    "signals",
    "gaps",
    "deliveries",
    "samples",
    "job_states",
    "incidents",
    "dead_letters",
]


class Row(NamedTuple):
    """A row for the store, with the message that it comes from."""

    table: Table
    content: Any
    message: Message


class StoreWriter(Service):
    """Writes whole fetches and retries for as long as the store is unreachable."""

    def __init__(self, settings: Settings, rules: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._rules = rules
        self._metrics = metrics
        self._store = Store(settings.store_dsn, RETRY_FOR_S, writer=settings.prefix)
        self.last_fetch_s = monotonic()
        self.group = self._names.store_group
        self.has_joined = False
        self.store_problem = "the store was not asked yet"

    async def reload(self, rules: RuleSet) -> None:
        """Use these rules from now on."""
        self._rules = rules

    async def on_start(self) -> None:
        """Join the group."""
        names = self._names
        self._producer = make_producer(self._settings)
        self._topics = OwnTopics(self._settings, names.store_group, self._producer, self._metrics)
        await self._producer.start()
        topics = (names.matches, names.signals, names.incidents, names.dead_letters)
        await self._topics.start(*topics, listener=_JoinListener(self))

    async def on_stop(self) -> None:
        """Leave the group and close the store."""
        await self._topics.stop()
        await self._producer.stop()
        await self._store.close()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            async with self._topics.fetched(PAUSE_MS, RECORDS_A_FETCH) as fetched:
                self.last_fetch_s = monotonic()
                for piece in pieces(fetched):
                    if await self._write(self._rows(piece)):
                        await self._topics.commit(
                            {partition: messages[-1].offset + 1 for partition, messages in piece.items()}
                        )

    @Service.task
    async def _check_store(self) -> None:
        while not self.should_stop:
            try:
                await self._store.query(lambda client: client.query("SELECT 1"))
                self.store_problem = ""
            except PipelineError as error:
                self.store_problem = str(error)
            await self.sleep(CHECK_STORE_EVERY_S)

    async def _write(self, rows: Sequence[Row]) -> bool:
        """True when the rows are stored, or refused for good and dead-lettered; false when the service is stopping.

        Refused rows are split in half and retried, so that one bad row does not take others with it.
        """
        while not self.should_stop:
            try:
                await self._store.write(**_by_table(rows))
            except RejectedError as error:
                await self._wait(0)
                if len(rows) == 1:
                    await self._give_up(rows[0], str(error))
                    return True
                middle = len(rows) // 2
                return await self._write(rows[:middle]) and await self._write(rows[middle:])
            except (TransientError, ConfigError) as error:
                log.warning("store_write_failed", error=str(error), detail="retrying")
                self._metrics.record_store_failure("away" if isinstance(error, TransientError) else "not set up")
                await self._wait(PAUSE_MS)
            else:
                self._metrics.record_stored(Counter(row.table for row in rows))
                return True
        return False

    async def _wait(self, pause_ms: int) -> None:
        await self._topics.wait(pause_ms)
        self.last_fetch_s = monotonic()

    def _rows(self, fetched: Fetched) -> list[Row]:
        return [row for messages in fetched.values() for message in messages for row in self._rows_of(message)]

    def _rows_of(self, message: Message) -> list[Row]:
        try:
            return list(self._decoded(message))
        except (RecordError, msgspec.DecodeError) as error:
            return [
                Row(
                    "dead_letters",
                    _dead_letter(message, message.value or b"", DeadLetterKind.NOT_OURS, str(error)),
                    message,
                )
            ]

    def _decoded(self, message: Message) -> Iterator[Row]:
        value = message.value or b""
        if message.topic == self._names.incidents:
            yield Row("incidents", msgspec.json.decode(value, type=Incident), message)
        elif message.topic == self._names.dead_letters:
            yield Row("dead_letters", msgspec.json.decode(value, type=DeadLetter), message)
        else:
            yield from (Row(*row, message) for row in self._rows_of_scan(decode(value)))

    def _rows_of_scan(self, found: ScanMessage | StoreMessage | ProgressTick) -> Iterator[tuple[Table, Any]]:
        for part in found.parts if isinstance(found, ScanMessage) else ():
            yield from (("heartbeats", unflattened(heartbeat)) for heartbeat in part.heartbeats)
            yield from (("heartbeats", step) for bundle in part.step_bundles for step in bundle.steps())
            yield from (("rank_placements", rank_placement) for rank_placement in part.rank_placements)
            yield from map(self._with_its_rule, self._with_known_rule(part.matches))
        if isinstance(found, StoreMessage):
            yield from (("signals", joined) for joined in found.signals)
            yield from (("gaps", gap) for gap in found.gaps)
            yield from (("deliveries", delivery) for delivery in found.deliveries)
            yield from (("samples", sample) for sample in found.samples)
            yield from (("job_states", state) for state in found.job_states)

    def _with_known_rule(self, matches: Sequence[Match]) -> list[Match]:
        known = [match for match in matches if match.rule in self._rules.by_id]
        self._metrics.record_unknown(len(matches) - len(known))
        return known

    def _with_its_rule(self, match: Match) -> tuple[Table, tuple[Match, RuleSpec]]:
        spec = self._rules.spec_of(match)
        return ("observed" if spec.role in QUIET_ROLES else "matches"), (match, spec)

    async def _give_up(self, row: Row, reason: str) -> None:
        """Send a dead letter with only this row of its message."""
        log.error("store_row_refused", table=row.table, error=reason)
        self._metrics.record_store_failure("refused")
        if row.table != "dead_letters":
            dead_letter = _dead_letter(row.message, _single_row_message(row), DeadLetterKind.ROW_REFUSED, reason)
            await self._producer.send_and_wait(self._names.dead_letters, msgspec.json.encode(dead_letter))


class _JoinListener(ConsumerRebalanceListener):
    """Notes that the group gave this member its partitions, if any."""

    def __init__(self, service: StoreWriter):
        self._service = service

    async def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._service.has_joined = True


def pieces(fetched: Fetched) -> Iterator[Fetched]:
    """The fetch in order, in pieces for one write each: at most `BYTES_A_WRITE`, or one message."""
    piece: Fetched = {}
    size_bytes = 0
    for partition, messages in fetched.items():
        for message in messages:
            size_bytes += len(message.value or b"")
            if piece and size_bytes > BYTES_A_WRITE:
                yield piece
                piece, size_bytes = {}, len(message.value or b"")
            piece.setdefault(partition, []).append(message)
    if piece:
        yield piece


def _by_table(rows: Sequence[Row]) -> dict[str, list[Any]]:
    contents: dict[str, list[Any]] = {}
    for row in rows:
        contents.setdefault(row.table, []).append(row.content)
    return contents


def _single_row_message(row: Row) -> bytes:
    """A message that holds only this row."""
    source = source_of(TopicPartition(row.message.topic, row.message.partition))
    match row.table:
        case "matches" | "observed":
            return encode(ScanMessage((Part(source, None, None, (row.content[0],), ()),)))
        case "heartbeats":
            return encode(ScanMessage((Part(source, None, None, (), (flattened(row.content),)),)))
        case "rank_placements":
            return encode(ScanMessage((Part(source, None, None, (), (), (row.content,)),)))
        case "signals" | "gaps" | "deliveries" | "samples" | "job_states":
            return encode(StoreMessage(**{row.table: (row.content,)}))
    return row.message.value or b""


def _dead_letter(message: Message, value: bytes, kind: DeadLetterKind, reason: str) -> DeadLetter:
    position = Position(f"{message.topic}/{message.partition}", message.offset)
    return DeadLetter.of(kind, reason, position, value, message.key, message.timestamp * 1_000_000)
