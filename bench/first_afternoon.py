"""From a clone to filled dashboards on a machine with empty caches, each step timed: make first-afternoon."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

from epicenter.sinks.clickhouse.client import Client, connect
from tests.support.grafana import ALL, View, expanded, queries_of, read_dashboards
from tests.support.rsyslog import NODE, Rsyslog
from tests.support.waiting import eventually

ROOT: Final = Path(__file__).parent.parent
LOG: Final = ROOT / "docs" / "first-afternoon.md"
MARK: Final = "<!-- measured -->"
MAX_S: Final = 900.0
NODES: Final = 16
SPEED: Final = 20
"""How many times faster than real time the simulated cluster runs."""

ROUNDS_S: Final = 200.0
"""How long the cluster runs before the dashboards are queried."""

JOB: Final = "9001"
KERNEL: Final = "NVRM: Xid (PCI:0000:5d:00): 79, pid=4242, name=python, GPU has fallen off the bus."
WORKER: Final = (
    "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3353, "
    "remote process exited or there was a network error, NCCL version 2.26.2"
)


class Step(NamedTuple):
    """A row of the log."""

    what: str
    command: str
    length_s: float
    seen: str


class Afternoon:
    """The steps so far; `step` times the next one and prints it."""

    def __init__(self, home: Path):
        self.clone = home / "epicenter"
        self.env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        self.steps: list[Step] = []

    def step(self, what: str, command: str, work: Callable[[], str]) -> None:
        """Do it, and record how long it took and the result."""
        begun_s = monotonic()
        seen = work()
        self.steps.append(Step(what, command, monotonic() - begun_s, seen))
        print(f"{self.steps[-1].length_s:7.1f} s  {what}: {seen}", flush=True)

    def clone_from(self, repository: Path) -> str:
        """Clone the repository; gives the commit."""
        subprocess.run(["git", "clone", "--quiet", repository, self.clone], check=True)
        return self.run("git", "log", "-1", "--format=%h %cs").strip()

    def run(self, *command: str) -> str:
        """Run a command in the clone; gives its output."""
        done = subprocess.run(command, cwd=self.clone, env=self.env, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def epicenter(self, *arguments: str) -> str:
        """A command of ours, as installed in the clone."""
        return self.run(str(self.clone / ".venv/bin/epicenter"), *arguments)


@contextmanager
def process(*command: str, cwd: Path, env: dict[str, str], out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that gets SIGTERM at the end of the `with`."""
    with out.open("ab") as file:
        running = subprocess.Popen(command, cwd=cwd, env=env, stdout=file, stderr=file)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(60)


def exported(out: Path) -> dict[str, str]:
    """The variables that `make cluster` prints for other commands."""
    found = dict(re.findall(r"^export (EPICENTER_\w+)=(.*)$", out.read_text(), re.MULTILINE))
    return {name: value.strip("'") for name, value in found.items()}


def lose_a_gpu(folder: Path) -> None:
    """Write the lines of the kernel and the ranks of one host where its rsyslog reads."""
    (folder / "kmsg").write_text(f"{KERNEL}\n")
    (folder / "logs" / JOB).mkdir()
    for rank in range(8):
        (folder / "logs" / JOB / f"{NODE}.rank{rank}.out").write_text(WORKER.format(rank=rank) + "\n")


def shown(client: Client) -> str:
    """How many queries of the six dashboards show something, and how many there are."""
    (largest,) = client.query(
        "SELECT argMax(incident_id, signal_count), argMax(jobs, signal_count) FROM incidents FINAL"
    )
    now = datetime.now(UTC) + timedelta(minutes=1)
    chosen = {"cluster": ALL, "class": ALL, "severity": ALL, "node": ALL, "page_url": "http://127.0.0.1:8017"}
    view = View(now - timedelta(hours=1), now, {**chosen, "incident_id": largest[0], "job": largest[1][0]})
    queries = [
        query
        for name, dashboard in read_dashboards(ROOT / "deploy/grafana/dashboards").items()
        for query in queries_of(name, dashboard)
    ]
    filled = [
        query for query in queries if any(value for row in client.query(expanded(query.sql, view)) for value in row)
    ]
    for query in (query for query in queries if query not in filled):
        print(f"           empty: {query.dashboard}: {query.where}")
    return f"{len(filled)} of {len(queries)} queries show something"


def first_afternoon(home: Path) -> list[Step]:
    """All steps."""
    day = Afternoon(home)
    day.step("clone", "git clone", lambda: day.clone_from(ROOT))
    day.step("environment", "make environment", lambda: day.run("make", "environment") and "installed, hashes checked")
    python = str(day.clone / ".venv/bin/python")
    folder, out = home / "cluster", home / "cluster.log"
    command = (python, "-m", "deploy.dev.cluster", "--no-load", "--keep", str(folder))
    with process(*command, cwd=day.clone, env=day.env, out=out) as cluster:
        day.step("Kafka, ClickHouse, worker, page", "make cluster", lambda: up(cluster, out))
        day.env |= exported(out)
        day.step("check everything", "epicenter check", lambda: findings(day))
        shipper = Rsyslog(home / "node0042", day.env["EPICENTER_KAFKA"], "logs.raw")
        day.step("rsyslog with deploy/rsyslog on a host", "rsyslogd", lambda: shipping(shipper, home / "node0042"))
        client = connect(day.env["EPICENTER_STORE"])
        day.step("a GPU is lost there", "", lambda: lose_a_gpu(home / "node0042") or cause(client))
        shipper.stop()
        load = (python, "-m", "deploy.dev.load", str(home / "logs"), "--kafka", day.env["EPICENTER_KAFKA"])
        options = ("--nodes", str(NODES), "--speed", str(SPEED))
        with process(*load, *options, cwd=day.clone, env=day.env, out=home / "load.log"):
            day.step(f"{NODES} nodes run jobs, which fail", "", lambda: incidents(client))
        day.step("dashboards", "deploy/grafana", lambda: shown(client))
        client.close()
    return day.steps


def up(cluster: subprocess.Popen[bytes], out: Path) -> str:
    """Wait until `make cluster` prints its addresses."""
    eventually(lambda: exported(out) or cluster.poll() is not None, MAX_S, "the cluster is up")
    if cluster.poll() is not None:
        raise SystemExit(out.read_text())
    return "all of them answer"


def findings(day: Afternoon) -> str:
    """The counts of `epicenter check`, by status."""
    statuses = Counter(re.findall(r"\b(ok|warning|PROBLEM)\b", day.epicenter("check")))
    return ", ".join(f"{count} {status}" for status, count in statuses.items())


def shipping(shipper: Rsyslog, folder: Path) -> str:
    """Check the shipped configuration, and start rsyslog with it; a file replaces this machine's /dev/kmsg."""
    shipper.enable("slurm")
    kernel = f'input(type="imfile" file="{folder}/kmsg" tag="kernel" ruleset="kernel" addMetadata="off")\n'
    (folder / "inputs/kernel.conf").write_text(kernel)
    shipper.check()
    shipper.start()
    return "rsyslogd -N1 reports no error"


def cause(client: Client) -> str:
    """Wait for the incident with the GPU as its cause and the job in its blast radius; gives its title."""
    query = f"SELECT title FROM incidents FINAL WHERE class = 'xid-79' AND has(jobs, '{JOB}')"
    return f"stored: {eventually(lambda: client.query(query), MAX_S, query)[0][0]}"


def incidents(client: Client) -> str:
    """Let the cluster run, then count."""
    sleep(ROUNDS_S)
    (found,) = client.query("SELECT count(), uniqExact(class) FROM incidents FINAL WHERE merged_into = ''")
    return f"{found[0]} incidents of {found[1]} classes in {ROUNDS_S:.0f} s"


def written(steps: Sequence[Step]) -> str:
    """The rows of the log's table."""
    rows = "".join(
        f"| {step.what} | {f'`{step.command}`' if step.command else ''} | {step.length_s:.1f} | {step.seen} |\n"
        for step in steps
    )
    total = sum(step.length_s for step in steps)
    return f"| step | command | seconds | seen |\n|---|---|---|---|\n{rows}| total | | {total:.0f} | |\n"


def main() -> None:
    """Run all steps, and write them into docs/first-afternoon.md."""
    with tempfile.TemporaryDirectory(prefix="epicenter-afternoon-") as home:
        table = written(first_afternoon(Path(home)))
    before, _, rest = LOG.read_text().partition(f"{MARK}\n")
    after = rest.partition(f"{MARK}\n")[2]
    LOG.write_text(f"{before}{MARK}\n{table}{MARK}\n{after}")


if __name__ == "__main__":
    main()
