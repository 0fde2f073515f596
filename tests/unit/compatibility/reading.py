"""Reads the files of a folder with today's code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from cramjam import zstd

from epicenter.rules.alerts.mute_stages import OperatorActions
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.flat_heartbeats import unflattened
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.signals import QUIET_ROLES
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import Client
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.kafka.messages import Message, ScanMessage, StoreMessage, decode
from tests.support.logs import the_rules
from tests.support.planning import NOW_NS

LATENESS_NS = 5 * NS_PER_S
ROUTING = {
    "route": {"targets": ["chat", "pager"], "repeat_interval": "4h"},
    "inhibit": [{"source": {"severity": "critical"}, "target": {"severity": "warning"}, "equal": ["node"]}],
    "maintenance": [
        {"match": {"node": "n9"}, "who": "ada", "reason": "racks move", "begins": "2020-01-01T00:00:00Z"}
        | {"until": "2030-01-01T00:00:00Z"}
    ],
    "actions": "allowed",
}
SAID = OperatorActions(
    silences=(Silence("s1", {"node": "n2"}, 0, NOW_NS + 86_400 * NS_PER_S, "ada", "known"),),
    acknowledgements={"acked": Acknowledgement("acked", "ada", NOW_NS + 61 * NS_PER_S, "mine")},
)

RECORDED_OF_MATCHES = ("match_id", "event_time", "rule", "node", "job", "rank", "text", "position_offset")
"""The other columns are what the rules say today."""

Columns = dict[str, list[Any]]


def unpacked(file: Path) -> bytes:
    """What was compressed."""
    return bytes(zstd.decompress(file.read_bytes()))


def values_of(file: Path) -> list[bytes]:
    """The values of a topic's records, in order."""
    return msgspec.msgpack.decode(unpacked(file), type=list[bytes])


def matches_of(folder: Path) -> list[Message]:
    """The messages of the topic of matches; each one's offset is its place."""
    return [decode(value) for value in values_of(folder / "matches.zst")]


def journal_of(folder: Path) -> dict[str, bytes]:
    """The records of the alerts' journal."""
    return msgspec.msgpack.decode(unpacked(folder / "alerts.zst"), type=dict[str, bytes])


def rows_of_folder(folder: Path) -> dict[str, Columns]:
    """What the store is given of all messages, by table and column."""
    recorder = _Recorder()
    sink = ClickHouseSink(cast(Client, recorder), retry_for_s=0)
    for message in (*matches_of(folder), *map(decode, values_of(folder / "signals.zst"))):
        for contents in _contents(message):
            sink.write(**contents)
    dead_letters = [msgspec.json.decode(value, type=DeadLetter) for value in values_of(folder / "dead_letters.zst")]
    sink.write(dead_letters=dead_letters)
    return cast(dict[str, Columns], msgspec.to_builtins(recorder.rows, enc_hook=str))


def incidents_of(folder: Path) -> list[Incident]:
    """The documents of the topic of incidents."""
    return [msgspec.json.decode(value, type=Incident) for value in values_of(folder / "incidents.zst")]


def _contents(message: Message) -> Iterator[dict[str, Any]]:
    if isinstance(message, StoreMessage):
        yield {name: getattr(message, name) for name in ("signals", "gaps", "deliveries", "samples")}
    for part in message.parts if isinstance(message, ScanMessage) else ():
        known = [(match, the_rules().spec_of(match)) for match in part.matches if match.rule in the_rules().by_id]
        told = [one for one in known if one[1].role not in QUIET_ROLES]
        yield {
            "matches": told,
            "heartbeats": list(map(unflattened, part.heartbeats)),
            "rank_placements": part.rank_placements,
        }


class _Recorder:
    """Takes rows as the store's client does."""

    is_embedded = True

    def __init__(self) -> None:
        self.rows: dict[str, Columns] = {}

    def insert(self, table: str, columns: tuple[list[Any], ...], names: tuple[str, ...], *_: object) -> None:
        """Keep the columns."""
        for name, column in zip(names, columns, strict=True):
            if table != "matches" or name in RECORDED_OF_MATCHES:
                self.rows.setdefault(table, {}).setdefault(name, []).extend(column)
