"""`make cluster`: a broker, a store and a worker on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from rules.errors import PipelineError
from stream.dev_broker import dev_broker
from stream.dev_clickhouse import dev_clickhouse
from stream.dev_process import EPICENTER


def main() -> None:
    """Start all, say where it is, and wait."""
    with tempfile.TemporaryDirectory(prefix="epicenter-cluster-") as folder:
        base = Path(folder)
        with dev_broker(base / "kafka") as broker, dev_clickhouse(base / "store") as store:
            given = {"KAFKA": broker.bootstrap, "STORE": store.dsn, "DATA_DIR": str(base / "data")}
            env = {**os.environ, **{f"EPICENTER_{name}": value for name, value in given.items()}}
            subprocess.run([*EPICENTER, "topics"], env=env, check=True, stdout=sys.stderr)
            worker = subprocess.Popen([*EPICENTER, "worker"], env=env)
            for name, value in given.items():
                click.echo(f"export EPICENTER_{name}={value}")
            click.echo("worker: http://127.0.0.1:6066/metrics; Ctrl-C stops everything", err=True)
            try:
                sys.exit(worker.wait())
            except KeyboardInterrupt:
                worker.send_signal(signal.SIGTERM)
                worker.wait()


if __name__ == "__main__":
    try:
        main()
    except PipelineError as error:
        sys.exit(f"epicenter: {error}")
