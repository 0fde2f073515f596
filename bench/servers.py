"""A broker, a store and the environment of a worker that uses them, for benches of the whole path."""

from __future__ import annotations

import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from deploy.dev.broker import dev_broker
from deploy.dev.clickhouse import dev_clickhouse
from deploy.dev.process import EPICENTER, free_ports


def counted(web_port: int) -> dict[str, float]:
    """The metrics of the worker at this port, summed over labels; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    found: dict[str, float] = {}
    for line in (line for line in lines if line[:1] != "#"):
        name, _, value = line.rpartition(" ")
        found[name.partition("{")[0]] = found.get(name.partition("{")[0], 0.0) + float(value)
    return found


class Servers(NamedTuple):
    """The addresses; `env` has the worker's settings for them."""

    bootstrap: str
    store: str
    folder: Path
    prefix: str
    web_port: int

    @property
    def raw_topic(self) -> str:
        """The topic of the lines."""
        return f"{self.prefix}.raw"

    @property
    def env(self) -> dict[str, str]:
        """The environment of our commands."""
        given = {"KAFKA": self.bootstrap, "STORE": self.store, "DATA_DIR": f"{self.folder}/data", "PREFIX": self.prefix,
                 "RAW_TOPIC": self.raw_topic, "WEB_PORT": str(self.web_port)}  # fmt: skip
        return {**os.environ, **{f"EPICENTER_{name}": value for name, value in given.items()}}

    def counted(self) -> dict[str, float]:
        """The metrics of the worker."""
        return counted(self.web_port)

    def prepare(self) -> None:
        """Make topics and tables."""
        for command in ("topics", "migrate"):
            subprocess.run([*EPICENTER, command], env=self.env, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def servers(prefix: str, **broker_settings: str) -> Iterator[Servers]:
    """All of them, until the end of the `with`; the broker's settings are written with `_` for `.`."""
    with (
        tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder,
        dev_broker(Path(folder) / "kafka", **broker_settings) as broker,
        dev_clickhouse(Path(folder) / "store") as store,
    ):
        yield Servers(broker.bootstrap, store.dsn, Path(folder), prefix, free_ports(1)[0])
