"""Records the machine-readable output of epicenter, and compares the records of two versions.

python -m bench.contract record FOLDER --corpus CORPUS [--epicenter PATH]
python -m bench.contract compare BEFORE AFTER
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import click

from deploy.dev.process import EPICENTER

CLUSTERS: Final = 20
DELIVERIES: Final = 5
"""The number of clusters whose messages to targets are recorded as well."""

WRITTEN_S: Final = 1_790_000_000
"""The modification time of the cases' files: lines without a time get it."""

EVALUATED: Final = 1
"""The exit code of `eval` when a threshold is missed: its figures are complete."""

TARGETS: Final = """
page_url: https://epicenter.example/
route: {targets: [own, events, forwarded, manager, pager, chat], group_wait: 0s}
grace_period: 0s
targets:
  own: {type: webhook, url: "URL/own"}
  events: {type: webhook, url: "URL/events", format: cloudevents}
  forwarded: {type: webhook, url: "URL/forwarded", format: alertmanager}
  manager: {type: alertmanager, url: "URL/manager"}
  pager: {type: pagerduty, routing_key: "0123456789abcdef0123456789abcdef", url: "URL/pager"}
  chat: {type: slack, url: "URL/chat"}
"""


@click.group()
def main() -> None:
    """Compare the output of two versions."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--corpus", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of labelled cases.")
@click.option("--epicenter", default=shlex.join(EPICENTER), show_default=True, help="The command to run.")
@click.option("--clusters", default=CLUSTERS, show_default=True, help="Simulated clusters, seeds from 1.")
def record(folder: Path, corpus: Path, epicenter: str, clusters: int) -> None:
    """Write the output of `match`, `triage`, `replay`, `eval` and the messages of `run` into FOLDER."""
    folder.mkdir(parents=True)
    run = Command(shlex.split(epicenter))
    cases = sorted(corpus.glob("*.jsonl"))
    (folder / "eval.json").write_text(run("eval", "--json", *cases))
    with tempfile.TemporaryDirectory(prefix="epicenter-contract-") as scratch:
        logs = Path(scratch, "cases")
        write_cases(cases, logs)
        (folder / "match.jsonl").write_text(run("match", "--json", ".", within=logs))
        names = sorted(log.name for log in logs.iterdir())
        (folder / "triage.jsonl").write_text(run("triage", "--json", *names, within=logs))
        (folder / "triage.md").write_text(run("triage", *names, within=logs))
        for seed in range(1, clusters + 1):
            record_cluster(run, folder, Path(scratch), seed)


def record_cluster(run: Command, folder: Path, scratch: Path, seed: int) -> None:
    """One simulated cluster through every command, run in the folder of its logs."""
    name = f"cluster-{seed:02}"
    run("simulate", name, "--nodes", "8", "--minutes", "30", "--seed", str(seed), within=scratch)
    for command in ("match", "triage", "replay"):
        (folder / f"{name}.{command}.jsonl").write_text(run(command, "--json", name, within=scratch))
    (folder / f"{name}.replay.txt").write_text(run("replay", name, within=scratch))
    if seed <= DELIVERIES:
        with receiver() as (url, requests):
            (scratch / "alerts.yaml").write_text(TARGETS.replace("URL", url))
            run("run", "--once", name, "--data-dir", f"store-{seed}", within=scratch, EPICENTER_ALERTS="alerts.yaml")
        (folder / f"{name}.deliveries.jsonl").write_text("".join(f"{line}\n" for line in sorted(requests)))


class Command:
    """One version of the command; calls give its standard output."""

    def __init__(self, command: Sequence[str]):
        self._command = [str(Path(command[0]).absolute()) if "/" in command[0] else command[0], *command[1:]]

    def __call__(self, *arguments: object, within: Path | None = None, **env: str) -> str:
        """Its standard output for these arguments, in this folder and environment."""
        command = [*self._command, *map(str, arguments)]
        done = subprocess.run(command, cwd=within, env=os.environ | env, capture_output=True, text=True)
        if done.returncode not in ((0, EVALUATED) if arguments[0] == "eval" else (0,)):
            raise click.ClickException(f"{arguments[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout


def write_cases(files: Iterable[Path], folder: Path) -> None:
    """Each case's lines as a separate log, named by its id."""
    folder.mkdir()
    for file in files:
        for case in map(json.loads, file.read_text("utf-8").splitlines()):
            log = folder / f"{case['id']}.log"
            log.write_text("".join(f"{line}\n" for line in case["lines"]), "utf-8", "surrogatepass")
            os.utime(log, (WRITTEN_S, WRITTEN_S))


@contextmanager
def receiver() -> Iterator[tuple[str, list[str]]]:
    """An HTTP server on the loopback that accepts every message: its address, and path and body of each."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(json.dumps({"path": self.path, "body": body}))
            answer = b"ok" if self.path == "/chat" else b"{}"
            self.send_response(202 if self.path == "/pager" else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@main.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True))
@click.argument("after", type=click.Path(path_type=Path, exists=True))
@click.option("--prose/--no-prose", default=True, help="Whether to compare sentences too, or facts alone.")
def compare(before: Path, after: Path, prose: bool) -> None:
    """Print which values differ and which are new; exit with 1 when any differs or is missing."""
    differs, new, count = Counter[str](), Counter[str](), 0
    examples: dict[str, str] = {}
    for file in sorted(before.iterdir()):
        for path, old, value in pairs(parsed(file), parsed(after / file.name), prose):
            count += 1
            if old is MISSING:
                new[f"{file.suffix} {path}"] += 1
            elif old != value:
                differs[path] += 1
                examples.setdefault(path, f"{file.name}: {old!r} -> {value!r}")
    click.echo(f"{count} values, {sum(differs.values())} differ, {sum(new.values())} are new")
    for path, times in differs.most_common():
        click.echo(f"differs  {times:6}  {path}  {examples[path][:600]}")
    for path, times in new.most_common():
        click.echo(f"new      {times:6}  {path}")
    raise SystemExit(1 if differs else 0)


MISSING: Final = "(missing)"
BY_THE_CLOCK: Final = "endsAt"
"""The end of Alertmanager's alerts depends on the clock."""

PROSE: Final = re.compile(
    r"\.(title|summary|cascade|reasons|reason|next_steps|missing|history|findings|text|blocks|body|custom_details|annotations|"
    r"what|why|guidance|description|checks|diagnosis|about|fallback|name|answer|question)\b"
)
"""Fields with our sentences: their wording is no fact."""


def parsed(file: Path) -> Any:
    """The JSON of a file, a list where it has one object a line; text as its lines."""
    text = file.read_text("utf-8")
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text) if file.suffix == ".json" else text.splitlines()


def pairs(old: Any, new: Any, prose: bool, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every value of two documents side by side with its path; list items have `[]` for a path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({**old, **new}.keys() - {BY_THE_CLOCK}):
            yield from pairs(old.get(key, MISSING), new.get(key, MISSING), prose, f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from pairs(before, after, prose, f"{path}[]")
    elif prose or not PROSE.search(path):
        yield path, old, new


if __name__ == "__main__":
    main()
