"""`make cluster`: Kafka, a store, a worker, the page, Prometheus and Alertmanager under a live load, until Ctrl-C."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from time import sleep
from types import FrameType
from typing import Final

import click

from deploy.dev.broker import REPOSITORY, dev_broker
from deploy.dev.clickhouse import DevClickHouse
from deploy.dev.monitoring import ALERTS, READY, Monitor, find_alertmanager, find_prometheus
from deploy.dev.process import EPICENTER, ChildServer, answers, port_or_free
from epicenter.rules.errors import ConfigError, PipelineError
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.dsn import address_of
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.stream.kafka.topics import make_topics
from epicenter.stream.load_settings import load_settings
from epicenter.stream.process.logs import print_message
from epicenter.stream.settings import Settings

STOP_WITHIN_S: Final = 9.0


class DevCluster:
    """Starts its servers one after the other, each in a separate folder below `base`; `stack` stops them."""

    def __init__(self, base: Path, stack: ExitStack):
        self._base = base
        self._stack = stack
        self._servers: list[ChildServer] = []
        self.table: list[tuple[str, str]] = []

    def start(self, store: str | None, nodes: int, speed: float) -> dict[str, object]:
        """Start everything; no load at speed 0. Returns the settings with which other commands reach it."""
        store_address = address_of(store) if store else ""
        print_message("starting Kafka …")
        broker = self._stack.enter_context(dev_broker(self._base / "kafka"))
        if isinstance(broker, ChildServer):
            self._note(broker, "Kafka", broker.bootstrap)
        else:
            self.table.append(("Kafka", f"{broker.bootstrap} ({broker.how})"))
        settings = load_settings(kafka=broker.bootstrap, store=store or self._own_store(), data_dir=self._base / "data")
        if store_address:
            self.table.append(("ClickHouse", f"{store_address} (external)"))
        make_topics(settings)
        with closing(connect(settings.store_dsn)) as client:
            migrate(client)
        self._epicenter(settings)
        if speed:
            options = ["--kafka", settings.kafka, "--topic", settings.raw_topic, "--nodes", nodes, "--speed", speed]
            command = [sys.executable, "-m", "deploy.dev.load", str(self._base / "logs"), *map(str, options)]
            self._run("load", f"{nodes} nodes write to {self._base}/logs; one fails every few minutes", command)
        reach = {"KAFKA": settings.kafka, "DATA_DIR": settings.data_dir}
        return reach if store else reach | {"STORE": settings.store_dsn}

    def watch(self) -> None:
        """Restart servers that end, until interrupted.

        Raises:
            TransientError: a server can't be restarted.
        """
        while True:
            for server in self._servers:
                if server.has_ended:
                    server.start()
                    print_message(f"{server.name} ended and was restarted, process {server.pid}")
            sleep(0.2)

    def kill(self) -> None:
        """Kill the servers that did not stop."""
        for server in self._servers:
            server.kill()

    def _own_store(self) -> str:
        server = DevClickHouse(self._base / "store")
        self._start(server, "ClickHouse", f"{server.dsn} (embedded engine)")
        return server.dsn

    def _epicenter(self, settings: Settings) -> None:
        alertmanager = find_alertmanager(self._base)
        self._monitor("Alertmanager", alertmanager)
        alerts_to = alertmanager.where if alertmanager.command else ""
        worker, page = port_or_free(settings.web_port), port_or_free(settings.page_port)
        environment = {"KAFKA": settings.kafka, "STORE": settings.store_dsn, "DATA_DIR": str(settings.data_dir)}
        environment |= {"WEB_PORT": str(worker), "PAGE_PORT": str(page)}
        environment |= {"ALERTS": str(ALERTS)} if alerts_to and not settings.alerts else {}
        env = {f"EPICENTER_{name}": value for name, value in environment.items()} | {"ALERTMANAGER_URL": alerts_to}
        self._run("worker", f"http://127.0.0.1:{worker}", [*EPICENTER, "worker"], "/healthz", env)
        self._run("page", f"http://127.0.0.1:{page}", [*EPICENTER, "page"], "/healthz", env)
        prometheus = find_prometheus(self._base, f"127.0.0.1:{worker}", alerts_to.removeprefix("http://"))
        self._monitor("Prometheus", prometheus)

    def _monitor(self, name: str, monitor: Monitor) -> None:
        if monitor.command:
            self._run(name, monitor.where, monitor.command, READY)
        else:
            self.table.append((name, monitor.where))

    def _run(
        self, name: str, where: str, command: list[str], ready: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        """`ready` is the path that answers 200 once the server is ready; without one, it is ready at once."""
        folder = self._base / name.lower()
        folder.mkdir()
        is_ready = (lambda: answers(where + ready)) if ready else (lambda: True)
        self._start(
            ChildServer(name, command, folder, REPOSITORY, is_ready, {**os.environ, **(env or {})}), name, where
        )

    def _start(self, server: ChildServer, name: str, where: str) -> None:
        print_message(f"starting {name} …")
        self._stack.callback(server.stop)
        server.start()
        self._note(server, name, where)

    def _note(self, server: ChildServer, name: str, where: str) -> None:
        self._servers.append(server)
        self.table.append((name, f"{where}, process {server.pid}"))


@click.command()
@click.option("--store", help="DSN of a ClickHouse server; Default: an embedded engine.")
@click.option("--load/--no-load", default=True, show_default=True, help="Simulate a cluster that writes logs.")
@click.option("--nodes", type=click.IntRange(4, 512), default=16, show_default=True, help="Of the simulated cluster.")
@click.option(
    "--speed", type=click.FloatRange(1), default=1.0, show_default=True, help="Until the first failure is over."
)
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="New folder for all data and logs.")
def main(store: str | None, load: bool, nodes: int, speed: float, keep: Path | None) -> None:
    """Run a whole installation on this machine until Ctrl-C. Without --keep, its data is deleted at the end.

    Example: python -m deploy.dev.cluster --nodes 32 --keep /tmp/cluster
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    with ExitStack() as stack:
        base = _empty(keep) if keep else Path(stack.enter_context(TemporaryDirectory(prefix="epicenter-cluster-")))
        cluster = DevCluster(base, stack)
        last_resort = Timer(STOP_WITHIN_S, cluster.kill)
        stack.callback(last_resort.cancel)
        try:
            reach = cluster.start(store, nodes, speed if load else 0)
            _print_addresses(cluster.table, reach)
            cluster.watch()
        except KeyboardInterrupt:
            print_message("stopping …")
        finally:
            last_resort.start()


def _empty(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError([f"--keep {folder}: not empty: give a new or an empty folder"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([f"--keep {folder}: {error.strerror}: give another folder"]) from error
    return folder.absolute()


def _print_addresses(table: list[tuple[str, str]], reach: dict[str, object]) -> None:
    """Print the addresses for people, and the settings of other commands for a shell to `eval`."""
    for name, where in table:
        print_message(f"  {name:<13} {where}")
    print_message("Ctrl-C stops everything")
    for name, value in reach.items():
        click.echo(f"export EPICENTER_{name}={shlex.quote(str(value))}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except PipelineError as error:
        sys.exit(f"epicenter: {error}")
