"""`epicenter match`, `triage`, `eval` and `replay`: the analysis of finished logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from epicenter.stream.cli.options import (
    CONFIG,
    EXIT_NO_INPUT,
    EXIT_PROBLEMS,
    FULL,
    JOB,
    JSON,
    NODE,
    ONE_JSON,
    PATH,
    RULES,
    TIME_ZONE,
    TOPOLOGY,
    end_with,
    settings_of,
    stated_of,
    unpacked,
)

PATHS = click.argument("paths", nargs=-1, required=True, metavar="PATH...")


@click.command()
@PATHS
@JSON
@RULES
@CONFIG
@NODE
@JOB
@TIME_ZONE
@click.option("--all", "keep_all", is_flag=True, help="Print harmless and progress lines too.")
def match(paths: tuple[str, ...], as_json: bool, node: str, job: str, keep_all: bool, **options: Any) -> None:
    """Print every line that matches a rule. Reads plain log files and JSONL envelopes, packed or in archives too.

    Example: epicenter match --json outputs/7877.log
    """
    from epicenter.stream.cli.one_machine import match_files

    settings = settings_of(**options)
    with unpacked(paths) as (read, archives):
        end_with(match_files(settings, read, stated_of(settings, node, job, archives), as_json, keep_all))


@click.command()
@PATHS
@JSON
@RULES
@CONFIG
@click.option("--now", help="Time at which to judge the job (ISO 8601). Default: now.")
@click.option("--job-state", help="State of the job in the scheduler: RUNNING, CANCELLED, TIMEOUT …")
@click.option("--outputs", default="outputs", type=PATH, help="Folder to look up Slurm ids in.")
@NODE
@JOB
@TIME_ZONE
@click.option("--full", "is_full", is_flag=True, help="Print the whole report, in Markdown for a ticket.")
def triage(
    paths: tuple[str, ...],
    as_json: bool,
    now: str | None,
    job_state: str | None,
    outputs: Path,
    node: str,
    job: str,
    is_full: bool,
    **options: Any,
) -> None:
    """Explain how a job ended. Give a log, a job's folder, a Slurm id under outputs/, or a folder of logs.

    Example: epicenter triage outputs/7877-llama.log
    """
    from epicenter.stream.cli.triage import triage_paths

    settings = settings_of(**options)
    with unpacked(paths) as (read, archives):
        stated = stated_of(settings, node, job, archives)
        if triage_paths(settings, read, outputs, stated, now, job_state, as_json, is_full):
            sys.exit(EXIT_NO_INPUT)


@click.command("eval")
@PATHS
@RULES
@CONFIG
@ONE_JSON
def evaluate(paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Score the rules on labelled cases (JSONL). Prints recall, precision, causes, false alarms, and every miss.

    Example: epicenter eval cases.jsonl
    """
    from epicenter.stream.rule_tools.evaluate import evaluate_files

    if evaluate_files(settings_of(**options), list(paths), as_json):
        sys.exit(EXIT_PROBLEMS)


@click.command()
@PATHS
@JSON
@FULL
@RULES
@TOPOLOGY
@CONFIG
@NODE
@JOB
@TIME_ZONE
def replay(paths: tuple[str, ...], as_json: bool, is_full: bool, node: str, job: str, **options: Any) -> None:
    """Replay recorded lines and print the incidents in them. In event-time order; each incident in its final state.

    It stores nothing. To see finished logs on the page, with a grid of ranks: epicenter run --once, then page.

    Example: epicenter replay --json recorded/
    """
    from epicenter.stream.cli.one_machine import replay_files

    settings = settings_of(**options)
    with unpacked(paths) as (read, archives):
        end_with(replay_files(settings, read, stated_of(settings, node, job, archives), as_json, is_full))
