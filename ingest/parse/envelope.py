"""RawRecord -> LogEvent: the envelope that Vector, Fluent Bit, rsyslog or journald put around a line, or none.

Field names and their order: the envelope table in docs/envelopes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from epicenter.ingest.parse.exports import unwrapped
from epicenter.ingest.parse.foreign import product_of_bytes, product_of_fields
from epicenter.ingest.parse.identity import Identity, identity_of, names_no_writer
from epicenter.ingest.parse.kube_event import MARKS_OF_AN_EVENT, printed_event
from epicenter.ingest.parse.kube_event import TIME_FIELDS as EVENT_TIME_FIELDS
from epicenter.ingest.parse.prefix import Peeled, peel
from epicenter.ingest.parse.times import plausible, time_at_head, time_from_field
from epicenter.rules.errors import DeadLetterKind, RecordError
from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.records import DEFAULT_CLUSTER, LogEvent, Origin, RawRecord
from epicenter.rules.model.times import NS_PER_S

TEXT_FIELDS: Final = ("message", "log", "msg", "MESSAGE", "body")
_LINE_FIELD: Final = "line"
"""The text of some sites' own records; loggers have the number of a line of code here."""

DETAIL_FIELDS: Final = ("error", "err", "exc_info", "exception", "stack_trace")
"""What loggers of JSON (zap, logrus, zerolog, Python's) put next to their message: the error, or a whole traceback."""

_DETAILS = frozenset(DETAIL_FIELDS)
_TIME_FIELDS = ("timestamp", "@timestamp", "time", "date", "ts", "__REALTIME_TIMESTAMP")
_RANK_OF_C10D = re.compile(r"\[(?:PG [^\]\n]{1,100} )?Rank (\d{1,7})\]", re.ASCII)
_CLOCK = re.compile(rb":\d\d:\d\d")
_EPOCH = re.compile(rb"\d{10}\.\d{6}|^(?:<\d{1,3}>)?\[ {0,6}\d{1,8}\.\d{6}\]")
_UPTIME = re.compile(r"(?:<\d{1,3}>)?\[ {0,6}(\d{1,8}\.\d{6})\] ")
_SPACED_START = re.compile(rb'\s*\{\s*"')
_PLAIN = Origin()


class Parsed(msgspec.Struct, frozen=True):
    """An event and the part of its text that rules look at: without prefixes and colours.

    `speaker` is who wrote it, by its stream field and prefixes: lines of one source with the same speaker come from
    the same process.
    """

    event: LogEvent
    body: str
    speaker: str = ""


def is_envelope(value: bytes) -> bool:
    """Whether the value looks like a JSON object. One with a space before its first name must also have its end."""
    return value.startswith(b'{"') or bool(_SPACED_START.match(value) and value.rstrip().endswith(b"}"))


def check_envelope(value: bytes) -> None:
    """Raises RecordError if the value has no log line: a broken envelope, another product's record."""
    if product := product_of_bytes(value):
        raise RecordError(f"no log line: {product}", DeadLetterKind.NO_LOG_LINE)
    fields = _fields(value, must_be_json=True)
    _text_of(fields, value)
    if fields and not any(name in fields for name in TEXT_FIELDS) and (product := product_of_fields(fields)):
        raise RecordError(f"no log line: {product}", DeadLetterKind.NO_LOG_LINE)


def parse(record: RawRecord, cluster: str) -> Parsed:
    """The event in a record. A broken envelope counts as a plain line here, so that its text is not lost.

    Raises:
        RecordError: an envelope whose text is no text.
    """
    return _Whole.of(record).parsed(cluster)


def parse_pieces(record: RawRecord, cluster: str, pieces: Iterable[str]) -> Iterator[Parsed]:
    """The events in some of the `pieces_of` a record's body: their own prefixes come before those of the line.

    The text of each event is the whole line.

    Raises:
        RecordError: an envelope whose text is no text.
    """
    return map(partial(_Whole.of(record).parsed, cluster), pieces)


class _Whole(NamedTuple):
    """A record without its envelope: read once, however many pieces its line has."""

    record: RawRecord
    fields: dict[str, Any]
    text: str
    line: str
    peeled: Peeled

    @classmethod
    def of(cls, record: RawRecord) -> _Whole:
        fields = _fields(record.value, must_be_json=False)
        text = _text_of(fields, record.value).rstrip("\r\n")
        line = text.lstrip("\r\n\0")
        return cls(record, fields, text, line, peel(line))

    def parsed(self, cluster: str, piece: str = "") -> Parsed:
        record, fields, text, line, peeled = self
        heads = _heads(line, peeled)
        if piece:
            inner = peel(piece)
            peeled, heads = inner.within(peeled), (*_heads(piece, inner), *heads)
        time_ns = _stated_time(fields, heads, record)
        event_fields = printed_event(peeled.body)
        identity = identity_of(fields | event_fields if event_fields else fields)
        origin = record.origin or _PLAIN
        if record.origin and is_envelope(record.value):
            origin = _PLAIN if identity.source == "kernel" else _of_envelope(origin, identity)
        node = (
            identity.node if identity.is_cluster_event else identity.node or _node(peeled, origin, record, identity.job)
        )
        event = LogEvent(
            event_time_ns=record.received_ns if time_ns is None else time_ns,
            text=text,
            position=record.position,
            has_own_time=time_ns is not None,
            cluster=identity.cluster or _cluster_beside(record, cluster),
            node=node,
            source=identity.source or ("kernel" if peeled.is_kernel else "worker" if identity.is_in_pod else ""),
            job=identity.job if identity.job or identity.is_cluster_event else _job(peeled, origin),
            rank=_rank(identity, peeled, origin),
            pod=identity.pod if identity.is_cluster_event else identity.pod or peeled.pod,
            container=identity.container or peeled.container,
            log="" if peeled.host or identity.is_cluster_event else origin.log,
            address=identity.address,
        )
        return Parsed(event, peeled.body, f"{identity.stream} {peeled.speaker}".strip())


def _cluster_beside(record: RawRecord, cluster: str) -> str:
    """The cluster of a line that names none: that of the settings, else the one that the other files name."""
    beside = record.origin.cluster if record.origin else ""
    return beside or cluster if cluster == DEFAULT_CLUSTER else cluster


def stated_cluster(value: bytes) -> str:
    """The cluster that an envelope names; empty for any other line."""
    return identity_of(_fields(value, must_be_json=False)).cluster


def _of_envelope(origin: Origin, identity: Identity) -> Origin:
    """The origin of an envelope in a file.

    Envelopes that name no writer, as Docker's, are all of one container; those that name at most a rank are lines of
    the program, if its path names a job, or its node and this rank. Other files of envelopes say nothing about them,
    except that a file named after a job (`slurm-7877.out`) holds the lines of its program.
    """
    is_of_its_rank = bool(origin.node) and identity.rank == str(origin.rank)
    is_of_program = is_of_its_rank or (bool(identity.rank) and is_named_job(origin.job))
    if names_no_writer(msgspec.structs.replace(identity, rank="") if is_of_program else identity):
        return origin
    if identity.is_of_docker:
        return Origin(node=origin.node)
    is_named_after_job = is_named_job(origin.job) and origin.job in origin.log.rpartition("/")[2]
    return Origin(job=origin.job) if is_named_after_job else _PLAIN


def _node(peeled: Peeled, origin: Origin, record: RawRecord, job: str) -> str:
    """The node of a plain line, with the domain that its file's path may give it.

    A key that equals the job is not a node: all nodes of the job write into that file.
    """
    if peeled.host and origin.node.startswith(f"{peeled.host}."):
        return origin.node
    key = record.key.decode("utf-8", "replace") if record.key else ""
    return peeled.host or origin.node_of(peeled.task) or (key if key != job else "")


def _job(peeled: Peeled, origin: Origin) -> str:
    """The job of a plain line: a kernel has none, and lines that syslog gathers don't belong to one file's job."""
    is_gathered = bool(peeled.timed and peeled.host)
    return "" if peeled.is_kernel or (is_gathered and not is_named_job(origin.job)) else origin.job


def _heads(line: str, peeled: Peeled) -> tuple[str, ...]:
    """Where a time may be, the outermost first."""
    if len(peeled.body) == len(line):
        return (line,)
    return (line, peeled.timed, peeled.body) if peeled.timed else (line, peeled.body)


def is_of_its_file(value: bytes) -> bool:
    """Whether an envelope names no writer, as Docker's: then its file does."""
    return names_no_writer(identity_of(_fields(value, must_be_json=False)))


class _Texts(msgspec.Struct):
    """The text fields alone, and the marks of exports; the rest of an envelope is skipped."""

    message: str | None = None
    log: str | None = None
    msg: str | None = None
    MESSAGE: str | None = None
    body: str | None = None
    line: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    err: msgspec.Raw = msgspec.Raw()
    exc_info: msgspec.Raw = msgspec.Raw()
    exception: msgspec.Raw = msgspec.Raw()
    stack_trace: msgspec.Raw = msgspec.Raw()
    insertId: msgspec.Raw = msgspec.Raw()  # noqa: N815
    logStreamName: msgspec.Raw = msgspec.Raw()  # noqa: N815
    logStream: msgspec.Raw = msgspec.Raw()  # noqa: N815


def _details_of(texts: _Texts) -> tuple[msgspec.Raw, ...]:
    return texts.error, texts.err, texts.exc_info, texts.exception, texts.stack_trace


_decode_texts = msgspec.json.Decoder(_Texts).decode


def text_of(value: bytes) -> str:
    """Only the text of a record.

    Raises:
        RecordError: an envelope whose text is no text.
    """
    if is_envelope(value):
        try:
            texts = _decode_texts(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _text_of(_fields(value, must_be_json=False), value)
        if any((texts.line, texts.insertId, texts.logStreamName, texts.logStream, *_details_of(texts))):
            return _text_of(_fields(value, must_be_json=False), value)
        for text in (texts.message, texts.log, texts.msg, texts.MESSAGE, texts.body):
            if text is not None:
                return text
        return _text_of(_fields(value, must_be_json=False), value)
    return value.decode("utf-8", "replace")


def may_state_time(value: bytes) -> bool:
    """False only for a plain line without a clock, an epoch or a kernel's uptime, which states no time: a cheap look
    before parsing.
    """
    return is_envelope(value) or bool((b":" in value and _CLOCK.search(value)) or _EPOCH.search(value))


def stated_time(record: RawRecord) -> int | None:
    """Only the time that a record states."""
    try:
        whole = _Whole.of(record)
    except RecordError:
        return None
    return _stated_time(whole.fields, _heads(whole.line, whole.peeled), record)


def _fields(value: bytes, must_be_json: bool) -> dict[str, Any]:
    if not is_envelope(value):
        return {}
    try:
        return unwrapped(dict(orjson.loads(value)))
    except orjson.JSONDecodeError as error:
        with suppress(orjson.JSONDecodeError):
            return unwrapped(dict(orjson.loads(value.decode("utf-8", "replace"))))
        if must_be_json and value.startswith(b'{"'):
            raise RecordError(f"not JSON: {error}", DeadLetterKind.NOT_JSON) from error
        return {}


def _text_of(fields: dict[str, Any], value: bytes) -> str:
    for name in TEXT_FIELDS:
        if (content := fields.get(name)) is not None:
            return _with_detail(content, fields) if isinstance(content, str) else _as_text(name, content)
    if isinstance(line := fields.get(_LINE_FIELD), str):
        return line
    name = next((name for name in TEXT_FIELDS if name in fields), "")
    return _as_text(name, None) if name else value.decode("utf-8", "replace")


def _with_detail(text: str, fields: dict[str, Any]) -> str:
    """The message with the error that its logger put into another field; a traceback begins a new line."""
    if _DETAILS.isdisjoint(fields):
        return text
    details = (content for name in DETAIL_FIELDS if isinstance(content := fields.get(name), str))
    detail = next((content for content in details if content and content not in text), "")
    if not detail:
        return text
    return f"{text}\n{detail}" if "\n" in detail else f"{text}: {detail}"


def _as_text(name: str, content: Any) -> str:
    if isinstance(content, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in content):
        return bytes(content).decode("utf-8", "replace")
    found = type(content).__name__
    raise RecordError(f"wrong shape: field {name!r} should be text, found {found}", DeadLetterKind.WRONG_SHAPE)


def _stated_time(fields: dict[str, Any], heads: tuple[str, ...], record: RawRecord) -> int | None:
    received_ns, zone = record.received_ns, record.zone
    is_of_an_event = not MARKS_OF_AN_EVENT.isdisjoint(fields)
    for name in (*EVENT_TIME_FIELDS, *_TIME_FIELDS) if is_of_an_event else _TIME_FIELDS:
        if name in fields and plausible(time_ns := time_from_field(fields[name], zone), received_ns):
            return time_ns
    is_day_first = bool(record.origin and record.origin.is_day_first)
    times = (time_at_head(head, received_ns, zone, is_day_first) for head in heads)
    time_ns = next((time_ns for time_ns in times if plausible(time_ns, received_ns)), None)
    return _time_since_boot(heads[0], record) if time_ns is None else time_ns


def _time_since_boot(line: str, record: RawRecord) -> int | None:
    """The time of a raw kernel message (`[1234.567890] …`) in a file that tells when the kernel started."""
    found = _UPTIME.match(line) if record.origin and record.origin.boot_ns else None
    if not (found and record.origin):
        return None
    time_ns = record.origin.boot_ns + int(float(found[1]) * NS_PER_S)
    return time_ns if plausible(time_ns, record.received_ns) else None


def _rank(identity: Identity, peeled: Peeled, origin: Origin) -> int | None:
    """The stated rank, else that of a prefix, of c10d's header, of srun's task, of the pod's index or of the file.

    A task is a rank if the line and its file name no other; a pod's index is the rank of its first process.
    """
    task = peeled.task if origin.tasks_are_ranks else None
    may_be_another = peeled.task is not None or bool(identity.pod_index)
    of_c10d = _RANK_OF_C10D.search(peeled.body) if may_be_another else None
    stated = (identity.rank, peeled.rank, of_c10d[1] if of_c10d else None)
    for value in (*stated, task, identity.pod_index, origin.rank):
        if value is not None and value != "" and (rank := _number(value)) is not None:
            return rank
    return None


def _number(value: str | int) -> int | None:
    if isinstance(value, int):
        return value
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 8 else None
