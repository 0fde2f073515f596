"""Removes secrets from scan results before they are stored or sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.ids import stable_id
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import LogEvent, Match, RawRecord
from epicenter.rules.redact.load import load_redactor
from epicenter.rules.redact.redactor import Redacted, Redactor
from epicenter.stream.settings import Settings

MIN_PIECE_LENGTH: Final = 8
"""A field of at least this length that is part of a secret is redacted too."""

MIN_SECRET_LENGTH: Final = 4
"""Shorter secrets may occur in a field by chance, and are redacted only where they are the whole field."""

Redactions = list[str]
"""The kind of each secret that was removed."""

_RedactedTexts = Mapping[str, Redacted]


def redactor_of(settings: Settings) -> Redactor | None:
    """The redactor; None when redaction is off.

    Raises:
        ConfigError: lists every problem of every pattern file.
    """
    return load_redactor(settings.redact_patterns) if settings.redact else None


def without_secrets(redactor: Redactor, matches: Sequence[Match]) -> tuple[list[Match], Redactions]:
    """The matches with their texts, blocks and fields redacted. A block is one text: a key may span lines.

    The id of a match with a secret is that of its redacted text.
    """
    texts = list(dict.fromkeys(text for match in matches for text in _texts(match)))
    by_number = redactor.redact_all([_encoded(text) for text in texts])
    if not by_number:
        return list(matches), []
    found = {texts[number]: redacted for number, redacted in by_number.items()}
    redactions = {
        (match.event.position.offset, text): found[text].kinds
        for match in matches
        for text in _whole_texts(match)
        if text in found
    }
    return [_without(match, found) for match in matches], [kind for kinds in redactions.values() for kind in kinds]


def redacted_dead_letter(
    redactor: Redactor | None, kind: DeadLetterKind, reason: str, record: RawRecord
) -> tuple[DeadLetter, Redactions]:
    """The dead letter of a record, redacted before it is cut to its first part: bytes, key and reason.

    `size_bytes` is that of the original record.
    """
    found = redactor.redact(record.value) if redactor else Redacted(record.value, (), ())
    key = bytes_without_secrets(redactor, record.key) if record.key else record.key
    reason = text_without_secrets(redactor, reason)
    dead_letter = DeadLetter.of(kind, reason, record.position, found.text, key, record.received_ns)
    return msgspec.structs.replace(dead_letter, size_bytes=len(record.value)), list(found.kinds)


def bytes_without_secrets(redactor: Redactor | None, content: bytes) -> bytes:
    """Any bytes, redacted."""
    return redactor.redact(content).text if redactor else content


def text_without_secrets(redactor: Redactor | None, text: str) -> str:
    """Any text, redacted."""
    return _decoded(bytes_without_secrets(redactor, _encoded(text)))


def lines_without_secrets(redactor: Redactor | None, lines: Sequence[str]) -> list[str]:
    """Consecutive lines, redacted as one text, as many as before: a key that spans several leaves a mark in each."""
    if redactor is None:
        return list(lines)
    text = _decoded(redactor.redact(_encoded("\n".join(lines)), by_line=True).text)
    rows = iter(text.split("\n"))
    if text.count("\n") + 1 != sum(line.count("\n") + 1 for line in lines):
        return [text] * len(lines)
    return ["\n".join(islice(rows, line.count("\n") + 1)) for line in lines]


def _texts(match: Match) -> Iterator[str]:
    yield from _whole_texts(match)
    yield from match.fields.values()


def _whole_texts(match: Match) -> Iterator[str]:
    yield match.event.text
    if match.block:
        yield "\n".join(match.block)


def _without(match: Match, found: _RedactedTexts) -> Match:
    if found.keys().isdisjoint(_texts(match)):
        return match
    event = msgspec.structs.replace(match.event, text=_redacted(match.event.text, found))
    secrets = [secret for text in _whole_texts(match) if text in found for secret in found[text].secrets]
    marks = [f"[redacted:{kind}]" for text in _whole_texts(match) if text in found for kind in found[text].kinds]
    replacements = list(zip([secret.decode("utf-8", "replace") for secret in secrets], marks, strict=True))
    return Match(
        match_id=match_id(match.rule, event),
        rule=match.rule,
        event=event,
        fields={name: _field(_redacted(value, found), replacements) for name, value in match.fields.items()},
        block=tuple(_redacted("\n".join(match.block), found).split("\n")) if match.block else (),
    )


def match_id(rule_id: str, event: LogEvent) -> str:
    """The id of a match by the content of its line, and by its position if the line states no time.

    A time that can't be right tells two lines apart as well as one that can, and a receipt as well as a guessed time:
    neither depends on the lines that a worker happens to read together.
    """
    states_a_time = event.has_own_time or event.wild_ns
    origin = () if states_a_time else (event.position.source, event.position.offset)
    time_ns = event.wild_ns or event.received_ns or event.event_time_ns
    content = (event.cluster, event.node, event.source, event.job, event.rank, time_ns, event.text)
    return stable_id(rule_id, *content, *origin)


def _redacted(text: str, found: _RedactedTexts) -> str:
    return _decoded(found[text].text) if text in found else text


def _field(value: str, replacements: Sequence[tuple[str, str]]) -> str:
    """A field, redacted by the secrets of its text: it does not show the name before a secret."""
    for secret, mark in replacements:
        if value == secret or (len(value) >= MIN_PIECE_LENGTH and value in secret):
            return mark
        if len(secret) >= MIN_SECRET_LENGTH:
            value = value.replace(secret, mark)
    return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")
