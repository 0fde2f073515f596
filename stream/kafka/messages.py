"""The messages on our own Kafka topics, between scan, correlation and store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, TypeVar

import msgspec
from msgspec.structs import replace

from epicenter.rules.errors import DeadLetterKind, RecordError
from epicenter.rules.model.flat_heartbeats import FlatHeartbeat
from epicenter.rules.model.ledger import Delivery, Gap, JobState, Joined, Sample
from epicenter.rules.model.records import Match, RankPlacement
from epicenter.rules.model.step_bundle import StepBundle

SPLIT_ABOVE_BYTES: Final = 512 << 10
Item = TypeVar("Item")


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Scan results of one raw partition, up to the raw offset `end` (excluded).

    A batch that is too large comes in pieces; `end` and `newest_ns`, its newest event time, come with the last one.
    `step_bundles` are heartbeats too.
    """

    source: str
    end: int | None
    newest_ns: int | None
    matches: tuple[Match, ...]
    heartbeats: tuple[FlatHeartbeat, ...]
    rank_placements: tuple[RankPlacement, ...] = ()
    step_bundles: tuple[StepBundle, ...] = ()


class ScanMessage(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """Batches of several raw partitions."""

    parts: tuple[Part, ...]

    @property
    def has_content(self) -> bool:
        """Whether it holds more than progress."""
        return any(part.matches or part.heartbeats or part.rank_placements or part.step_bundles for part in self.parts)


class ProgressTick(msgspec.Struct, frozen=True, array_like=True, tag="tick"):
    """How far the raw partitions are read. Results below these offsets were sent before this message.

    `ends` are the committed offsets; `lagging` names the partitions with more to read at that moment. `elapsed_ns` is
    the time since the newest record was written; `at_pace` says whether event time advances while nothing is written.
    """

    ends: dict[str, int]
    lagging: tuple[str, ...]
    elapsed_ns: int
    at_pace: bool
    has_content: ClassVar[bool] = False


class StoreMessage(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    """Rows for the store in addition to matches and incidents; only the store writer reads them."""

    signals: tuple[Joined, ...] = ()
    gaps: tuple[Gap, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    samples: tuple[Sample, ...] = ()
    job_states: tuple[JobState, ...] = ()
    has_content: ClassVar[bool] = False


Message = ScanMessage | ProgressTick | StoreMessage

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """The message as bytes."""
    return _encoder.encode(_with_rank_placements(message, RankPlacement.written))


def decode(value: bytes) -> Message:
    """The message in these bytes.

    Raises:
        RecordError: they are not an epicenter message.
    """
    try:
        return _with_rank_placements(_decoder.decode(value), RankPlacement.read)
    except msgspec.DecodeError as error:
        raise RecordError(f"no message of ours: {error}", DeadLetterKind.NOT_OURS) from error


def _with_rank_placements(message: Message, change: Callable[[RankPlacement], RankPlacement]) -> Message:
    if not isinstance(message, ScanMessage) or not any(part.rank_placements for part in message.parts):
        return message
    return ScanMessage(
        tuple(replace(part, rank_placements=tuple(map(change, part.rank_placements))) for part in message.parts)
    )


def encode_in_pieces(parts: Sequence[Part]) -> Iterator[bytes]:
    """The parts in as many messages as their size needs, in order."""
    value = encode(ScanMessage(tuple(parts)))
    halves = _halves(parts) if len(value) > SPLIT_ABOVE_BYTES else None
    if halves is None:
        yield value
    else:
        for half in halves:
            yield from encode_in_pieces(half)


def store_messages(message: StoreMessage) -> Iterator[bytes]:
    """The message in as many pieces as its size needs, in order; none when it is empty."""
    columns = (message.signals, message.gaps, message.deliveries, message.samples, message.job_states)
    longest = max(map(len, columns))
    value = encode(message) if longest else b""
    if len(value) <= SPLIT_ABOVE_BYTES or longest == 1:
        yield from (value,) if value else ()
    else:
        yield from store_messages(_half(message, is_first=True))
        yield from store_messages(_half(message, is_first=False))


def _half(message: StoreMessage, is_first: bool) -> StoreMessage:
    def half(column: tuple[Item, ...]) -> tuple[Item, ...]:
        middle = len(column) // 2
        return column[:middle] if is_first else column[middle:]

    return StoreMessage(
        half(message.signals),
        half(message.gaps),
        half(message.deliveries),
        half(message.samples),
        half(message.job_states),
    )


def _halves(parts: Sequence[Part]) -> tuple[Sequence[Part], Sequence[Part]] | None:
    if len(parts) > 1:
        return parts[: len(parts) // 2], parts[len(parts) // 2 :]
    (part,) = parts
    middle = len(part.matches) // 2
    if middle == 0:
        return None
    first = Part(part.source, None, None, part.matches[:middle], ())
    return [first], [replace(part, matches=part.matches[middle:])]
