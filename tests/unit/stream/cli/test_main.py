"""The console command: help, exit codes, JSON, and nothing raw on a terminal."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from epicenter.sinks.clickhouse.migrate import read_migrations
from epicenter.stream.cli.main import cli
from tests.support.logs import kernel, vector
from tests.support.packs import A_PACK

XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
TRACEBACK = "Traceback (most recent call last):"
COMMAND = Path(sys.executable).with_name("epicenter")

MATCH_FIELDS = ["file", "line", "rule", "class", "severity", "role", "source", "fields", "text"]
INCIDENT_FIELDS = {
    *("incident_id", "status", "class", "severity", "title", "cluster", "jobs", "nodes", "root_cause", "chain"),
    *("blast_radius", "progress", "first_seen", "last_seen", "signal_count", "evidence", "next_steps", "action"),
    *("candidates", "cost", "missing"),
}
OF_THE_STORE = {"revision", "merged_into", "history", "recurrence", "verdict", "reopened", "resolved_by"} | {
    *("checks", "commands", "not_known")
}
"""Fields of the stored document that the contract lacks."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in commands(cli)]


def epicenter(*arguments: object, stdin: str | bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command as another process."""
    sent = stdin.encode() if isinstance(stdin, str) else stdin
    whole = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    return subprocess.run([COMMAND, *map(str, arguments)], input=sent, capture_output=True, timeout=60, env=whole)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder as two shippers write it: a node's kernel lines, and its job's lines."""
    folder = tmp_path / "logs"
    folder.mkdir()
    step = "completed step: {}, seconds: 5.000, TFLOP/s/device: 380.1"
    worker = [vector("n1", number * 5, step.format(number), job="A") for number in range(5)]
    worker += [vector("n1", 30, TRACEBACK, job="A"), vector("n1", 31, "RuntimeError: gone", job="A")]
    (folder / "worker.jsonl").write_bytes(b"\n".join(worker) + b"\n")
    (folder / "kern.log").write_bytes(kernel("n1", 25, XID) + b"\n")
    return folder


# help


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_has_help_with_an_example_that_parses(path: tuple[str, ...], command: click.Command) -> None:
    (example,) = re.findall(r"Example: epicenter (.+)", command.help or "")
    words = shlex.split(example)
    found: click.Command = cli
    while isinstance(found, click.Group):
        found = found.get_command(click.Context(found), words.pop(0)) or pytest.fail("no such command")
    found.make_context(found.name or "", words)
    assert shlex.split(example)[: len(path)] == list(path)


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_shows_its_help(path: tuple[str, ...], command: click.Command, run: Any) -> None:
    code, out, err = run(*path, "--help")
    assert (code, err) == (0, "")
    assert "Example: epicenter" in out
    assert out.startswith(f"Usage: epicenter {' '.join(path)} ")


@pytest.mark.parametrize(
    "group", ["", *(" ".join(path) for path, found in commands(cli) if hasattr(found, "commands"))]
)
def test_list_of_commands_cuts_no_sentence_at_80_columns(group: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in run(*group.split(), "--help")[1].replace("[ARGS]...", "")


def test_help_lists_every_command_once_by_purpose(run: Any) -> None:
    out = run("--help")[1]
    sections = re.findall(r"^(\w+):\n((?:  .+\n)+)", out, re.MULTILINE)
    assert [purpose for purpose, _ in sections] == ["Options", "Look", "Run", "Tell", "Rules", "Administer"]
    listed = [line.split()[0] for _, lines in sections[1:] for line in lines.splitlines()]
    assert sorted(listed) == cli.list_commands(click.Context(cli))


@pytest.mark.parametrize(
    ("mistyped", "proposed"),
    [
        ("tirage x", "no such command: tirage: write triage"),
        ("incident list", "no such command: incident: write incidents\n"),
        ("incidents shwo x", "no such command: shwo: write show\n"),
        ("show newest", "no such command: show: write dead-letters show, incidents show, rules show\n"),
        ("version", "no such command: version: write --version\n"),
        ("qqqq", "no such command: qqqq: see `epicenter -h`\n"),
        ("rules qqqq", "no such command: qqqq: see `epicenter rules -h`\n"),
        ("match --jsn x", "no such option: --jsn: write --json, --job\n"),
        ("triage --qqqq x", "no such option: --qqqq: see `epicenter triage -h`\n"),
    ],
)
def test_mistyped_command_or_option_gets_a_proposal(mistyped: str, proposed: str, run: Any) -> None:
    code, out, err = run(*mistyped.split())
    assert (code, out) == (2, "")
    assert f"Error: {proposed}" in err


SERVES_OR_DRAFTS = ("demo", "export", "mcp", "page", "rules draft", "rules import", "worker")
"""Commands that run until they are stopped, or write a document of its own form."""


def test_every_command_that_prints_facts_prints_json() -> None:
    silent = [
        " ".join(path)
        for path, command in commands(cli)
        if not isinstance(command, click.Group) and not any("--json" in parameter.opts for parameter in command.params)
    ]
    assert tuple(silent) == SERVES_OR_DRAFTS


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("rules lint --rules {pack}", {"rules", "with_table_rows", "edges", "problems"}),
        ("rules lint --rules {broken}", {"problems"}),
        ("rules test --rules {pack} --scenarios {stories} --only-scenarios", {"scenarios", "runs", "failures"}),
        ("alerts check {alerts}", {"file", "targets", "routes", "problems"}),
        ("alerts check {broken}", {"file", "problems"}),
        ("migrate --plan --data-dir {folder}/store", {"name", "is_done", "statements"}),
        ("simulate {folder}/sim --nodes 2 --minutes 1", {"nodes", "jobs", "faults"}),
        ("rules show xid-79", {"id", "class", "severity"}),
    ],
)
def test_json_is_all_that_standard_output_has(words: str, found: set[str], tmp_path: Path, run: Any) -> None:
    names = {name: tmp_path / f"{name}.yaml" for name in ("pack", "broken", "alerts")} | {"folder": tmp_path}
    names["pack"].write_text(A_PACK)
    names["broken"].write_text("broken: yes\n")
    names["alerts"].write_text("route: {targets: [x]}\ntargets: {x: {type: webhook, url: 'http://127.0.0.1:9'}}\n")
    names["stories"] = Path(__file__).parents[3] / "scenarios/stories/missing_input.yaml"
    _, out, _ = run(*words.format(**names).split(), "--json")
    documents = [json.loads(line) for line in out.splitlines()]
    assert documents
    assert all(found <= document.keys() for document in documents)


def test_rules_of_a_class_are_shown_by_its_name(run: Any) -> None:
    code, out, _ = run("rules", "show", "python-exception", "--json")
    rules = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(rules) > 1
    assert {rule["class"] for rule in rules} == {"python-exception"}
    assert run("rules", "show", "python-exception")[1].count("\n---\n") == len(rules) - 1


def test_mistyped_class_gets_a_proposal(run: Any) -> None:
    code, _, err = run("rules", "show", "pythn-exception")
    assert (code, "no such rule or class: write python-exception" in err) == (66, True)


COMPLETE = """
eval "$(_EPICENTER_COMPLETE=bash_source epicenter)"
COMP_WORDS=({words}) COMP_CWORD={at}
_epicenter_completion epicenter
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("inc", ["incidents"]),
        ("rules li", ["list", "lint"]),
        ("match --js", ["--json"]),
        ("simulate x --fault gpu-off", ["gpu-off-bus"]),
    ],
)
def test_bash_completes(typed: str, completed: list[str]) -> None:
    script = COMPLETE.format(words=f"epicenter {typed}", at=len(typed.split()))
    environment = {"PATH": f"{COMMAND.parent}:/usr/bin:/bin", "HOME": "/nonexistent"}
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert sorted(ran.stdout.split()) == sorted(completed)


def test_hidden_option_is_never_proposed(run: Any) -> None:
    assert "--dsn" not in run("migrate", "--dns", "x")[2]


def test_the_command_prints_its_version_and_help(run: Any) -> None:
    assert run("--version")[0] == 0
    assert run("-h")[0] == 0


def test_former_name_of_a_command_runs_it_with_a_warning(tmp_path: Path, run: Any) -> None:
    present = run("dead-letters", "list", "--json", "--data-dir", tmp_path)
    code, out, err = run("deadletters", "list", "--json", "--data-dir", tmp_path)
    assert (code, out) == present[:2]
    assert err == f"epicenter: warning: `deadletters` is now called `dead-letters`: write that\n{present[2]}"
    assert "deadletters" not in run("--help")[1]


@pytest.mark.parametrize("words", ["list", "show 3f2a", "replay 3f2a"])
def test_dead_letters_are_read_from_the_store(words: str, tmp_path: Path, run: Any) -> None:
    code, _, err = run("dead-letters", *words.split(), "--data-dir", tmp_path)
    assert code == 66
    assert "no store here yet" in err


def test_former_name_of_the_store_option_counts_with_a_warning(run: Any) -> None:
    code, _, err = run("migrate", "--plan", "--dsn", "http://127.0.0.1:9/epicenter")
    assert code == 69
    assert err.startswith("epicenter: warning: `--dsn` is now called `--store`: write that\n")
    assert "epicenter: http://127.0.0.1:9/epicenter: " in err
    assert "--dsn" not in run("migrate", "--help")[1]


def test_both_names_of_the_store_option_are_wrong_usage(run: Any) -> None:
    code, _, err = run("migrate", "--dsn", "http://a:1/x", "--store", "http://b:1/x")
    assert code == 2
    assert "--dsn is the former name of --store: give only --store" in err


# exit codes


def test_exit_0_when_all_is_well(logs: Path) -> None:
    found = epicenter("replay", logs)
    assert (found.returncode, found.stderr) == (0, b"1 incident\n")


def test_exit_1_when_a_check_finds_problems(tmp_path: Path, run: Any) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(A_PACK.replace("it went wrong: 2", "it went well: 2"))
    code, out, _ = run("rules", "test", "--rules", pack)
    assert code == 1
    assert f"{pack}:3: mine.one: must match this line: it went well: 2 (by Hyperscan)" in out
    pack.write_text("pack: [")
    code, out, _ = run("rules", "lint", "--rules", pack)
    assert code == 1
    assert out.startswith(f"{pack}:1: not YAML")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["match"],
        ["match", "--nonsense", "x"],
        ["simulate", "/tmp/x", "--nodes", "1"],
        ["incidents", "show"],
    ],
    ids=" ".join,
)
def test_exit_2_for_wrong_usage(arguments: list[str], run: Any) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: epicenter")
    assert "Error: " in err


@pytest.mark.parametrize("command", ["match", "replay", "run --once"])
def test_exit_66_when_an_input_can_not_be_read(command: str, tmp_path: Path, run: Any) -> None:
    missing = tmp_path / "missing.log"
    code, out, err = run(*command.split(), missing, *(["--data-dir", tmp_path] if command.startswith("run") else []))
    assert (code, out, err) == (66, "", f"epicenter: {missing}: no such file or folder\n")


LZ4 = b"\x04\x22\x4d\x18" + b"\0" * 12

NO_LOG: dict[str, tuple[dict[str, bytes], str]] = {
    "empty-file": ({"a.log": b""}, "a.log: empty: no line to read"),
    "blank-lines": ({"a.log": b"\n\n"}, "a.log: empty: no line to read"),
    "binary": ({"a.log": b"\x7fELF\1\2\0\0"}, "a.log: a binary file, not a log: give the log as text"),
    "utf-16": ({"a.log": XID.encode("utf-16")}, "a.log: UTF-16 text: convert it first: iconv -f UTF-16 -t UTF-8"),
    "lz4": ({"a.log.lz4": LZ4}, "a.log.lz4: packed with lz4: unpack it first"),
    "empty-folder": ({}, "no log in this folder"),
    "packed-folder": ({"in/kern.log.2.lz4": LZ4}, "in/kern.log.2.lz4: packed with lz4: unpack it first"),
    "folder-of-empty-files": ({"in/a.log": b"", "in/b.log": b""}, "in: empty: none of its 2 logs has a line"),
}


@pytest.mark.parametrize("command", ["match", "replay", "run --once"])
def test_files_that_are_no_logs_are_counted(
    command: str, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.log", "model.pt", "truth.json"):
        (tmp_path / name).write_text("a\n")
    code, _, err = run(*command.split(), tmp_path)
    assert code == 0
    assert "2 files left out, no log by name or first lines: model.pt, truth.json\n" in err


def test_the_zone_that_logs_show_is_printed(tmp_path: Path, run: Any) -> None:
    lines = (
        f'Mar  2 02:{minute:02}:08 n1 containerd[9]: time="2026-03-02T09:{minute:02}:07Z"\n' for minute in range(3)
    )
    (tmp_path / "messages").write_text("".join(lines))
    code, _, err = run("replay", tmp_path)
    assert (code, err.splitlines()[-1]) == (0, "1 file with times of UTC-07:00, as the logs show")


@pytest.mark.parametrize("command", ["match", "replay", "triage", "run --once"])
@pytest.mark.parametrize(("files", "expected"), NO_LOG.values(), ids=NO_LOG)
def test_exit_66_and_a_sentence_when_no_line_can_be_read(
    command: str, files: dict[str, bytes], expected: str, tmp_path: Path, run: Any
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    given = folder / next(iter(files), ".").split("/")[0]
    code, out, err = run(*command.split(), given, *(["--data-dir", tmp_path] if command.startswith("run") else []))
    assert (code, out) == (66, "")
    assert err.startswith("epicenter: ")
    assert command == "triage" or expected in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["match --json", "replay --json", "triage --json", "run --once --json"])
def test_exit_66_after_the_answer_when_a_part_of_a_folder_can_not_be_read(
    command: str, tmp_path: Path, run: Any
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "kern.log").write_text(f"2026-03-02T09:00:00Z node0003 kernel: {XID}\n")
    (folder / "kern.log.2.gz").write_bytes(gzip.compress((folder / "kern.log").read_bytes()))
    (folder / "kern.log.3.xz").write_bytes(lzma.compress(b"a" * 99)[:-20])
    code, out, err = run(*command.split(), folder, *(["--data-dir", tmp_path] if command.startswith("run") else []))
    assert code == 66
    assert "xid-79" in out
    assert f"epicenter: {folder}/kern.log.3.xz: packed with xz, and cut off or damaged" in err


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "empty: no labelled case in it"), (b"\0\1\2\3", "a binary file, not a log: give the log as text")],
)
def test_exit_66_when_labelled_cases_can_not_be_read(content: bytes, expected: str, tmp_path: Path, run: Any) -> None:
    (tmp_path / "cases.jsonl").write_bytes(content)
    code, out, err = run("eval", tmp_path / "cases.jsonl")
    assert (code, out, err) == (66, "", f"epicenter: {tmp_path}/cases.jsonl: {expected}\n")


def test_a_plan_of_migrations_makes_no_store(tmp_path: Path, run: Any) -> None:
    code, out, err = run("migrate", "--plan", "--data-dir", tmp_path / "none")
    assert (code, err) == (0, f"{len(read_migrations())} migrations to do\n")
    assert all(migration.name in out for migration in read_migrations())
    assert list(tmp_path.iterdir()) == []


def test_exit_66_without_a_store_or_a_rule_of_that_name(tmp_path: Path, run: Any) -> None:
    code, _, err = run("incidents", "list", "--data-dir", tmp_path)
    assert code == 66
    assert "no store here yet: start `epicenter run`" in err
    assert run("rules", "show", "no.such")[0] == 66
    assert run("incidents", "show", "../etc", "--data-dir", tmp_path)[0] == 66


def test_exit_69_when_the_store_is_unavailable(run: Any) -> None:
    code, out, err = run("migrate", "--store", "http://127.0.0.1:9/epicenter", "--plan")
    assert (code, out) == (69, "")
    assert "127.0.0.1:9" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("simulate {file} --minutes 1", "{file}: can't be written: Not a directory"),
        ("simulate /proc/x --minutes 1", "/proc/x: can't be written: No such file or directory"),
        ("demo --no-keep --folder {file}", "{file}/logs: can't be written: Not a directory"),
        ("rules import {npd} --output /proc/x.yaml", "/proc/x.yaml: can't be written: No such file or directory"),
        ("run --once {file} --data-dir {file}", "{file}/store: can't be used as the store's folder: Not a directory"),
    ],
    ids=["simulate-file", "simulate-proc", "demo", "import", "run"],
)
def test_exit_78_for_an_output_that_can_not_be_written(words: str, where: str, tmp_path: Path, run: Any) -> None:
    names = {"file": tmp_path / "a.log", "npd": tmp_path / "npd.json"}
    names["file"].write_text("hello\n")
    names["npd"].write_text('{"rules": [{"type": "temporary", "reason": "X", "pattern": "it broke"}]}')
    code, out, err = run(*words.format(**names).split())
    assert (code, out, err.splitlines()[-1]) == (78, "", f"epicenter: {where.format(**names)}")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["rules list", "rules list --json", "match {log}", "rules import {npd}"])
def test_exit_69_when_the_disk_of_standard_output_is_full(command: str, tmp_path: Path) -> None:
    names = {"log": tmp_path / "a.log", "npd": tmp_path / "npd.json"}
    names["log"].write_text(f"{TRACEBACK}\n")
    names["npd"].write_text('{"rules": [{"type": "temporary", "reason": "X", "pattern": "it broke"}]}')
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [COMMAND, *command.format(**names).split()], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    *_, last = ran.stderr.decode().splitlines()
    assert ran.returncode == 69
    assert re.fullmatch("epicenter: standard output: can't be (used|written): No space left on device", last)
    assert b"Traceback" not in ran.stderr
    assert b"Exception ignored" not in ran.stderr


def test_missing_right_is_one_sentence_and_no_wrong_usage(tmp_path: Path, run: Any) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epicenter.stream.store.lookup.from_page", refuse)
        assert run("incidents", "list", "--data-dir", tmp_path) == (
            78,
            "",
            f"epicenter: {tmp_path}: can't be used: Permission denied\n",
        )


def test_exit_66_for_a_line_of_a_file_without_the_right_to_read_it(tmp_path: Path, run: Any) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (log := tmp_path / "kern.log").write_text("a line\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epicenter.stream.store.lines.FileSource", refuse)
        code, out, err = run("logs", f"{log}:1", "--data-dir", tmp_path / "data")
    assert (code, out) == (66, "")
    assert err.startswith(f"epicenter: {log}:1: not found: can't be read: Permission denied; ")


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], "no incidents\n"),
        (["--search", "node:n7"], "no incident fits --search or --status\n"),
        (["--status", "open"], "no incident fits --search or --status\n"),
    ],
)
def test_an_empty_list_reports_whether_it_was_narrowed(options: list[str], printed: str, run: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epicenter.stream.store.lookup.from_page", lambda *_: [])
        assert run("incidents", "list", *options) == (0, "", printed)


@pytest.mark.parametrize("command", ["simulate {folder} --fault gpu-of-bus", "demo --fault gpu-of-bus"])
def test_mistyped_fault_gets_a_proposal(command: str, tmp_path: Path, run: Any) -> None:
    code, _, err = run(*command.format(folder=tmp_path / "x").split())
    assert (code, "gpu-of-bus: unknown kind of fault: write gpu-off-bus" in err) == (2, True)


def test_exit_70_for_a_bug_of_ours(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("epicenter.stream.cli.rule_checks.list_rules", broken)
    code, _, err = run("rules", "list")
    assert code == 70
    assert "ZeroDivisionError: ours" in err
    assert err.endswith("epicenter: this is a bug in epicenter; please report it with the lines above\n")


def test_exit_130_when_python_wraps_a_ctrl_c_during_an_import(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        def __set_name__(self, *_: object) -> None:
            raise KeyboardInterrupt

    def imported(*_: object) -> None:
        try:
            type("Imported", (), {"field": Interrupting()})
        except KeyboardInterrupt as error:  # Python 3.12 and later wrap nothing
            raise RuntimeError("Error calling __set_name__") from error

    monkeypatch.setattr("epicenter.stream.cli.rule_checks.list_rules", imported)
    assert run("rules", "list") == (130, "", "")


@pytest.mark.parametrize("command", ["match", "replay", "run --once", "rules list", "rules test"])
def test_exit_78_for_a_broken_rule_pack(command: str, logs: Path, tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(A_PACK.replace("went wrong: \\d", "went (wrong"))
    paths = [] if command.startswith("rules") else [logs]
    found = epicenter(*command.split(), *paths, "--rules", pack, XDG_DATA_HOME=str(tmp_path))
    assert (found.returncode, found.stdout) == (78, b"")
    assert found.stderr.decode().startswith(f"epicenter: {pack}:7: mine.one: pattern")
    assert b"Traceback" not in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["run --once", "worker", "check"])
def test_no_command_starts_with_a_rule_whose_example_fails(command: str, tmp_path: Path, run: Any) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(A_PACK.replace("it went wrong: 2", "it went well: 2"))
    code, out, err = run(*command.split(), "--rules", pack, "--data-dir", tmp_path)
    assert code == (1 if command == "check" else 78)
    assert f"{pack}:3: mine.one: must match this line: it went well: 2\n" in (out or err)


def test_exit_78_for_wrong_settings(tmp_path: Path, logs: Path) -> None:
    config = tmp_path / "epicenter.toml"
    config.write_text("latenes = '5s'\n")
    found = epicenter("replay", logs, "--config", config)
    assert found.returncode == 78
    assert found.stderr.decode().startswith(f"epicenter: {config}:1: latenes: unknown setting: write allowed_lateness")
    assert epicenter("replay", logs, EPICENTER_ALLOWED_LATENESS="soon").returncode == 78


# match and replay


def test_match_prints_the_fields_of_the_contract(logs: Path, run: Any) -> None:
    code, out, err = run("match", "--json", logs)
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "8 lines, 2 matches, 0 harmless, no dead letters\n")
    assert [list(row) for row in rows] == [MATCH_FIELDS, [*MATCH_FIELDS, "block"]]
    assert rows[0] | {"text": ""} == {
        "file": str(logs / "kern.log"),
        "line": 1,
        "rule": "nvidia.xid_79",
        "class": "xid-79",
        "severity": "critical",
        "role": "root",
        "source": "kernel",
        "fields": {"code": "79", "pci": "0000:9a:00", "pid": "48213", "comm": "python3"},
        "text": "",
    }
    assert (rows[1]["line"], rows[1]["source"], rows[1]["text"]) == (7, "worker", "RuntimeError: gone")


def test_match_prints_harmless_matches_only_on_request(logs: Path, run: Any) -> None:
    assert "progress" not in run("match", "--json", logs)[1]
    everything = run("match", "--json", "--all", logs)[1]
    assert [json.loads(line)["role"] for line in everything.splitlines()] == ["root", *["progress"] * 5, "cascade"]


def test_match_names_the_first_dead_letter(tmp_path: Path, run: Any) -> None:
    (tmp_path / "a.jsonl").write_text('{"message":"fine"}\n{"message":17}\n')
    _, _, err = run("match", tmp_path)
    assert f"1 dead letter (first: {tmp_path}/a.jsonl:2: " in err


def test_match_reads_rules_of_other_packs(tmp_path: Path, run: Any) -> None:
    (tmp_path / "pack.yaml").write_text(A_PACK)
    (tmp_path / "a.log").write_text("it went wrong: 7\n")
    _, out, _ = run("match", "--json", "--rules", tmp_path / "pack.yaml", tmp_path / "a.log")
    assert [json.loads(line)["rule"] for line in out.splitlines()] == ["mine.one"]


def test_match_reads_standard_input(tmp_path: Path) -> None:
    found = epicenter("match", "--json", "-", stdin=f"quiet\n{TRACEBACK}")
    row = json.loads(found.stdout)
    assert (row["file"], row["line"], row["text"]) == ("stdin", 2, TRACEBACK)


def test_replay_prints_the_fields_of_the_contract(logs: Path, run: Any) -> None:
    code, out, _ = run("replay", "--json", logs)
    (incident,) = map(json.loads, out.splitlines())
    assert code == 0
    assert incident.keys() == INCIDENT_FIELDS | OF_THE_STORE
    assert incident["root_cause"].keys() == {
        *("class", "rule", "node", "rank", "gpu", "event_time", "confidence", "reasons", "explains", "explained_by"),
        "fields",
    }
    assert [link.keys() for link in incident["chain"]] == [
        {"event_time", "onset", "onset_earliest", "onset_latest", "node", "rank", "class", "role", "text"}
    ] * 2
    assert incident["blast_radius"] == {"nodes": 1, "ranks": 0, "jobs": 1, "gpus": 1}
    assert incident["progress"]["A"].keys() == {"last_step", "last_step_time", "step_time_s"}
    assert [evidence["line"] for evidence in incident["evidence"]] == [1, 7]
    assert (incident["class"], incident["jobs"], incident["status"]) == ("xid-79", ["A"], "open")


def test_replay_leaves_out_merged_incidents(tmp_path: Path, run: Any) -> None:
    lines = [vector("n1", 10, TRACEBACK, job="A"), vector("n3", 11, TRACEBACK, job="B")]
    lines += [vector("n2", 1, "loading", job="A"), vector("n2", 2, "Status: SUCCESS (exit 0)", job="B")]
    (tmp_path / "w.jsonl").write_bytes(b"\n".join(lines))
    for job in "AB":
        (tmp_path / f"n2-{job}.jsonl").write_bytes(vector("n2", 3, "loading", job=job))
    (tmp_path / "kern.log").write_bytes(kernel("n2", 20, XID))
    incidents = [json.loads(line) for line in run("replay", "--json", tmp_path)[1].splitlines()]
    assert [incident["jobs"] for incident in incidents] == [["A", "B"]]


def test_replay_prints_incidents_in_full(logs: Path, run: Any) -> None:
    _, out, _ = run("replay", "--full", logs)
    assert "root cause  xid-79 on n1" in out and "confidence 99%" in out
    assert "1. Drain the node" in out
    assert "job A: last step 4 at 09:00:20, 5 s a step" in out


# log text on a terminal

NASTY = {
    "colour": "\x1b[31mred\x1b[0m",
    "window-title": "\x1b]0;owned\x07",
    "c1-control": "\x9b2J",
    "carriage-return": "ok\rgone",
    "backspace": "a\x08b",
    "right-to-left": "\u202egnp.exe",
    "newline": "a\nincident: none",
    "markup": "[bold red]x[/] [/] [link=http://x]y[/link]",
    "backslashes": "ends in \\\\\\",
}


@pytest.mark.parametrize("command", ["match", "replay"])
def test_no_escape_sequence_reaches_a_terminal(command: str, tmp_path: Path, run: Any) -> None:
    illegal = "CUDA error: an illegal memory access was encountered"
    for number, (name, nasty) in enumerate(NASTY.items()):
        lines = [vector(f"n{number}", 5, f"{TRACEBACK} {name} {nasty}", job=f"A{nasty}")]
        lines += [vector(f"n{nasty}", 6, f"{illegal} {name} {nasty}", job=f"A{nasty}")]
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(lines))
    code, out, _ = run(command, tmp_path)
    assert code == 0
    assert [name for name in NASTY if f"{TRACEBACK} {name}" not in out or f"{illegal} {name}" not in out] == []
    assert sorted({character for character in out if not character.isprintable()}) == ["\n"]
    assert "\nincident: none" not in out


def test_text_that_looks_like_an_emoji_or_markup_is_printed_unchanged(tmp_path: Path, run: Any) -> None:
    (tmp_path / "a.log").write_text(f"{TRACEBACK} :fire: [red]x[/red] [/]\n")
    assert f"{TRACEBACK} :fire: [red]x[/red] [/]" in run("match", tmp_path)[1]


@pytest.mark.parametrize("arguments", [["rules", "list"], ["match", "{logs}"]], ids=["rules-list", "match"])
def test_a_broken_pipe_is_quiet(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "big.log").write_text(f"{TRACEBACK}\n" * 4_000)
    words = [word.format(logs=tmp_path / "big.log") for word in arguments]
    process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    stderr = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 141
    assert stderr == "" or re.fullmatch(r"\d+ lines, .*\n", stderr)


def test_an_incident_is_wrapped_to_the_terminal_and_never_in_a_pipe(
    logs: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, piped, _ = run("replay", logs)
    assert max(map(len, piped.splitlines())) > 100
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    _, coloured, _ = run("replay", logs)
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert "\x1b[1m" in coloured
    assert max(map(len, plain.splitlines())) <= 60
    assert plain.split() == piped.split()


def test_a_removed_command_names_its_replacement() -> None:
    ran = epicenter("demo", "--kafka")
    assert ran.returncode == 2
    assert ran.stderr.decode() == (
        "epicenter: demo --kafka was removed; run `make cluster` in a clone of the repository\n"
    )
