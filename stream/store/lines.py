"""`epicenter logs`: finds the line of a reference: in the file, else the store, else Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.parse.envelope import text_of
from epicenter.rules.errors import InputError, PipelineError, RecordError, TransientError
from epicenter.rules.model.incident import Evidence, Incident
from epicenter.sinks.evidence.links import lines_of_links
from epicenter.sinks.evidence.reference import LineReference, PartReference, Reference, SignalReference, parse, part_of
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.kafka.clients import make_consumer
from epicenter.stream.kafka.preflight import reach
from epicenter.stream.scan.redaction import lines_without_secrets, redactor_of
from epicenter.stream.settings import Settings
from epicenter.stream.store.evidence import query, stored_incident

MAX_LINE_LENGTH: Final = 65_536
"""At most this many characters of a line are shown."""

KAFKA_TIMEOUT_S: Final = 10.0
METADATA_POLL_S: Final = 0.05
CONTEXT_LINES: Final = 160
"""Lines before and after the shown ones that are read to redact them: a private key has up to so many."""

_KEY_CHARACTERS: Final = 120


class NumberedLine(msgspec.Struct, frozen=True):
    """A line with its number or offset; `is_wanted`: the referenced one."""

    number: int
    untrusted_log_text: str
    is_wanted: bool = False


class Found(msgspec.Struct, frozen=True):
    """The result for a reference: lines (`found_in` is file, store, Kafka or incident), and facts about missing logs.

    `note` is a remark on how it was found, or empty.
    """

    reference: str
    found_in: str
    lines: tuple[NumberedLine, ...] = ()
    facts: dict[str, Any] = {}
    note: str = ""


class Around(msgspec.Struct, frozen=True):
    """How many lines before and after to include; `is_raw`: whole records, not only their text."""

    before: int
    after: int
    is_raw: bool = False

    @property
    def with_context(self) -> Around:
        """These lines, and those that show whether a secret began before them or ends after them."""
        return Around(self.before + CONTEXT_LINES, self.after + CONTEXT_LINES, self.is_raw)


def find(settings: Settings, text: str, around: Around, incident: Incident | None = None, expected: str = "") -> Found:
    """Find the line of a reference; `incident:` references are about `incident`, else about one in the store.

    `expected` is the text of the line when it was read: a place with another text by now is skipped.

    Raises:
        ValueError: this is not a reference.
        InputError: not found, or the file can't be read; the message lists the places searched.
        TransientError: not found, but a place is unreachable.
    """
    reference: Reference = parse(text)
    match reference:
        case LineReference():
            return _line(settings, text, reference, around, expected)
        case SignalReference():
            return _signal(settings, text, reference, around)
        case PartReference():
            return _part(settings, text, reference, around, incident)


def _line(settings: Settings, text: str, wanted: LineReference, around: Around, expected: str = "") -> Found:
    tried: list[str] = []
    away: PipelineError | None = None
    for lookup in (_in_file, _in_store, _in_kafka):
        try:
            lines = _shown(settings, lookup(settings, wanted, around.with_context), wanted.number, around)
        except (InputError, TransientError) as error:
            away = error if isinstance(error, TransientError) else away
            tried.append(str(error))
            continue
        if expected and not _contains(lines, expected):
            tried.append(f"{_PLACES[lookup]} now holds another line there")
            continue
        return Found(text, _PLACES[lookup], tuple(lines), note=_note(lines, around, _PLACES[lookup]))
    sentence = f"{sanitize(text)}: not found: {'; '.join(tried)}"
    raise TransientError(sentence) if away else InputError(sentence)


def _in_file(settings: Settings, wanted: LineReference, around: Around) -> Sequence[NumberedLine]:
    path = Path(wanted.source)
    if not path.is_file():
        raise InputError("no such file on this machine")
    found = list(_lines_of_file(path, wanted.number, around))
    if not any(line.is_wanted for line in found):
        raise InputError(f"the file has no line {wanted.number}")
    return found


def _lines_of_file(path: Path, wanted: int, around: Around) -> Iterator[NumberedLine]:
    """The lines around the wanted one, numbered by the same reader that collects them."""
    try:
        source = FileSource(path, "", follow=False)
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}") from error
    try:
        while not source.has_ended:
            batch = source.read(0)
            if batch is None or batch.offsets[len(batch.offsets) - 1] < wanted - around.before:
                continue
            for number, value in zip(batch.offsets, batch.values, strict=True):
                if wanted - around.before <= number <= wanted + around.after:
                    yield _numbered(number, value, wanted, around)
                elif number > wanted + around.after:
                    return
    finally:
        source.close()


def _in_store(settings: Settings, wanted: LineReference, around: Around) -> Sequence[NumberedLine]:
    found = query(
        settings,
        "line",
        source=wanted.source,
        number=wanted.number,
        before=around.before,
        after=around.after,
    )
    if not found:
        raise InputError("the store has no match there")
    by_number = {line["number"]: line["text"] for line in found["matched"]} | dict(found["raw"])
    return [NumberedLine(number, text, number == wanted.number) for number, text in sorted(by_number.items())]


def _in_kafka(settings: Settings, wanted: LineReference, around: Around) -> Sequence[NumberedLine]:
    if wanted.partition is None:
        raise InputError("not a Kafka partition")
    return asyncio.run(_records(settings, *wanted.partition, wanted.number, around))


async def _records(
    settings: Settings, topic: str, partition: int, wanted: int, around: Around
) -> Sequence[NumberedLine]:
    consumer, place = make_consumer(settings, None), TopicPartition(topic, partition)
    try:
        async with asyncio.timeout(KAFKA_TIMEOUT_S):
            await consumer.start()
            if topic not in await consumer.topics():  # a request by name might create it
                raise InputError("Kafka has no such topic")
            consumer.assign([place])
            if partition not in await _partitions(consumer, topic):
                raise InputError("Kafka has no such partition")
            oldest = (await consumer.beginning_offsets([place]))[place]
            end = (await consumer.end_offsets([place]))[place]
            if not oldest <= wanted < end:
                raise InputError(f"Kafka holds offsets {oldest} to {end - 1} of it")
            consumer.seek(place, max(oldest, wanted - around.before))
            return await _read_to(consumer, place, min(end - 1, wanted + around.after), wanted, around)
    except (KafkaError, TimeoutError, OSError) as error:
        await reach(settings)
        raise TransientError(f"Kafka is unreachable: {settings.kafka}") from error
    finally:
        await consumer.stop()


async def _partitions(consumer: Any, topic: str) -> set[int]:
    """As soon as the metadata of a topic that was just assigned have come."""
    while not (known := consumer.partitions_for_topic(topic)):
        await asyncio.sleep(METADATA_POLL_S)
    return set(known)


async def _read_to(
    consumer: Any, place: TopicPartition, last: int, wanted: int, around: Around
) -> Sequence[NumberedLine]:
    found: list[NumberedLine] = []
    while await consumer.position(place) <= last:
        for record in (await consumer.getmany(place, timeout_ms=200)).get(place, ()):
            if record.offset <= last:
                found.append(_numbered(record.offset, record.value or b"", wanted, around))
    if not any(line.is_wanted for line in found):
        raise InputError("Kafka no longer holds a record at this offset")
    return found


def _signal(settings: Settings, text: str, wanted: SignalReference, around: Around) -> Found:
    signal = query(settings, "signal", id=wanted.signal_id)
    if not signal:
        raise InputError(f"{sanitize(text)}: not found: no such signal in the store")
    facts = {
        name: value for name, value in signal.items() if name not in ("text", "position_source", "position_offset")
    }
    if signal["position_source"]:
        place = LineReference(signal["position_source"], signal["position_offset"])
        try:
            return msgspec.structs.replace(_line(settings, text, place, around), facts=facts)
        except PipelineError:
            pass
    lines = (NumberedLine(signal["position_offset"], signal["text"], True),)
    return Found(text, "store", lines, facts, "no log line: this signal is about missing logs, or was derived")


def _part(settings: Settings, text: str, wanted: PartReference, around: Around, incident: Incident | None) -> Found:
    if incident is None:
        incident = stored_incident(settings, wanted.incident_id, wanted.revision)
    elif (incident.incident_id, incident.revision) != (wanted.incident_id, wanted.revision or incident.revision):
        raise InputError(f"{sanitize(text)}: the file holds another incident, or another revision of it")
    try:
        part = part_of(incident, wanted.path)
    except KeyError as error:
        raise InputError(f"{sanitize(text)}: this incident has no such part") from error
    line = _line_of_part(incident, wanted.path)
    if line is None:
        facts = _facts_of_silence(incident, part) if wanted.path[:1] == ("chain",) else {"part": part}
        return Found(text, "incident", (), facts)
    place = LineReference(line.source, line.line)
    try:
        return _line(settings, text, place, around, line.text)
    except PipelineError as error:
        lines = tuple(NumberedLine(place.number, piece, True) for piece in line.text.split("\n"))
        return Found(text, "incident", lines, note=f"from the incident; {error}")


def _line_of_part(incident: Incident, path: tuple[str, ...]) -> Evidence | None:
    """The evidence that a part of an incident is, or that proves it."""
    if len(path) < 2 or path[0] not in ("chain", "evidence"):
        return None
    number = int(path[1]) if path[0] == "evidence" else lines_of_links(incident)[int(path[1])]
    return None if number is None else incident.evidence[number]


def _facts_of_silence(incident: Incident, link: Any) -> dict[str, Any]:
    return {"silence": link, "means": incident.verdict, "progress": incident.progress}


def _contains(lines: Sequence[NumberedLine], expected: str) -> bool:
    """Whether the wanted line is the expected one, or in the expected block."""
    found = next(line.untrusted_log_text for line in lines if line.is_wanted)
    keys = [line[:_KEY_CHARACTERS] for line in expected.split("\n") if line.strip()]
    return not keys or any(key in found or orjson.dumps(key)[1:-1].decode() in found for key in keys)


def _note(lines: Sequence[NumberedLine], around: Around, place: str) -> str:
    if place != "store" or len(lines) > max(around.before, around.after):
        return ""
    return "the store has only the lines that match a rule, not those between them"


def _numbered(number: int, value: bytes, wanted: int, around: Around) -> NumberedLine:
    text = value.decode("utf-8", "replace")
    if not around.is_raw:
        with suppress(RecordError):
            text = text_of(value).rstrip("\r\n")
    return NumberedLine(number, text, number == wanted)


def _shown(settings: Settings, lines: Sequence[NumberedLine], wanted: int, around: Around) -> list[NumberedLine]:
    """The lines around the wanted one, redacted as a part of all these, and cut: files and Kafka have the originals."""
    texts = lines_without_secrets(redactor_of(settings), [line.untrusted_log_text for line in lines])
    return [
        msgspec.structs.replace(line, untrusted_log_text=text[:MAX_LINE_LENGTH])
        for line, text in zip(lines, texts, strict=True)
        if wanted - around.before <= line.number <= wanted + around.after
    ]


_PLACES: Final = {_in_file: "file", _in_store: "store", _in_kafka: "Kafka"}
