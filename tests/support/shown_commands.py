"""Checks the commands that documents show: ours by click, `make` by the Makefile, others by their files.

The options of foreign programs are not known here. So each program is named below with the reason why no test runs it,
and files of ours in its arguments must exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise

import click
import yaml

from epicenter.stream.cli.main import cli
from tests.support.documents import ROOT

NOT_RUN_FOREIGN = {
    **dict.fromkeys(("kubectl", "helm", "kind", "docker"), "needs a cluster or a daemon"),
    **dict.fromkeys(
        ("systemctl", "journalctl", "rsyslogd", "sysctl", "useradd", "apt-get", "sudo"), "needs a separate machine"
    ),
    **dict.fromkeys(
        ("fluent-bit", "vector", "clickhouse-client", "kafka-topics.sh", "promtool", "amtool"), "of others"
    ),
    **dict.fromkeys(("git", "pip", "python3", "cosign", "openssl", "keytool"), "its effect lies outside of a test"),
    **dict.fromkeys(
        ("cd", "cp", "cat", "echo", "export", "mkdir", "install", "chmod", "tee", "printf", "touch", "rm"),
        "the shell's",
    ),
    **dict.fromkeys(
        ("curl", "jq", "grep", "sed", "sort", "head", "tail", "base64", "sleep", "kill", "ls"),
        "looks at what others print",
    ),
}
"""Programs that are not ours -> why no test runs them."""

OUR_FOLDERS = re.compile(r"^(?:\./)?((?:deploy|docs|rules|tests|bench|stream|sinks|ingest)/[^\s:=]*)$")
CHART = ROOT / "deploy/helm/epicenter"


def complaint(command: list[str]) -> str:
    """What is wrong with a command, or nothing."""
    program, *given = command
    check = CHECKS.get(program.removeprefix(".venv/bin/"))
    if check:
        return check(given)
    if program not in NOT_RUN_FOREIGN:
        return f"{program} is not known: run it in a test, or name it in tests/support/shown_commands.py with a reason"
    if "epicenter" in given[:-1] and command_of(cli, (inner := given[given.index("epicenter") + 1 :])[0]):
        return of_epicenter(inner)
    return files_of(given)


def of_epicenter(given: list[str]) -> str:
    """Checked with the options and arguments of the real command."""
    command: click.Command = cli
    names, rest = ["epicenter"], given
    while isinstance(command, click.Group):
        found = command_of(command, rest[0]) if rest else None
        if not found:
            is_general = rest and set(rest) <= {"--help", "-h", "--version"}
            return "" if is_general else f"{' '.join(names)} has no command {rest[:1]}"
        names, command, rest = [*names, rest[0]], found, rest[1:]
    try:
        command.make_context(" ".join(names), list(rest)).close()
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        return f"{' '.join(names)}: {error.format_message()}"
    return ""


def in_words(text: str) -> str:
    """The same for a command in running text, which may leave arguments out: its words and options exist."""
    command: click.Command = cli
    for word in text.replace("…", "").split()[1:]:
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*(\|[a-z][a-z-]*)*", word):
            found = {name: command_of(command, name) for name in word.split("|")}
            if missing := [name for name, is_there in found.items() if not is_there]:
                return f"epicenter has no command {missing[0]}"
            command = next(filter(None, found.values()))
        elif word.startswith("--") and word.partition("=")[0] not in options_of(command):
            return f"{command.name} has no option {word}"
    return ""


def command_of(group: click.Group, name: str) -> click.Command | None:
    """The command of this name; None without one."""
    return group.get_command(click.Context(group), name)


def options_of(command: click.Command) -> set[str]:
    """Every option's names."""
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {
        "--help",
        "--version",
    }


def of_make(given: list[str]) -> str:
    """Targets exist, and variables are used."""
    makefile = (ROOT / "Makefile").read_text()
    for word in given:
        name, is_variable, _ = word.partition("=")
        known = rf"\b{name}\b" if is_variable else rf"^{re.escape(name)}:"
        if not re.search(known, makefile, re.MULTILINE):
            return f"the Makefile has no {word}"
    return ""


def of_python(given: list[str]) -> str:
    """A module of ours that exists, or a file."""
    if given[:1] == ["-m"] and not find_spec(given[1]):
        return f"there is no module {given[1]}"
    return files_of(given)


def of_helm(given: list[str]) -> str:
    """The chart and its files exist, and its values have what is set."""
    values = (CHART / "values.yaml") if CHART.exists() else None
    for flag, word in pairwise(given):
        if flag in ("--set", "--set-string", "--set-file") and values:
            for pair in word.split(","):
                if not has_value(yaml.safe_load(values.read_text()), pair.partition("=")[0]):
                    return f"{pair}: not in {values.relative_to(ROOT)}"
    return files_of(given)


def has_value(values: object, path: str) -> bool:
    """Whether a chart has a value of this name; below an empty mapping or list, every name is allowed."""
    for name in re.split(r"(?<!\\)\.|\[\d+\]\.?", path):
        if values in ({}, []):
            return True
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def files_of(given: list[str]) -> str:
    """Files of ours that are named exist."""
    for word in given:
        found = OUR_FOLDERS.match(word.rpartition("=")[2])
        if found and not list(ROOT.glob(found[1].rstrip("/"))):
            return f"{found[1]} does not exist"
    return ""


CHECKS: dict[str, Callable[[list[str]], str]] = {
    "epicenter": of_epicenter,
    "make": of_make,
    "helm": of_helm,
    "python": of_python,
    "pytest": files_of,
    "ruff": files_of,
    "mypy": files_of,
}
