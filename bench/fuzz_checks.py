"""What must hold for any records: each is counted once, batch borders change nothing, output is sanitized."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from html.parser import HTMLParser
from random import Random
from typing import Any, Final

import msgspec
from rich.console import Console

from epicenter.ingest.batch.batch import Batch
from epicenter.rules.engine import Engine
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.rules.match.reference import ReferenceScanner
from epicenter.rules.model.flat_heartbeats import flattened
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import Match
from epicenter.sinks.page import incident_html, incidents_html
from epicenter.stream.cli.text.incident import incident_report
from epicenter.stream.cli.text.layout import Line, print_hanging
from epicenter.stream.cli.text.summary import incident_summary
from epicenter.stream.cli.text.terminal import safe
from epicenter.stream.kafka.messages import Part, decode, encode_in_pieces
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.prefilter import MARKS
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import the_rules

REFERENCE_RECORDS: Final = 40
REFERENCE_BYTES: Final = 2_000
SAFE_TAG: Final = re.compile(
    "html|head|meta|title|link|body|header|footer|main|nav|article|section|figure|figcaption|details|summary|a|h[123]|p|span"
    "|b|i|small|code|kbd|time|div|table|thead|tbody|tr|t[hd]|[uo]l|li|d[ltd]|pre|form|label|input|select|option|datalist"
    "|textarea|button|dialog|svg|g|defs|marker|path|rect|circle|text|desc|script|noscript"
)


class BrokenError(Exception):
    """An invariant that does not hold, in words."""


class Cores:
    """The scanners of one process; compiled once."""

    @cached_property
    def of_this_process(self) -> BatchScanner:
        """The scanner of the whole process, as in a worker."""
        return self.fresh()

    def fresh(self) -> BatchScanner:
        """A new scanner."""
        return BatchScanner(the_rules(), "default", self._compiled)

    @cached_property
    def plain(self) -> ReferenceScanner:
        """Finds candidates by `re` alone."""
        return ReferenceScanner(the_rules().expressions)

    @cached_property
    def _compiled(self) -> HyperscanScanner:
        return HyperscanScanner(the_rules().expressions, MARKS)


def scan_in_pieces(scanner: BatchScanner, batch: Batch, draw: Random) -> ScanResult:
    """The result of the batch, cut at random places; its counts are checked."""
    holding, done = BlockBuffer(scanner), 0
    found: list[ScanResult] = []
    while done < len(batch):
        size = draw.randint(1, len(batch) - done) if draw.random() < 0.5 else len(batch) - done
        columns = (batch.values, batch.keys, batch.received_ns, batch.offsets)
        values, keys, received_ns, offsets = (column[done : done + size] for column in columns)
        found.append(holding.scan(replace(batch, values=values, keys=keys, received_ns=received_ns, offsets=offsets)))
        done += size
    found += [scanned for _, scanned in holding.rest()]
    whole = _together(found)
    _check_counts(batch, whole)
    return whole


def _together(found: Iterable[ScanResult]) -> ScanResult:
    whole = ScanResult()
    for part in found:
        whole.records += part.records
        whole.matched += part.matched
        whole.dead += part.dead
        whole.matches += part.matches
        whole.observed += part.observed
        whole.heartbeats += part.heartbeats
        whole.rank_placements += part.rank_placements
        whole.dead_letters += part.dead_letters
    return whole


def _check_counts(batch: Batch, scanned: ScanResult) -> None:
    offsets = [dead_letter.position.offset for dead_letter in scanned.dead_letters]
    positions = {match.event.position.offset for match in scanned.matches}
    _expect(scanned.records == len(batch), f"{scanned.records} of {len(batch)} records")
    _expect(scanned.quiet >= 0, f"{scanned.quiet} quiet records")
    _expect(len(set(offsets)) == len(offsets) == scanned.dead, f"{scanned.dead} dead, offsets {offsets[:9]}")
    _expect(set(offsets) <= set(batch.offsets) >= positions, "a position that is not in the batch")


def check_other_cut(cores: Cores, batch: Batch, draw: Random) -> None:
    """Two new scanners find the same at different cuts, and the results survive the way over Kafka.

    Times of a file may differ: its pieces always begin at the same places. So may, in a stream, those of lines that
    state none.
    """
    first, second = (scan_in_pieces(cores.fresh(), batch, draw) for _ in range(2))
    _expect(_results(first) == _results(second), "another cut changes the result")
    stated = [ids_and_stated_times(scanned.matches) for scanned in (first, second)]
    _expect(batch.is_recorded or stated[0] == stated[1], "another cut changes ids or stated times")
    part = Part(
        batch.source, 1, 0, tuple(first.matches), tuple(map(flattened, first.heartbeats)), tuple(first.rank_placements)
    )
    sent = [decode(value) for value in encode_in_pieces([part])]
    _expect(
        [match for found in sent for part in found.parts for match in part.matches] == first.matches, "lost on Kafka"
    )  # type: ignore[union-attr]
    dead_letters = [
        msgspec.json.decode(msgspec.json.encode(dead_letter), type=DeadLetter) for dead_letter in first.dead_letters
    ]
    _expect(dead_letters == first.dead_letters, "dead letters lost on Kafka")


def _results(scanned: ScanResult) -> tuple[list[tuple[Any, ...]], list[DeadLetter], int, int]:
    matches = [(match.rule, match.event.position, match.fields, match.block) for match in scanned.matches]
    return matches, scanned.dead_letters, scanned.matched, scanned.dead


def ids_and_stated_times(matches: Iterable[Match]) -> list[tuple[str, int]]:
    """What no cut of a stream changes: the id of each match, and its time if its line states one."""
    events = ((match.match_id, match.event) for match in matches)
    return [(match_id, event.event_time_ns if event.has_own_time else 0) for match_id, event in events]


def check_reference(cores: Cores, batch: Batch, draw: Random) -> None:
    """Hyperscan, which also finds the marks, and `re` find the same in a few short records."""
    short = [number for number, value in enumerate(batch.values) if len(value) <= REFERENCE_BYTES][:REFERENCE_RECORDS]
    values, keys = [batch.values[number] for number in short], [batch.keys[number] for number in short]
    some = Batch(batch.source, values, keys, [batch.received_ns[number] for number in short], range(len(short)))
    plain = BatchScanner(the_rules(), "default", cores.plain)
    _expect(cores.fresh().scan(some) == plain.scan(some), "Hyperscan and `re` differ")


def check_borders(cores: Cores, batch: Batch, draw: Random) -> None:
    """Results are safe to show: no control character on a terminal, no markup of a log in a page."""
    scanned = cores.fresh().scan(batch)
    engine = Engine(the_rules())
    engine.add(scanned.matches, scanned.heartbeats, scanned.rank_placements)
    incidents = list(engine.flush())
    for match in draw.sample(scanned.matches, min(20, len(scanned.matches))):
        _check_sanitized(_on_a_terminal([Line("", safe(match.event.text))]))
    for incident in incidents[:5]:
        _check_sanitized(_on_a_terminal(incident_report(incident)))
        _check_sanitized(_on_a_terminal(incident_summary(incident)))
        _check_page(incident_html(incident))
    _check_page(incidents_html(incidents[:50]))


def _on_a_terminal(lines: Iterable[Line]) -> str:
    shown = io.StringIO()
    print_hanging(Console(file=shown, force_terminal=False, highlight=False, emoji=False, soft_wrap=True), lines)
    return shown.getvalue()


def _check_sanitized(shown: str) -> None:
    suspicious = [character for character in shown if not character.isprintable() and character != "\n"]
    _expect(not suspicious, f"not sanitized: {suspicious[:5]!r}")


class _Tags(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        _expect(SAFE_TAG.fullmatch(tag) is not None, f"tag {tag!r} in a page")
        _expect(not any(name.startswith("on") for name, _ in attrs), f"handler in a page: {attrs}")
        if tag == "script":
            _expect((dict(attrs).get("src") or "").startswith("/static/"), f"script in a page: {attrs}")
        links = [value or "" for name, value in attrs if name == "href"]
        _expect(all(link.startswith(("/", "#")) for link in links), f"link in a page: {links}")


def _check_page(html: str) -> None:
    _check_sanitized(html)
    _Tags().feed(html)


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenError(what)
