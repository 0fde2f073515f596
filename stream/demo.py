"""`epicenter demo` and `epicenter simulate`: a simulated cluster with a fault, and the program at work on it."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import sleep, time_ns
from typing import Final

from ingest.collect.source import Sources
from ingest.simulate import KINDS, Framework, Scenario, TrueFault, mixed, write_all, write_paced
from rules.errors import ConfigError
from rules.load import load
from rules.model import NS_PER_S, Incident
from stream.commands import Announcer, hostname, print_incident, say
from stream.embedded import EmbeddedRun
from stream.settings import Settings

SPEED: Final = 60.0
SIMULATED_NS: Final = 800 * NS_PER_S
"""The simulated time begins so long ago that it never runs ahead of the clock."""
LATENESS_NS: Final = 60 * NS_PER_S
"""One real second at this speed: the files are written and read by two threads."""


def write_simulation(folder: Path, scenario: Scenario, speed: float | None) -> None:
    """Write a simulated cluster's logs at once, or at `speed` times real time."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError([f"{folder}: not empty: give a new or an empty folder"])
    truth = write_paced(scenario, folder, speed, sleep) if speed else write_all(scenario, folder)
    faults = "; ".join(f"{one.fault} {_where(one)}" for one in truth.faults) or "no fault"
    say(f"{folder}: {truth.nodes} nodes, {len(truth.jobs)} jobs, {faults}; ground truth in truth.json")


def _where(fault: TrueFault) -> str:
    return f"on {fault.node}" if fault.node else f"in job {', '.join(fault.jobs)}"


def scenario_of(
    nodes: int, jobs: int | None, minutes: float, seed: int, faults: tuple[str, ...], is_healthy: bool
) -> Scenario:
    """A scenario as the command line asks for it: without faults a mix, one an hour and one at least.

    Without a number of jobs there is one for eight nodes, up to four, and no fewer than faults.
    """
    wanted = faults or (() if is_healthy else mixed(seed, max(1, round(minutes / 60))))
    count = jobs if jobs is not None else max(1, min(4, nodes // 8), len(wanted))
    return Scenario(nodes=nodes, jobs=count, minutes=minutes, seed=seed, faults=wanted)


def demo_scenario(nodes: int, fault: str, start_ns: int) -> Scenario:
    """A small job that fails after two minutes, and only as much of what follows as there is to see."""
    frameworks: tuple[Framework, ...] = ("megatron", "maxtext", "hf")
    if fault != "none" and fault not in KINDS:
        raise ConfigError([f"--fault: {fault}: not known; there are none, {', '.join(sorted(KINDS))}"])
    fitting = tuple(one for one in frameworks if fault == "none" or one in KINDS[fault].frameworks)
    return Scenario(
        nodes=nodes,
        faults=() if fault == "none" else (fault,),
        frameworks=fitting[:1],
        minutes=4 if fault == "none" else 0.1,
        start_ns=start_ns,
        step_time_s=2.0,
        fault_at_s=120.0,
        after_fault_s=50.0,
        is_tidy=True,
    )


def run_demo(settings: Settings, folder: Path | None, nodes: int, fault: str, with_kafka: bool, keep: bool) -> None:
    """Write the logs at 60 times real time and follow them meanwhile; compare with the truth at the end."""
    scenario = demo_scenario(nodes, fault, time_ns() - SIMULATED_NS)
    with ExitStack() as stack:
        base = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epicenter-demo-")))
        logs = base / "logs"
        if logs.exists():
            raise ConfigError([f"{logs}: is there already: give --folder a new folder"])
        logs.mkdir(parents=True)
        say(f"{nodes} nodes write to {logs}; ten minutes take {600 / SPEED:.0f} seconds")
        inside = settings.model_copy(update={"data_dir": base / "data", "store": "", "lateness_ns": LATENESS_NS})
        if with_kafka:
            from stream.demo_kafka import follow_through_kafka

            found = follow_through_kafka(inside, logs, partial(write_paced, scenario, logs, SPEED))
        else:
            found = asyncio.run(_follow(inside, logs, partial(write_paced, scenario, logs, SPEED), keep))
        _compare(found, logs / "truth.json")


async def _follow(settings: Settings, logs: Path, write: Callable[..., object], keep: bool) -> dict[str, Incident]:
    done, stop = threading.Event(), asyncio.Event()
    announcer = Announcer(as_json=False, in_full=False)

    def write_then_stop() -> None:
        write(wait=partial(_wait, done))
        if not keep and not done.is_set():
            loop.call_soon_threadsafe(stop.set)

    loop = asyncio.get_running_loop()
    sources = Sources([str(logs)], hostname(), follow=True)
    run = EmbeddedRun(settings, load(settings.rule_packs, settings.topology), sources, announcer, say)
    writer = threading.Thread(target=write_then_stop, name="cluster")
    writer.start()
    try:
        await run.follow(stop)
    finally:
        done.set()
        writer.join()
    return announcer.newest


def _wait(done: threading.Event, length_s: float) -> None:
    done.wait(length_s)


def _compare(found: dict[str, Incident], truth_file: Path) -> None:
    truth = json.loads(truth_file.read_text())
    fault = next(iter(truth["faults"]), None)
    incidents = [incident for incident in found.values() if not incident.merged_into]
    if fault is None:
        say(f"truth: a healthy job; found {len(incidents)} incidents")
        return
    say(f"truth: {fault['class'] or fault['verdict']} on {fault['node'] or 'no node'}")
    for incident in incidents:
        print_incident(incident, as_json=False)
        cause = incident.root_cause
        reach = f"{incident.signal_count} signals, {len(incident.nodes)} nodes"
        say(f"found: {cause.failure_class} on {cause.node}, {reach}")
