"""What several commands share: options, exit codes, and the settings from options and files."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

import click

from epicenter.rules.errors import ConfigError, PipelineError, TransientError
from epicenter.rules.model.times import NS_PER_S, duration_ns

if TYPE_CHECKING:
    from epicenter.ingest.provenance.stated import Archive, Stated
    from epicenter.stream.settings import Settings

EXIT_PROBLEMS: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_INPUT: Final = 66
FORMER_STORE: Final = "epicenter.dsn"

LAST_NS: Final = 2**63 - 1
"""The latest time that the store can hold, in 2262."""

PATH: Final = click.Path(path_type=Path, readable=False)
"""Who reads it says why it can't be read: click would call that wrong usage."""

OUTPUT_PATH: Final = click.Path(path_type=Path, readable=False, dir_okay=False)
DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

CONFIG = click.option("--config", type=PATH, help="Read settings from this file (TOML).")
RULES = click.option("--rules", type=PATH, multiple=True, help="Add your rule packs: file or folder.")
TOPOLOGY = click.option("--topology", type=PATH, help="File with racks, switches, rails (YAML or JSON).")
NODE = click.option("--node", default="", help="Node of lines that name none.")
JOB = click.option("--job", default="", help="Job of lines that name none; never of a kernel's.")
TIME_ZONE = click.option("--time-zone", help="Time zone of times that name none, as Europe/Berlin. Default: UTC.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
FULL = click.option("--full", "is_full", is_flag=True, help="Print everything, not only what fits on one screen.")
ONE_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
DATA_DIR = click.option("--data-dir", type=PATH, help="Folder of the embedded store.")


class Since(click.ParamType):
    """A time: `2h` ago, or ISO 8601, in UTC unless it names a zone."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, context: click.Context | None) -> int:
        """The time in nanoseconds since the epoch."""
        try:
            return max(time_ns() - duration_ns(value), 0)
        except ValueError:
            pass
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value[:80]!r}: write how long ago, such as 2h, or a time, such as 2026-03-02T09:00:00Z")
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return min(max(int(aware.timestamp()), 0) * NS_PER_S, LAST_NS)


def _with_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--store`, and its former name `--dsn`, which is hidden and prints a warning."""
    former = click.option("--dsn", hidden=True, is_eager=True, expose_value=False, callback=_remember_former_store)
    present = click.option("--store", callback=_store, help="DSN of the ClickHouse store. Default: the embedded store.")
    return present(former(command))


STORE: Final = _with_store


def _remember_former_store(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        warn("`--dsn` is now called `--store`: write that")
        context.meta[FORMER_STORE] = value


def _store(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    former: str | None = context.meta.get(FORMER_STORE)
    if former is not None and value is not None:
        raise click.UsageError("--dsn is the former name of --store: give only --store")
    return former if value is None else value


def warn(text: str) -> None:
    """Print a warning on standard error."""
    click.echo(f"epicenter: warning: {text}", err=True)


@contextmanager
def writing(place: object) -> Iterator[None]:
    """Inside the block, an error of the disk says that the file or folder can't be written, and why."""
    try:
        yield
    except OSError as error:
        raise of_the_machine(error, f"{error.filename or place}: can't be written") from error


def of_the_machine(error: OSError, what: str) -> PipelineError:
    """Our error for what the machine refuses: a full disk is temporary, a missing right is a wrong setting."""
    text = f"{what}: {os.strerror(error.errno or errno.EIO)}"
    return TransientError(text) if error.errno in DISK_FULL else ConfigError([text])


def end_with(unread: Iterable[str]) -> None:
    """Print what could not be read, a sentence each; if there is any, the command ends with exit code 66."""
    from epicenter.stream.process.logs import print_message

    for sentence in (unread := list(unread)):
        print_message(f"epicenter: {sentence}", logging.ERROR)
    if unread:
        sys.exit(EXIT_NO_INPUT)


def settings_of(config: Path | None = None, rules: tuple[Path, ...] = (), **options: Any) -> Settings:
    """The settings. Prints a warning on standard error for each that is insecure or has a former name.

    Raises:
        ConfigError: with every problem.
    """
    from epicenter.stream.load_settings import load_settings
    from epicenter.stream.process.insecure_settings import insecure_settings

    settings = load_settings(config, rule_packs=rules or None, **options)
    for text in (*settings.warnings, *insecure_settings(settings)):
        warn(text)
    return settings


def stated_of(settings: Settings, node: str, job: str, archives: tuple[Archive, ...] = ()) -> Stated:
    """What the user says about the lines of logs, by options and settings."""
    from epicenter.ingest.provenance.log_names import LogName
    from epicenter.ingest.provenance.stated import Stated

    return Stated(node, job, settings.time_zone, tuple(map(LogName.of, settings.log_names)), archives)


@contextmanager
def unpacked(paths: Sequence[str]) -> Iterator[tuple[list[str], tuple[Archive, ...]]]:
    """The paths with a folder in place of each archive, until the end of the block or a SIGTERM."""
    from epicenter.ingest.collect.archives import unpacked_archives
    from epicenter.stream.cli.text.terminal import unpacking

    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with unpacked_archives(paths, unpacking) as found:
            yield found
    finally:
        signal.signal(signal.SIGTERM, before)


def long_running_settings(**options: Any) -> Settings:
    """The settings for a command that runs until it is stopped; its log lines use their log format from now on."""
    from epicenter.stream.process.logs import set_up_logs

    settings = settings_of(**options)
    set_up_logs(settings.log_format)
    return settings
