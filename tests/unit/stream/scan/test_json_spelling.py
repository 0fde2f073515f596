"""The same records, however their JSON is written: spaces, line ends and the order of keys say nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from epicenter.ingest.batch.text import TextLines
from epicenter.rules.engine import Engine
from epicenter.rules.liveness.verdict import NODE_DEAD
from epicenter.stream.scan.scan import ScanResult
from tests.support.heartbeats import earlier_attempt, verdicts
from tests.support.logs import a_scanner, at, batch, fluent_bit, journald, the_rules, vector

Spelling = Callable[[dict[str, Any]], bytes]


def padded(fields: dict[str, Any]) -> bytes:
    inner = " , ".join(f"{json.dumps(name)} : {json.dumps(content)}" for name, content in fields.items())
    return f"{{ {inner} }}".encode()


def reordered(fields: dict[str, Any]) -> bytes:
    return json.dumps(dict(reversed(fields.items()))).encode()


ON_ONE_LINE: Final[dict[str, Spelling]] = {
    "as json.dumps": lambda fields: json.dumps(fields).encode(),
    "padded": padded,
    "tabs": lambda fields: json.dumps(fields, separators=(",\t", "\t:\t")).encode(),
    "other order": reordered,
}
ON_SEVERAL_LINES: Final[dict[str, Spelling]] = {
    "indented": lambda fields: json.dumps(fields, indent=2).encode(),
    "indented with CRLF": lambda fields: json.dumps(fields, indent=2).replace("\n", "\r\n").encode(),
    "after a space": lambda fields: b" " + json.dumps(fields).encode(),
}
XID: Final = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."


def node_dies() -> Iterator[bytes]:
    """Four nodes of job A, all in one stream; the last one has no line after 300 s, and no step follows."""
    for second in range(0, 700, 5):
        for place in range(4 if second <= 300 else 3):
            node = f"gpu-{place}"
            yield journald(node, second + 0.2, f"audit: type=1400 audit({second})")
            step = f"step {second // 5}: loss 2.31, time 320ms" if second <= 300 else "waiting for data"
            writer = vector if place % 2 else fluent_bit
            yield writer(node, second + 0.5, step, "A")
    yield journald("gpu-1", 699, "\x1b[31m" + XID)


def spelled(spelling: Spelling) -> list[bytes]:
    return [spelling(orjson.loads(record)) for record in node_dies()]


def found(values: list[bytes]) -> ScanResult:
    return a_scanner().scan(batch(values, live=True))


def facts(scanned: ScanResult) -> tuple[object, ...]:
    matches = [(match.rule, match.event.text, match.event.node, match.event.event_time_ns) for match in scanned.matches]
    return matches, scanned.heartbeats, scanned.dead, scanned.newest_ns


@pytest.mark.parametrize(
    "spelling", {**ON_ONE_LINE, **ON_SEVERAL_LINES}.values(), ids=[*ON_ONE_LINE, *ON_SEVERAL_LINES]
)
def test_every_spelling_gives_the_same_results(spelling: Spelling) -> None:
    expected = facts(found(list(node_dies())))
    assert expected[0]
    assert facts(found(spelled(spelling))) == expected


@pytest.mark.parametrize("spelling", ON_ONE_LINE.values(), ids=ON_ONE_LINE)
def test_a_dead_node_is_found_in_a_file_of_every_spelling(spelling: Spelling) -> None:
    text = b"".join(value + b"\n" for value in spelled(spelling))
    records = batch([b""] * text.count(b"\n"))
    scanned = a_scanner().scan(replace(records, values=TextLines(text), is_text=True))
    engine = Engine(the_rules())
    engine.add([], earlier_attempt())
    engine.add(scanned.matches, scanned.heartbeats)
    engine.advance(at(900))
    assert [(verdict, node) for verdict, node, *_ in verdicts(engine)][-1] == (NODE_DEAD, "gpu-3")


@pytest.mark.parametrize("mark", [b'"message":"', b'"message": "'])
def test_half_a_surrogate_is_no_json_in_any_spelling(mark: bytes) -> None:
    assert a_scanner().scan(batch([b"{" + mark + b'lone \\ud800"}'])).dead == 1
