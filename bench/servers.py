"""A broker, a store and the environment of a worker that uses them, for benches of the whole path."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stream.dev_broker import dev_broker
from stream.dev_clickhouse import dev_clickhouse
from stream.dev_process import EPICENTER, free_ports


class Servers(NamedTuple):
    """Where they are; all of a worker's settings that have to do with it are in `env`."""

    bootstrap: str
    store: str
    folder: Path
    prefix: str
    web_port: int

    @property
    def raw_topic(self) -> str:
        """Where lines go."""
        return f"{self.prefix}.raw"

    @property
    def env(self) -> dict[str, str]:
        """Of our commands."""
        given = {"KAFKA": self.bootstrap, "STORE": self.store, "DATA_DIR": f"{self.folder}/data", "PREFIX": self.prefix,
                 "RAW_TOPIC": self.raw_topic, "WEB_PORT": str(self.web_port)}  # fmt: skip
        return {**os.environ, **{f"EPICENTER_{name}": value for name, value in given.items()}}

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
