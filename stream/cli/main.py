"""The command `epicenter`. Data goes to standard output, messages and progress to standard error."""

from __future__ import annotations

import gc
import logging
import sys
from typing import NoReturn

import click

from epicenter.rules.errors import ConfigError, InputError, PipelineError, TransientError
from epicenter.stream.cli.groups import LazyGroup, reworded
from epicenter.stream.cli.options import DISK_FULL, EXIT_NO_INPUT, REFUSED, of_the_machine
from epicenter.stream.process.logs import print_message, set_up_logs
from epicenter.stream.process.shutdown import EXIT_INTERRUPTED, SHUTDOWN, exit_on_sigterm_as_pid_1

FEWER_COLLECTIONS = (100_000, 50, 50)
"""Matches are many and hold no cycles: Python's default thresholds cost a fifth of the time."""
MANY_PATTERNS = 500
EXIT_UNREACHABLE, EXIT_BUG, EXIT_CONFIG = 69, 70, 78
EXIT_PIPE_CLOSED = 141

COMMANDS = {
    "Look": {
        "explain": "epicenter.stream.cli.evidence:explain",
        "export": "epicenter.stream.cli.incidents:export",
        "incidents": "epicenter.stream.cli.incidents:incidents",
        "logs": "epicenter.stream.cli.evidence:logs",
        "match": "epicenter.stream.cli.analyze:match",
        "replay": "epicenter.stream.cli.analyze:replay",
        "triage": "epicenter.stream.cli.analyze:triage",
        "unnamed": "epicenter.stream.cli.unnamed:unnamed",
    },
    "Run": {
        "demo": "epicenter.stream.cli.local:demo",
        "mcp": "epicenter.stream.cli.evidence:mcp",
        "page": "epicenter.stream.cli.local:page",
        "run": "epicenter.stream.cli.local:run",
        "simulate": "epicenter.stream.cli.local:simulate",
        "worker": "epicenter.stream.cli.cluster:worker",
    },
    "Tell": {
        "ack": "epicenter.stream.cli.operator_actions:ack",
        "alerts": "epicenter.stream.cli.alerts:alerts",
        "silences": "epicenter.stream.cli.operator_actions:silences",
    },
    "Rules": {
        "eval": "epicenter.stream.cli.analyze:evaluate",
        "rules": "epicenter.stream.cli.rules:rules",
    },
    "Administer": {
        "check": "epicenter.stream.cli.cluster:check",
        "dead-letters": "epicenter.stream.cli.dead_letters:dead_letters",
        "migrate": "epicenter.stream.cli.cluster:migrate",
        "topics": "epicenter.stream.cli.cluster:topics",
    },
}
"""Purpose -> name -> module:object. A module named here is imported for its commands and for help, so it imports no
more than click at its top: what a command needs, it imports when it runs."""

FORMER_COMMANDS = {"deadletters": "dead-letters"}
"""Former name -> present name."""


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    former_commands=FORMER_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="epicenter")
def cli() -> None:
    """Find which failure, on which node of a GPU cluster, came first."""
    from epicenter.rules.match import compiled

    gc.set_threshold(*FEWER_COLLECTIONS)
    compiled.before_compiling = _announce_compiling


def main() -> None:
    """Run the command; turn every known error into one message and its exit code."""
    try:
        _run_command()
    except SystemExit as end:
        SHUTDOWN.leave_if_late(int(end.code or 0))
        raise
    SHUTDOWN.leave_if_late(0)


def _run_command() -> None:
    exit_on_sigterm_as_pid_1()
    set_up_logs("text", lazily=True)
    try:
        cli.main(prog_name="epicenter", standalone_mode=False)
    except click.ClickException as error:
        reworded(error).show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except SystemExit as end:
        sys.exit(EXIT_PIPE_CLOSED if isinstance(end.__context__, BrokenPipeError) else end.code)
    except PipelineError as error:
        _end_with(error)
    except OSError as error:
        if error.errno not in (*DISK_FULL, *REFUSED):
            _end_with_bug(error)
        _end_with(of_the_machine(error, f"{error.filename or 'standard output'}: can't be used"))
    except Exception as error:
        if _is_interrupt(error):
            sys.exit(EXIT_INTERRUPTED)
        _end_with_bug(error)


def _is_interrupt(error: BaseException | None) -> bool:
    """Python wraps a Ctrl-C during `__set_name__`, while modules are imported, in a RuntimeError."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _end_with(error: PipelineError) -> NoReturn:
    print_message(f"epicenter: {error}", logging.ERROR)
    sys.exit(_exit_code(error))


def _end_with_bug(error: Exception) -> NoReturn:
    text = "epicenter: this is a bug in epicenter; please report it with the lines above"
    print_message(text, logging.CRITICAL, error)
    sys.exit(EXIT_BUG)


def _announce_compiling(patterns: int) -> None:
    if patterns > MANY_PATTERNS and sys.stderr.isatty():
        click.echo(f"compiling {patterns} patterns; they are cached for the next run", err=True)


def _exit_code(error: PipelineError) -> int:
    codes = {ConfigError: EXIT_CONFIG, InputError: EXIT_NO_INPUT, TransientError: EXIT_UNREACHABLE}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_BUG)
