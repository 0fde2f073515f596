"""`epicenter run` as its users start it: separate processes, a real embedded store, a real page."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import write_all
from epicenter.rules.model.incident import Incident
from epicenter.rules.packs.load import load
from epicenter.stream.cli.one_machine import Announcer
from epicenter.stream.load_settings import load_settings
from epicenter.stream.local.runner import LocalRunner
from epicenter.stream.rule_tools.reload import running
from epicenter.stream.settings import Settings
from tests.support.cluster import brief
from tests.support.logs import the_rules
from tests.support.packs import A_PACK
from tests.support.receiver import Receiver
from tests.support.waiting import COMPILE_S, eventually

pytestmark = pytest.mark.integration

COMMAND = Path(sys.executable).with_name("epicenter")
PATIENCE_S = 60.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "http_proxy": "http://127.0.0.1:9"}


def epicenter(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, env=ENVIRONMENT
    )


def documents(*arguments: object) -> list[dict[str, Any]]:
    found = epicenter(*arguments, "--json")
    assert found.returncode == 0, found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


@contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`epicenter run` in the background, with the address of its page."""
    process = subprocess.Popen(
        [COMMAND, "run", *map(str, arguments), "--page-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stderr
    try:
        lines = iter(process.stderr.readline, "")
        address = next(line for line in lines if line.startswith("incidents: http://127.0.0.1:"))
        yield process, address.split()[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def fetched(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return json.loads(answer.read())


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_a_notification_interrupted_by_a_kill_is_sent_once_more_by_the_next_run(
    tmp_path: Path,
) -> None:
    logs, data, config = tmp_path / "logs", tmp_path / "data", tmp_path / "epicenter.toml"
    write_all(brief("gpu-off-bus", nodes=3), logs)
    with Receiver().listening() as receiver:
        config.write_text(f'webhook_url = "{receiver.url}"\n')
        command = ["run", "--once", str(logs), "--data-dir", str(data), "--config", str(config)]
        victim = subprocess.Popen([COMMAND, *command], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        receiver.before_answer = lambda _: victim.kill() or "drop"
        assert victim.wait(PATIENCE_S) == -signal.SIGKILL
        receiver.before_answer = lambda _: None
        for _ in range(2):
            run = epicenter(*command)
            assert run.returncode == 0, run.stderr
    assert len(receiver.ids) == 2, "once by the killed run, once by the next one, and never again"
    assert len(set(receiver.ids)) == 1


def test_run_once_stores_the_same_incidents_as_replay(tmp_path: Path) -> None:
    logs, data = tmp_path / "logs", tmp_path / "data"
    write_all(brief("gpu-off-bus", nodes=3), logs)
    expected = documents("replay", logs)
    assert [incident["class"] for incident in expected] == ["xid-79"]

    run = epicenter("run", "--once", logs, "--data-dir", data)
    assert (run.returncode, "0 dead letters" in run.stderr) == (0, True), run.stderr
    assert documents("incidents", "list", "--data-dir", data) == expected
    node = expected[0]["root_cause"]["node"]
    assert documents("incidents", "list", "--search", f"node:{node} BUS", "--data-dir", data) == expected
    assert documents("incidents", "list", "--search", f"node:{node}0", "--data-dir", data) == []
    incident_id = expected[0]["incident_id"]
    assert documents("incidents", "show", incident_id[:6], "--data-dir", data) == expected
    shown = epicenter("incidents", "show", incident_id, "--data-dir", data)
    assert "xid-79, almost certain" in shown.stdout and "What to do" in shown.stdout

    draft, file = epicenter("export", incident_id[:6], "--data-dir", data), tmp_path / "draft.html"
    assert draft.stdout.startswith("# GPU has fallen off the bus (Xid 79), rank ")
    written = epicenter("export", incident_id, "--format", "html", "--output", file, "--store", f"chdb://{data}/store")
    assert (written.returncode, written.stdout, file.read_text()[:15]) == (0, "", "<!doctype html>")
    refused = epicenter("export", incident_id, "--output", tmp_path / "no" / "such", "--data-dir", data)
    assert (refused.returncode, refused.stderr.count("\n")) == (78, 1)

    again = epicenter("run", "--once", logs, "--data-dir", data)
    assert again.returncode == 0
    assert documents("incidents", "list", "--data-dir", data) == expected


def now() -> str:
    return datetime.now(UTC).isoformat()


def xid_line(node: str) -> str:
    return f"{now()} {node} kernel: [ 8005.250000] NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU lost\n"


def append(file: Path, text: str) -> None:
    with file.open("a") as log:
        log.write(text)


def test_run_follows_logs_reports_incidents_and_stops_on_a_signal(tmp_path: Path) -> None:
    logs, data = tmp_path / "logs", tmp_path / "data"
    logs.mkdir()
    (tmp_path / "epicenter.toml").write_text('allowed_lateness = "200ms"\n')
    append(logs / "kern.log", f"{now()} n1 kernel: [ 8000.000000] usb 1-1: new device\n")
    options = ("--data-dir", data, "--config", tmp_path / "epicenter.toml")
    with started(logs, *options) as (process, page):
        append(logs / "kern.log", xid_line("n1"))
        (incident,) = eventually(lambda: fetched(f"{page}api/incidents"), PATIENCE_S, "the page to show it")
        assert (incident["class"], incident["status"], incident["nodes"]) == ("xid-79", "open", ["n1"])

        assert documents("incidents", "list", "--data-dir", data) == [incident]
        assert documents("incidents", "show", incident["incident_id"][:5], "--data-dir", data) == [incident]
        assert epicenter("incidents", "show", "ffff", "--data-dir", data).returncode == 66

        second = epicenter("run", "--once", logs, "--data-dir", data)
        assert (second.returncode, second.stdout) == (69, "")
        assert "has this embedded store open, and only one process can" in second.stderr
        assert "Traceback" not in second.stderr

        worker = {"message": "Traceback (most recent call last):", "host": "n1", "job": "7877", "time": now()}
        append(logs / "worker.jsonl", json.dumps(worker) + "\n")
        (updated,) = eventually(
            lambda: [incident for incident in fetched(f"{page}api/incidents") if incident["jobs"]],
            PATIENCE_S,
            "the page to show it",
        )
        assert (updated["incident_id"], updated["jobs"]) == (incident["incident_id"], ["7877"])
        assert fetched(f"{page}healthz")["records"] == 3

        code, out, err = stopped(process)
    assert code == 0, err
    assert incident["incident_id"] in out
    assert err.startswith("3 lines read, 0 dead letters")
    assert not (data / "page.url").exists()
    assert documents("incidents", "list", "--data-dir", data) == [updated]


def test_a_pending_incident_is_notified_before_run_stops(tmp_path: Path) -> None:
    logs, data = tmp_path / "logs", tmp_path / "data"
    logs.mkdir()
    config = tmp_path / "epicenter.toml"
    options = ("--data-dir", data, "--config", config)
    with Receiver().listening() as receiver:
        config.write_text(f'allowed_lateness = "1h"\nwebhook_url = "{receiver.url}"\n')
        code, out = run_and_stopped(logs, options)
    assert code == 0
    assert "xid-79" in out
    assert [body["incident"]["nodes"] for _, body in receiver.requests] == [["n2"]]
    assert [incident["nodes"] for incident in documents("incidents", "list", "--data-dir", data)] == [["n2"]]


def run_and_stopped(logs: Path, options: tuple[object, ...]) -> tuple[int, str]:
    with started(logs, *options) as (process, page):
        append(logs / "kern.log", xid_line("n2"))
        eventually(lambda: fetched(f"{page}healthz")["records"], PATIENCE_S, "the page to show it")
        assert fetched(f"{page}api/incidents") == []
        return stopped(process)[:2]


async def test_systemd_receives_the_start_signs_of_life_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1")
        stop, sources = asyncio.Event(), Sources([str(tmp_path / "logs")], "n1", follow=True)
        settings = Settings(data_dir=tmp_path / "data", page_port=0)
        run = LocalRunner(settings, the_rules(), sources, Announcer(as_json=True), print)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(run.follow(stop))
            messages = [await asyncio.wait_for(loop.sock_recv(receiver, 100), PATIENCE_S) for _ in range(3)]
            stop.set()
            while (message := await asyncio.wait_for(loop.sock_recv(receiver, 100), PATIENCE_S)) == b"WATCHDOG=1":
                pass
    assert (messages, message) == ([b"READY=1\nWATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"], b"STOPPING=1")


async def test_a_file_written_just_before_the_stop_is_read(tmp_path: Path) -> None:
    logs, stop = tmp_path / "logs", asyncio.Event()
    logs.mkdir()
    sources = Sources([str(logs)], "n1", follow=True)
    run = LocalRunner(Settings(data_dir=tmp_path / "data"), the_rules(), sources, Announcer(as_json=True), print)
    append(logs / "kern.log", xid_line("n1"))
    stop.set()
    await run.follow(stop)
    assert run.records == 1


def test_the_address_of_a_page_that_is_gone_is_ignored(tmp_path: Path) -> None:
    logs, data = tmp_path / "logs", tmp_path / "data"
    write_all(brief("host-oom", nodes=4), logs)
    assert epicenter("run", "--once", logs, "--data-dir", data).returncode == 0
    (data / "page.url").write_text("http://127.0.0.1:9/")
    assert [incident["class"] for incident in documents("incidents", "list", "--data-dir", data)] == ["host-oom-kill"]
    (data / "page.url").write_text("no address\n")
    assert len(documents("incidents", "list", "--data-dir", data)) == 1


async def test_a_changed_rule_pack_is_used_while_run_continues(tmp_path: Path) -> None:
    logs, pack, stop = tmp_path / "logs", tmp_path / "mine.yaml", asyncio.Event()
    logs.mkdir()
    pack.write_text("pack: mine\n")
    options = {"data_dir": tmp_path / "data", "allowed_lateness": "200ms", "reload_every": "50ms", "page_port": 0}
    settings = load_settings(rule_packs=(pack,), **options)
    messages, shown = asyncio.Queue[str](), asyncio.Queue[Incident]()
    sources = Sources([str(logs)], "n1", follow=True)
    run = LocalRunner(settings, load([pack]), sources, shown.put_nowait, messages.put_nowait)
    async with running(run.follow(stop)):
        assert "incidents: http://" in await asyncio.wait_for(messages.get(), PATIENCE_S)
        pack.write_text(A_PACK)
        assert "1 new, 0 changed, 0 removed" in await asyncio.wait_for(messages.get(), COMPILE_S)
        line = {"message": "it went wrong: 1", "host": "n1", "job": "7877", "time": now()}
        append(logs / "worker.jsonl", json.dumps(line) + "\n")
        incident = await asyncio.wait_for(shown.get(), PATIENCE_S)
    assert (incident.failure_class, incident.jobs) == ("mine-one", ("7877",))


async def test_all_that_was_written_is_read_once_the_writers_have_ended(tmp_path: Path) -> None:
    logs, is_written = tmp_path / "logs", asyncio.Event()
    logs.mkdir()
    settings = load_settings(data_dir=tmp_path / "data", page_port=0)
    run = LocalRunner(settings, the_rules(), Sources([str(logs)], "n1", follow=True), print, print)
    lines = [f"step {number} of 5000, loss 2.25, {'all is well ' * 8}" for number in range(5000)]
    (logs / "worker.log").write_text("\n".join(lines) + "\n")
    is_written.set()
    await run.follow(is_written, to_the_end=True)
    assert run.records == len(lines)


async def test_a_block_at_the_end_of_a_quiet_file_does_not_wait_for_busy_files(tmp_path: Path) -> None:
    logs, stop, shown = tmp_path / "logs", asyncio.Event(), asyncio.Queue[Incident]()
    logs.mkdir()
    settings = load_settings(data_dir=tmp_path / "data", allowed_lateness="200ms", page_port=0)
    run = LocalRunner(settings, the_rules(), Sources([str(logs)], "", follow=True), shown.put_nowait, print)

    def write(node: str, text: str) -> None:
        append(logs / f"{node}.log", f"{now()} {node} kernel: [ 8005.250000] {text}\n")

    run.on_batch = lambda batch: write("busy", "usb 1-1: new high-speed USB device")
    write("busy", "usb 1-1: new high-speed USB device")
    write("quiet", "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0")
    async with running(run.follow(stop)):
        incident = await asyncio.wait_for(shown.get(), PATIENCE_S)
    assert incident.nodes == ("quiet",)
