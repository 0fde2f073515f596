"""Every command reads its settings in one way: from the same places, with a warning for each former name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from epicenter.stream.cli.main import cli

ARGUMENTS = {
    "ack": ("3f2a", "--who", "ada"),
    "alerts route": ("3f2a",),
    "dead-letters list": (),
    "dead-letters replay": ("--all",),
    "dead-letters show": ("3f2a",),
    "eval": ("cases.jsonl",),
    "explain": ("3f2a",),
    "export": ("3f2a",),
    "incidents list": (),
    "incidents show": ("3f2a",),
    "logs": ("kern.log:1",),
    "match": ("kern.log",),
    "replay": ("kern.log",),
    "silences add": ("--match", "node=n7", "--for", "4h", "--reason", "drained", "--who", "ada"),
    "silences end": ("3f2a",),
    "silences list": (),
    "triage": ("kern.log",),
    "unnamed": (),
}
"""Commands that read settings, with arguments for which there is no input, so that each ends at once."""

LONG = {"check", "demo", "mcp", "migrate", "page", "run", "topics", "worker"}
"""Commands that read settings, but don't end at once or need a server."""


def _commands(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def test_every_command_with_settings_is_listed() -> None:
    with_settings = {
        name for name, command in _commands(cli) if any(option.name == "config" for option in command.params)
    }
    assert with_settings == ARGUMENTS.keys() | LONG


@pytest.mark.parametrize("command", ARGUMENTS)
def test_command_reads_its_file_and_warns_of_a_former_name_once(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "epicenter.toml"
    config.write_text(f'lateness = "5s"\ndata_dir = "{tmp_path}/data"\n')
    code, _, err = run(*command.split(), *ARGUMENTS[command], "--config", config)
    warning = f"epicenter: warning: {config}:1: lateness: is now called allowed_lateness: write that\n"
    assert (code, err.startswith(warning), err.count("warning")) == (2 if command == "alerts route" else 66, True, 1), (
        err
    )
