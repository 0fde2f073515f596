"""`epicenter run`, `page`, `demo` and `simulate`: the commands for one machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem

from epicenter.stream.cli.options import (
    CONFIG,
    DATA_DIR,
    EXIT_PROBLEMS,
    EXIT_USAGE,
    FULL,
    JOB,
    JSON,
    NODE,
    ONE_JSON,
    PATH,
    RULES,
    STORE,
    TIME_ZONE,
    TOPOLOGY,
    end_with,
    long_running_settings,
    stated_of,
    unpacked,
    writing,
)


class OneOf(click.ParamType):
    """One of the simulator's names, which are looked up when they are needed."""

    name = "kind"

    def __init__(self, meaning: str, names: Callable[[], list[str]]):
        self._meaning = meaning
        self._names = names

    def convert(self, value: str, param: click.Parameter | None, context: click.Context | None) -> str:
        """The name itself."""
        if value not in self._names():
            proposed = get_close_matches(value, self._names()) or self._names()
            self.fail(f"{value}: unknown {self._meaning}: write {', '.join(proposed)}", param, context)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin like this."""
        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]


def _faults() -> list[str]:
    from epicenter.ingest.simulate import KINDS

    return sorted(KINDS)


def _disturbances() -> list[str]:
    from epicenter.ingest.simulate import Disturbance

    return list(get_args(Disturbance))


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@JSON
@FULL
@RULES
@TOPOLOGY
@CONFIG
@click.option("--once", is_flag=True, help="Read to the end, then stop.")
@DATA_DIR
@STORE
@click.option("--page-port", type=int, help="Port of the local page. 0: any free port.")
@NODE
@JOB
@TIME_ZONE
def run(paths: tuple[str, ...], as_json: bool, is_full: bool, once: bool, node: str, job: str, **options: Any) -> None:
    """Follow files, folders or standard input (-). Without PATH, follow the journal or kernel log of this machine.

    Example: epicenter run /var/log/kern.log outputs/
    """
    from epicenter.stream.cli.one_machine import run_embedded

    settings = long_running_settings(**options)
    with unpacked(paths if once else ()) as (read, archives):
        stated = stated_of(settings, node, job, archives)
        end_with(run_embedded(settings, read if once else list(paths), stated, as_json, is_full, once))


@click.command()
@CONFIG
@STORE
@DATA_DIR
@click.option("--port", "page_port", type=click.IntRange(0, 65535), help="Port on the loopback. 0: any free port.")
def page(**options: Any) -> None:
    """Serve the page of a store that another process writes.

    Example: epicenter page --store http://clickhouse:8123/epicenter --port 8017
    """
    from epicenter.stream.local.page import serve_page

    serve_page(long_running_settings(**options))


@click.command()
@FULL
@CONFIG
@click.option("--kafka", "with_kafka", is_flag=True, hidden=True)
@click.option("--folder", type=PATH, help="Folder for the logs of the simulated cluster.")
@click.option("--nodes", type=click.IntRange(2, 512), default=32, show_default=True, help="Nodes of the cluster.")
@click.option(
    "--fault",
    type=OneOf("kind of fault", lambda: ["none", *_faults()]),
    default="gpu-off-bus",
    show_default=True,
    help="Kind of fault, or none.",
)
@click.option("--keep/--no-keep", default=None, help="Keep the page open until Ctrl-C. Default: only on a terminal.")
def demo(with_kafka: bool, config: Path | None, **options: Any) -> None:
    """Simulate a cluster with a fault and watch epicenter find it. Exits with 1 if it does not.

    Example: epicenter demo --fault host-oom
    """
    from epicenter.stream.cli.demo import run_demo

    if with_kafka:
        click.echo("epicenter: demo --kafka was removed; run `make cluster` in a clone of the repository", err=True)
        sys.exit(EXIT_USAGE)
    settings = long_running_settings(config=config)
    with writing(options["folder"] or "the folder for temporary files"):
        is_found = run_demo(settings, **options)
    if not is_found:
        sys.exit(EXIT_PROBLEMS)


@click.command()
@click.argument("folder", type=PATH)
@click.option("--nodes", type=click.IntRange(2, 2048), default=32, show_default=True, help="Nodes of the cluster.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="Concurrent jobs. Default: one for eight nodes, at most four."
)
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=40.0, show_default=True, help="Simulated minutes."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed. The same seed writes the same logs.")
@click.option(
    "--speed", type=click.FloatRange(0, min_open=True), help="Write at this many times real time. Default: at once."
)
@click.option(
    "--fault",
    "faults",
    type=OneOf("kind of fault", _faults),
    multiple=True,
    help="Kind of fault. Repeat it for several, at most one a job.",
)
@click.option(
    "--disturb",
    "disturbances",
    type=OneOf("disturbance", _disturbances),
    multiple=True,
    help="What messy clusters have in addition. Repeat it for several.",
)
@click.option("--healthy", is_flag=True, help="Simulate no fault. Default: one fault an hour, by published shares.")
@ONE_JSON
def simulate(
    folder: Path, faults: tuple[str, ...], healthy: bool, speed: float | None, as_json: bool, **options: Any
) -> None:
    """Write the logs of a simulated cluster. The ground truth is in truth.json.

    Example: epicenter simulate /tmp/cluster --nodes 64 --jobs 3 --fault host-oom
    """
    from epicenter.stream.cli.demo import scenario_of, write_simulation

    if healthy and faults:
        raise click.UsageError("--healthy and --fault exclude each other")
    with writing(folder):
        write_simulation(folder, scenario_of(**options, faults=faults, is_healthy=healthy), speed, as_json)
