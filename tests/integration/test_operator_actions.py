"""`epicenter ack` and `epicenter silences`, by real commands on every kind of store."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.dev.process import EPICENTER
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.cli.main import main
from tests.support.serving import epicenter
from tests.support.waiting import eventually
from tests.unit.sinks.clickhouse.test_rows import an_incident

pytestmark = pytest.mark.integration

XID = (
    "2026-03-02T09:00:01.000000+00:00 n1 kernel: [8005.2] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus.\n"
)
PATIENCE_S = 60.0
HOUR_NS = 3600 * NS_PER_S


class Terminal:
    """A terminal for one store, and the only incident in it."""

    def __init__(self, *place: object):
        self.place = list(map(str, place))
        self.incident_id = ""

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command on the store."""
        command = [*EPICENTER, *map(str, arguments), *self.place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    def json_of(self, *arguments: object) -> Any:
        """The object that a command prints."""
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out) if out else None


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """At an embedded store that no process has open."""
    folder = tmp_path_factory.mktemp("free")
    (folder / "kern.log").write_text(XID)
    terminal = Terminal("--data-dir", folder / "data")
    terminal.incident_id = terminal.json_of("run", "--once", folder / "kern.log")["incident_id"]
    return terminal


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """At an embedded store that a running epicenter has open."""
    folder = tmp_path_factory.mktemp("held")
    logs = folder / "logs"
    logs.mkdir()
    (logs / "kern.log").write_text(XID)
    terminal = Terminal("--data-dir", folder / "data")
    with epicenter(folder, "run", logs, *terminal.place, "--page-port", 0) as base:
        (incident,) = eventually(lambda: fetched(base + "/api/incidents"), PATIENCE_S, "the incident to be there")
        terminal.incident_id = incident["incident_id"]
        yield terminal


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Terminal:
    """At a ClickHouse server."""
    dsn = urlsplit(request.getfixturevalue("clickhouse").dsn)._replace(path="/operator_actions").geturl()
    client = connect(dsn)
    migrate(client)
    ClickHouseSink(client).write(incidents=[an_incident()])
    client.close()
    terminal = Terminal("--store", dsn)
    terminal.incident_id = an_incident().incident_id
    return terminal


def fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def check_actions(terminal: Terminal, json_of: Callable[..., Any]) -> None:
    """`json_of` gives the object that a command on the store of the terminal prints."""
    given = json_of("ack", terminal.incident_id[:-1], "--note", "it's \x1b[31mmine")
    who = (given["who"], given["note"], given["is_taken_back"])
    assert (given["incident_id"], *who) == (terminal.incident_id, getpass.getuser(), "it's \x1b[31mmine", False)
    assert abs(given["given_ns"] - time_ns()) < PATIENCE_S * NS_PER_S
    matchers = ("--match", "class=xid-*", "--match", "node=n1")
    added = json_of("silences", "add", *matchers, "--for", "4h", "--reason", "drained", "--who", "ada")
    assert (added["matchers"], added["who"], added["reason"]) == ({"class": "xid-*", "node": "n1"}, "ada", "drained")
    assert added["ends_ns"] - added["begins_ns"] == 4 * HOUR_NS
    assert json_of("silences", "list") == added
    assert json_of("silences", "end", added["silence_id"][:7])["ends_ns"] < added["ends_ns"]


def test_commands_write_to_a_store_that_no_process_has_open(free: Terminal) -> None:
    check_actions(free, free.json_of)


@pytest.mark.parametrize("store", ["held", "server"])
def test_commands_write_to_a_running_epicenter_and_to_a_server(
    store: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first command is a process; none opens an embedded store in this process."""
    terminal: Terminal = request.getfixturevalue(store)
    acknowledged = terminal.json_of("ack", terminal.incident_id, "--who", "ada")
    assert (acknowledged["incident_id"], acknowledged["who"]) == (terminal.incident_id, "ada")

    def json_of(*words: str) -> Any:
        code, out, err = called(terminal, capsys, *words, "--json")
        assert code == 0, err
        return json.loads(out)

    check_actions(terminal, json_of)


@contextmanager
def arguments(*words: str) -> Iterator[None]:
    before, sys.argv = sys.argv, ["epicenter", *words]
    try:
        yield
    finally:
        sys.argv = before


def called(terminal: Terminal, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    code: Any = 0
    with arguments(*words, *terminal.place):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return code, *capsys.readouterr()


@pytest.fixture
def run(held: Terminal, capsys: pytest.CaptureFixture[str]) -> Any:
    """A command in this process, which leaves the store to the running epicenter."""
    return partial(called, held, capsys)


def test_an_acknowledgement_is_shown_sanitized_and_any_user_takes_it_back(held: Terminal, run: Any) -> None:
    shown = f"incident {held.incident_id}: acknowledged by ada: \\x1b[31m4711\n"
    assert run("ack", held.incident_id, "--who", "ada", "--note", "\x1b[31m4711") == (0, shown, "")
    code, out, _ = run("ack", held.incident_id, "--who", "bob", "--undo")
    assert (code, out) == (0, f"incident {held.incident_id}: acknowledgement removed by bob\n")
    code, _, err = run("ack", held.incident_id, "--undo")
    assert (code, "this incident is not acknowledged" in err) == (2, True)


def test_silences_are_shown_for_people(run: Any) -> None:
    code, out, _ = run("silences", "add", "--match", "node=n9", "--for", "90m", "--reason", "why", "--who", "ada")
    silence_id = out.split()[0]
    assert (code, out.startswith(f"{silence_id}  node=n9  until 20"), out.endswith("Z  ada: why\n")) == (0, True, True)
    assert run("silences", "list")[1] == out
    assert " ended 20" in run("silences", "end", silence_id)[1]
    assert run("silences", "list") == (0, "", "no active silences\n")
    assert f"{silence_id}  node=n9  ended 20" in run("silences", "list", "--all")[1]


ADD = ("silences", "add", "--reason", "why")
WRONG = [
    (2, "unknown label colour: use class", (*ADD, "--match", "colour=red", "--for", "1h")),
    (2, "you can't silence a whole cluster", (*ADD, "--match", "cluster=a", "--for", "1h")),
    (2, "with more than * or a negation", (*ADD, "--match", "node=*", "--match", "class=!xid-79", "--for", "1h")),
    (2, "write LABEL=VALUE, such as node=n7", (*ADD, "--match", "node", "--for", "1h")),
    (2, "node is given twice", (*ADD, "--match", "node=a", "--match", "node=b", "--for", "1h")),
    (2, "'soon' is not a time", (*ADD, "--match", "node=a", "--until", "soon")),
    (2, "until: must be in the future", (*ADD, "--match", "node=a", "--until", "2026-03-02T09:00:00Z")),
    (2, "at most 90d ahead", (*ADD, "--match", "node=a", "--until", "9999-12-31T23:59:59Z")),
    (2, "duration: 'soon' is not a duration", (*ADD, "--match", "node=a", "--for", "soon")),
    (2, "duration, until: give one of the two", (*ADD, "--match", "node=a")),
    (2, "reason: enter why", (*ADD[:3], " ", "--match", "node=a", "--for", "1h")),
    (2, "enter your name", ("ack", "{incident}", "--who", "")),
    (2, "length <= 2000 - at `$.note`", ("ack", "{incident}", "--note", "x" * 2_001)),
    (2, "an argument is not UTF-8", ("ack", "{incident}", "--note", "\udcff")),
    (66, "0000: no such incident", ("ack", "0000", "--who", "ada")),
    (66, "not an id: ids have only letters and digits", ("ack", "../silences", "--who", "ada")),
    (66, "nonesuch: no such active silence", ("silences", "end", "nonesuch")),
    (2, "give --match or --incident", (*ADD, "--for", "1h")),
]


@pytest.mark.parametrize(("code", "message", "words"), WRONG, ids=[message for _, message, _ in WRONG])
def test_a_wrong_action_is_refused_with_one_line(
    held: Terminal, run: Any, code: int, message: str, words: tuple[str, ...]
) -> None:
    found, out, err = run(*(word.format(incident=held.incident_id) for word in words))
    assert (found, out, message in err.splitlines()[-1]) == (code, "", True)


def test_a_missing_store_is_reported(tmp_path: Path) -> None:
    code, out, err = Terminal("--data-dir", tmp_path).run("silences", "list")
    assert (code, out, "no store here yet" in err) == (66, "", True)
