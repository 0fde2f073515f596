"""Groups of commands: imported when they are needed, listed by purpose, with a suggestion for a mistyped name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from itertools import chain
from typing import Any

import click

from epicenter.stream.cli.options import warn


class SuggestingGroup(click.Group):
    """A group that proposes commands for a mistyped one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name."""
        name = args[0]
        if name[:1].isalnum() and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            raise click.UsageError(f"no such command: {name}: {self._instead(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: click.Context, name: str) -> str:
        """The commands named almost like this, else the commands of groups and the options."""
        near = get_close_matches(name, self.list_commands(ctx))
        others = dict(self._others(ctx))
        last_words = get_close_matches(name, set(others.values()))
        proposed = near or [other for other, last_word in others.items() if last_word in last_words]
        return f"write {', '.join(proposed)}" if proposed else f"see `{ctx.command_path} -h`"

    def _others(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        """Commands of groups and options, each with its last word."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if isinstance(command, click.Group):
                yield from ((f"{name} {inner}", inner) for inner in command.list_commands(ctx))
        for option in chain.from_iterable(parameter.opts for parameter in self.get_params(ctx)):
            if option.startswith("--"):
                yield option, option.removeprefix("--")


class LazyGroup(SuggestingGroup):
    """A group that imports a command when it is needed, as in click's documentation, and lists commands by purpose.

    `lazy_commands`: purpose -> name -> module:object. `former_commands`: former name -> present name; the former one
    still runs, with a warning.
    """

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, Mapping[str, str]],
        former_commands: Mapping[str, str],
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self._names_by_purpose = {purpose: sorted(commands) for purpose, commands in lazy_commands.items()}
        self._places = {name: place for commands in lazy_commands.values() for name, place in commands.items()}
        self._former_commands = former_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported if necessary; None if there is none."""
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._places[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, with a warning for a former name."""
        if now := self._former_commands.get(args[0]):
            if not ctx.resilient_parsing:
                warn(f"`{args[0]}` is now called `{now}`: write that")
            args = [now, *args[1:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in one section for each purpose."""
        width = max(map(len, self._places))
        for purpose, names in self._names_by_purpose.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            limit = formatter.width - width - 4
            with formatter.section(purpose):
                formatter.write_dl(
                    [(name.ljust(width), command.get_short_help_str(limit)) for name, command in commands if command]
                )


def reworded(error: click.ClickException) -> click.ClickException:
    """The error in our words: a mistyped option gets the visible options that are named almost like it."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    options = [
        name
        for parameter in error.ctx.command.get_params(error.ctx)
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in parameter.opts
        if name.startswith("--")
    ]
    near = get_close_matches(error.option_name, options)
    proposed = f"write {', '.join(near)}" if near else f"see `{error.ctx.command_path} -h`"
    return click.UsageError(f"no such option: {error.option_name}: {proposed}", error.ctx)
