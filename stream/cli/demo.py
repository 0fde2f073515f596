"""`epicenter demo` and `epicenter simulate`: a simulated cluster with a fault, which epicenter finds."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import sleep, time_ns
from typing import Final

import click
from msgspec.structs import replace
from pydantic import SecretStr

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import (
    KINDS,
    Disturbance,
    Framework,
    Scenario,
    TrueFault,
    mixed,
    truth_of,
    write_all,
    write_paced,
)
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S, iso_ns
from epicenter.rules.packs.load import load
from epicenter.sinks.text.humanize import count, where
from epicenter.sinks.text.sanitize import sanitized_json
from epicenter.stream.cli.demo_history import write_history
from epicenter.stream.cli.one_machine import Announcer, hostname, print_incident
from epicenter.stream.local.runner import LocalRunner
from epicenter.stream.process.logs import print_message
from epicenter.stream.process.shutdown import EXIT_INTERRUPTED, stop_on_signals
from epicenter.stream.settings import Settings

SPEED: Final = 60.0
SPARE_NS: Final = 30 * NS_PER_S
"""The simulated time ends this long before the start, so that it never runs ahead of the clock."""
PATIENT: Final = ("hang", "straggler", "shipper-silent")
"""Faults that only missing or slow steps show: their job runs longer before and after."""
NODES_FOR_TWO_JOBS: Final = 16
ALLOWED_LATENESS_NS: Final = 60 * NS_PER_S
"""One real second at this speed: the files are written and read by two threads."""


def write_simulation(folder: Path, scenario: Scenario, speed: float | None, as_json: bool) -> None:
    """Write a simulated cluster's logs at once, or at `speed` times real time; as JSON, print the ground truth."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError([f"{folder}: not empty: name a new or an empty folder"])
    truth = write_paced(scenario, folder, speed, sleep) if speed else write_all(scenario, folder)
    if as_json:
        click.echo(sanitized_json(truth))
        return
    faults = "; ".join(f"{fault.fault} {_where(fault)}" for fault in truth.faults) or "no fault"
    print_message(
        f"{folder}: {count(truth.nodes, 'node')}, {count(len(truth.jobs), 'job')}, {faults}; ground truth in truth.json"
    )


def _where(fault: TrueFault) -> str:
    return f"on {fault.node}" if fault.node else f"in job {', '.join(fault.jobs)}"


def scenario_of(
    nodes: int,
    jobs: int | None,
    minutes: float,
    seed: int,
    faults: tuple[str, ...],
    disturbances: tuple[Disturbance, ...],
    is_healthy: bool,
) -> Scenario:
    """The scenario for a command line. Default faults: a mix, one an hour, at least one.

    Default jobs: one for eight nodes, at most four, and at least one for each fault.
    """
    wanted = faults or (() if is_healthy else mixed(seed, max(1, round(minutes / 60))))
    count = jobs if jobs is not None else max(1, min(4, nodes // 8), len(wanted))
    return Scenario(nodes=nodes, jobs=count, minutes=minutes, seed=seed, faults=wanted, disturbances=disturbances)


def demo_scenario(nodes: int, fault: str, now_ns: int) -> Scenario:
    """A job that fails after two minutes, and one that keeps running; long enough for the consequences to show."""
    frameworks: tuple[Framework, ...] = ("megatron", "maxtext", "hf")
    if fault != "none" and fault not in KINDS:
        raise ConfigError([f"--fault: {fault}: unknown: write none, {', '.join(sorted(KINDS))}"])
    fitting = tuple(name for name in frameworks if fault == "none" or name in KINDS[fault].frameworks)
    scenario = Scenario(
        nodes=nodes,
        jobs=2 if nodes >= NODES_FOR_TWO_JOBS else 1,
        faults=() if fault == "none" else (fault,),
        frameworks=fitting[:1],
        minutes=4 if fault == "none" else 0.1,
        step_time_s=2.0,
        fault_at_s=120.0,
        after_fault_s=50.0,
        is_tidy=True,
    )
    if fault in PATIENT:
        scenario = replace(scenario, minutes=30, step_time_s=None, fault_at_s=None, after_fault_s=None)
    truth = truth_of(scenario)
    return replace(scenario, start_ns=now_ns - SPARE_NS - (iso_ns(truth.end) - iso_ns(truth.start)))


def run_demo(settings: Settings, folder: Path | None, nodes: int, fault: str, keep: bool | None, is_full: bool) -> bool:
    """Write the logs at 60 times real time while following them; whether what is found at the end is the truth.

    The page stays open until Ctrl-C if `keep` is true, by default on a terminal.

    Raises:
        KeyboardInterrupt: a signal came before the end.
    """
    scenario = demo_scenario(nodes, fault, time_ns())
    with ExitStack() as stack:
        base = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epicenter-demo-")))
        logs = base / "logs"
        if logs.exists():
            raise ConfigError([f"{logs}: already exists: give --folder a new folder"])
        logs.mkdir(parents=True)
        length_s = (time_ns() - scenario.start_ns - SPARE_NS) / NS_PER_S
        print_message(f"{nodes} nodes write to {logs}; {length_s / 60:.0f} minutes take {length_s / SPEED:.0f} seconds")
        inside = settings.model_copy(
            update={"data_dir": base / "data", "store": SecretStr(""), "allowed_lateness_ns": ALLOWED_LATENESS_NS}
        )
        write = partial(write_paced, scenario, logs / "now", SPEED)
        stays = keep if keep is not None else sys.stdin.isatty() and sys.stderr.isatty()
        demo = _Demo(inside, logs, scenario, is_full)
        asyncio.run(demo.watch(write, stays))
        if demo.is_right is None:
            raise KeyboardInterrupt
        return demo.is_right


class _GaveUpError(Exception):
    """A signal came: nothing more is written."""


class _Demo:
    """The cluster writes, the run follows; then the page stays open if wanted."""

    def __init__(self, settings: Settings, logs: Path, scenario: Scenario, is_full: bool):
        self.is_right: bool | None = None
        self._is_full = is_full
        self._settings = settings
        self._logs = logs
        self._scenario = scenario
        self._has_written = asyncio.Event()
        self._is_over = asyncio.Event()
        self._gives_up = threading.Event()
        self._announcer = Announcer(as_json=False, only_lines=True)

    async def watch(self, write: Callable[..., object], stays: bool) -> None:
        loop = asyncio.get_running_loop()
        stop_on_signals(self._stop, EXIT_INTERRUPTED)
        node = next((fault.node for fault in truth_of(self._scenario).faults), "")
        await asyncio.to_thread(write_history, self._logs / "before", self._scenario.start_ns, node)
        writer = threading.Thread(target=self._write, args=(write, loop), name="cluster")
        rules = load(self._settings.rule_packs, self._settings.topology)
        sources = Sources([str(self._logs)], hostname(), follow=True)

        def begin(url: str) -> None:
            _open_browser(url)
            writer.start()

        run = LocalRunner(self._settings, rules, sources, self._show, print_message, begin)
        try:
            await run.follow(self._has_written, partial(self._end, stays), to_the_end=True)
        finally:
            self._gives_up.set()
            if writer.ident:
                await asyncio.to_thread(writer.join)

    def _write(self, write: Callable[..., object], loop: asyncio.AbstractEventLoop) -> None:
        with suppress(_GaveUpError):
            write(wait=self._wait)
        loop.call_soon_threadsafe(self._has_written.set)

    def _wait(self, length_s: float) -> None:
        if self._gives_up.wait(length_s):
            raise _GaveUpError

    async def _end(self, stays: bool) -> None:
        if not self._gives_up.is_set():
            incidents = [incident for incident in self._announcer.newest.values() if not incident.merged_into]
            self.is_right = compare(incidents, self._scenario, self._is_full)
        if stays and not self._is_over.is_set():
            print_message("all logs are written; the page stays open until Ctrl-C")
            await self._is_over.wait()

    def _stop(self) -> None:
        self._gives_up.set()
        self._has_written.set()
        self._is_over.set()

    def _show(self, incident: Incident) -> None:
        """Print a new incident; those of the past are only on the page."""
        if iso_ns(incident.first_seen) >= self._scenario.start_ns:
            self._announcer(incident)


def _open_browser(url: str) -> None:
    """Open the page in a browser if there is a screen."""
    has_screen = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if has_screen and sys.stderr.isatty():
        webbrowser.open(url)


def compare(incidents: list[Incident], scenario: Scenario, is_full: bool) -> bool:
    """Print the truth and what was found; whether they agree."""
    for incident in incidents:
        print_incident(incident, as_json=False, is_full=is_full, more="demo --full")
        click.echo()
    fault = next(iter(truth_of(scenario).faults), None)
    if fault is None or not fault.incident:
        what = f"{fault.verdict}, which needs no incident" if fault else "a healthy job"
        print_message(f"truth: {what}")
        print_message("found: no incident" if not incidents else f"WRONG: {count(len(incidents), 'incident')}")
        return not incidents
    truth = f"{fault.failure_class}{where(fault.node)}"
    print_message(f"truth: {truth}")
    for incident in incidents:
        reach = f"{count(incident.signal_count, 'signal')}, {count(len(incident.nodes), 'node')}"
        label = "found" if is_about(incident, fault) else "also"
        print_message(f"{label}: {incident.root_cause.failure_class}{where(incident.root_cause.node)}, {reach}")
    is_found = any(is_about(incident, fault) for incident in incidents)
    if not is_found:
        print_message(f"NOT FOUND: {truth}")
    return is_found


def is_about(incident: Incident, fault: TrueFault) -> bool:
    """Whether the incident names the fault by one of its classes, and no other node than its own."""
    root = incident.root_cause
    return fault.is_of(root.failure_class) and fault.is_at(root.node)
