"""The work of the commands on one machine: match, replay, run."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from epicenter.ingest.collect.source import Sources, read_to_the_end
from epicenter.ingest.provenance.stated import Stated
from epicenter.rules.liveness.verdict import Verdict
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.job_names import job_in_words
from epicenter.rules.model.ledger import DeadLetter
from epicenter.rules.model.records import DEFAULT_CLUSTER, Match
from epicenter.rules.model.signals import UNNAMED
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.report.known_times import with_known_times
from epicenter.sinks.text.humanize import count
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.text.incident import incident_line, incident_report
from epicenter.stream.cli.text.layout import print_hanging
from epicenter.stream.cli.text.summary import incident_summary
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, console, reading, safe, watched
from epicenter.stream.local.parts import processes_for, scan_in_parts
from epicenter.stream.local.pipeline import Pipeline, replay
from epicenter.stream.process.logs import print_message
from epicenter.stream.process.shutdown import run_until_signal, stop_on_signals
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from epicenter.stream.settings import Settings

MAX_SHOWN_NAMES = 3
MIN_REPORTED_SKEW_NS = NS_PER_S // 2
Document = TypeVar("Document")


def hostname() -> str:
    """This machine's short name, as its kernel log has it."""
    return socket.gethostname().partition(".")[0]


def match_files(settings: Settings, paths: list[str], stated: Stated, as_json: bool, keep_all: bool) -> list[str]:
    """Print every match of finished files; return what could not be read."""
    rules = load(settings.rule_packs, settings.topology)
    scanner = BatchScanner(
        rules, settings.cluster, keep_all=keep_all, redactor=redactor_of(settings), finds_liveness=False
    )
    records = matches = harmless = unnamed = 0
    dead_letters: list[DeadLetter] = []
    sources = Sources(paths, host="", follow=False, stated=stated)
    for scanned in _scanned(sources, scanner):
        records, harmless = records + scanned.records, harmless + scanned.harmless
        dead_letters += scanned.dead_letters
        for found in sorted(scanned.matches, key=lambda match: (match.event.position, match.rule)):
            if rules.of(found).spec.failure_class == UNNAMED and not keep_all:
                unnamed += 1
                continue
            matches += 1
            _print_match(rules, found, as_json)
    counted = f"{count(records, 'line')}, {matches} {'match' if matches == 1 else 'matches'}, {harmless} harmless"
    print_message(f"{counted}, {_dead_summary(dead_letters)}")
    if unnamed:
        print_message(f"{count(unnamed, 'line')} that no rule names may report failures: --all prints them")
    _tell_about(sources, settings)
    return sources.faults()


def _scanned(sources: Sources, scanner: BatchScanner) -> Iterator[ScanResult]:
    if processes := processes_for(sources):
        with reading(sources) as show:
            yield from scan_in_parts(sources, scanner, processes, show)
    else:
        yield from BlockBuffer(scanner).scan_all(watched(read_to_the_end(sources), sources))


def replay_files(settings: Settings, paths: list[str], stated: Stated, as_json: bool, is_full: bool) -> list[str]:
    """Print the final state of every incident in recorded input; return what could not be read."""
    rules, redactor = load(settings.rule_packs, settings.topology), redactor_of(settings)
    pipeline = Pipeline(rules, settings.cluster, settings.allowed_lateness_ns, redactor=redactor)
    sources = Sources(paths, host="", follow=False, stated=stated)
    with reading(sources) as on_batch:
        incidents = replay(pipeline, sources, on_batch)
    for number, incident in enumerate(incidents):
        if number and not as_json:
            click.echo()
        print_incident(incident, as_json, is_full)
    for verdict in pipeline.verdicts():
        print_message(_verdict_line(verdict))
    for node, skew_ns in pipeline.skews_ns().items():
        if abs(skew_ns) >= MIN_REPORTED_SKEW_NS:
            way = "ahead of" if skew_ns > 0 else "behind"
            print_message(
                f"the clock of {safe(node)} is {abs(skew_ns) / NS_PER_S:.1f} s {way} the other nodes of its jobs"
            )
    dead = f", {count(pipeline.dead, 'dead letter')}: see epicenter match" if pipeline.dead else ""
    print_message(count(len(incidents), "incident") + dead)
    _tell_about(sources, settings)
    return sources.faults()


def _tell_about(sources: Sources, settings: Settings) -> None:
    """Print which files were left out, and what the others show of their zones and clusters."""
    if names := [safe(file.name) for file in sources.left_out()]:
        shown = ", ".join(names[:MAX_SHOWN_NAMES]) + ", …" * (len(names) > MAX_SHOWN_NAMES)
        print_message(f"{count(len(names), 'file')} left out, no log by name or first lines: {shown}")
    for zone, files in sorted(sources.shown_zones().items()):
        print_message(f"{count(files, 'file')} with times of {zone}, as the logs show")
    if clusters := sources.clusters_in_folders:
        are_apart = settings.cluster == DEFAULT_CLUSTER
        so = (
            "so each counts as a cluster"
            if are_apart
            else f"but all are of the cluster {safe(settings.cluster)}, as set"
        )
        print_message(f"folders {', '.join(map(safe, clusters))}: different machines of the same names, {so}")


def _verdict_line(verdict: Verdict) -> str:
    who = [job_in_words(verdict.job), verdict.node, f"rank {verdict.rank}" * (verdict.rank is not None)]
    place = ", ".join(filter(None, who))
    return f"{iso_from_ns(verdict.time_ns)}  {verdict.verdict}  {safe(f'{place}: {verdict.text}')}"


def run_embedded(
    settings: Settings, paths: list[str], stated: Stated, as_json: bool, is_full: bool, once: bool
) -> list[str]:
    """Follow sources, or read them once, into the embedded store; return what could not be read then."""
    from epicenter.sinks.clickhouse.dsn import address_of
    from epicenter.stream.local.runner import LocalRunner
    from epicenter.stream.local.saved_state import StateFile
    from epicenter.stream.rule_tools.trial import proven

    rules = proven(settings.rule_packs, settings.topology)
    state = None if once or "-" in paths else StateFile(settings, paths, print_message)
    sources = Sources(paths, hostname(), not once, stated, state.positions if state else {})
    if not (once or sources.all()):
        print_message(f"no log in {', '.join(paths)} yet: waiting for one")
    reader = LocalRunner(settings, rules, sources, Announcer(as_json, is_full), print_message, state=state)
    if once:
        with reading(sources) as reader.on_batch:
            run_until_signal(reader.once())
    else:
        asyncio.run(_until_stopped(reader))
    read = f"{count(reader.records, 'line')} read, {count(reader.dead, 'dead letter')}"
    print_message(f"{read}; store: {address_of(settings.store_dsn)}")
    if once:
        _tell_about(sources, settings)
    return sources.faults() if once else []


async def _until_stopped(reader: Any) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    await reader.follow(stop)


def _print_match(rules: RuleSet, found: Match, as_json: bool) -> None:
    event, spec = found.event, rules.spec_of(found)
    row = {
        "file": event.position.source,
        "line": event.position.offset,
        "rule": spec.id,
        "class": spec.failure_class,
        "severity": spec.severity,
        "role": spec.role,
        "source": event.source or spec.source,
        "fields": found.fields,
        "text": event.text,
    }
    if found.block:
        row["block"] = found.block
    print_document(row, as_json, lambda match: console().print(_match_line(match)))


def _match_line(row: dict[str, Any]) -> str:
    severity = row["severity"]
    place = f"{safe(row['file'])}:{row['line']}"
    return f"{place}  [{SEVERITY_STYLES[severity]}]{severity}[/]  {row['class']}  [dim]{safe(row['text'])}[/]"


def print_incident(incident: Incident, as_json: bool, is_full: bool = False, more: str = "--full") -> None:
    """Print an incident on one screen, which names what shows `more`, or in full."""
    incident = with_known_times(incident)
    lines = incident_report(incident) if is_full else incident_summary(incident, more)
    print_document(incident, as_json, lambda _: print_hanging(console(), lines))


class Announcer:
    """Prints each incident when it opens, on one screen or in full, and a line for each change."""

    def __init__(self, as_json: bool, is_full: bool = False, only_lines: bool = False):
        self._as_json = as_json
        self._is_full = is_full
        self._only_lines = only_lines
        self.newest: dict[str, Incident] = {}

    def __call__(self, incident: Incident) -> None:
        """Print one change."""
        is_new = incident.incident_id not in self.newest
        self.newest[incident.incident_id] = incident
        if self._as_json or (is_new and not self._only_lines):
            print_incident(incident, self._as_json, self._is_full, more_of(incident))
        else:
            change = "opened" if is_new else "resolved" if incident.status == "resolved" else "updated"
            console().print(f"{change:<8}  {incident_line(incident)}")


def more_of(incident: Incident) -> str:
    """The command that shows a stored incident in full."""
    return f"epicenter incidents show {incident.incident_id} --full"


def print_document(document: Document, as_json: bool, show: Callable[[Document], None]) -> None:
    """Print a document as a line of JSON, or for people."""
    if as_json:
        click.echo(sanitized_json(document))
    else:
        show(document)


def _dead_summary(dead_letters: Sequence[DeadLetter]) -> str:
    if not dead_letters:
        return "no dead letters"
    first = dead_letters[0]
    place = f"{first.position.source}:{first.position.offset}"
    return f"{count(len(dead_letters), 'dead letter')} (first: {place}: {first.reason})"
