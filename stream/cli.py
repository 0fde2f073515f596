"""The command `epicenter`. Data goes to standard output, messages and progress to standard error."""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path
from typing import Any

import click

from rules.errors import ConfigError, InputError, PipelineError, TransientError
from rules.match import compiled
from stream.alerts_cli import alerts
from stream.deadletters_cli import deadletters
from stream.ending import end_at_once_as_process_1
from stream.handover_cli import explain, logs, mcp
from stream.incidents_cli import export, incidents
from stream.log_lines import hush, say, set_up_logs
from stream.options import CONFIG, DATA_DIR, JSON, RULES, STORE, TOPOLOGY
from stream.said_cli import ack, silences
from stream.settings import Settings, load_settings
from stream.unwise import unwise

FEWER_COLLECTIONS = (100_000, 50, 50)
"""Matches are many and hold no cycles: with Python's own thresholds a fifth of the time goes into looking for some."""
MANY_PATTERNS = 500
EXIT_PROBLEMS, EXIT_USAGE, EXIT_NO_INPUT, EXIT_AWAY, EXIT_BUG, EXIT_CONFIG = 1, 2, 66, 69, 70, 78

PATHS = click.argument("paths", nargs=-1, metavar="PATH...")
SOME_PATHS = click.argument("paths", nargs=-1, required=True, metavar="PATH...")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="epicenter")
def cli() -> None:
    """Say which failure, on which node of a GPU cluster, came first."""
    gc.set_threshold(*FEWER_COLLECTIONS)
    compiled.before_compiling = _tell_of_compiling


@cli.command()
@SOME_PATHS
@JSON
@RULES
@CONFIG
@click.option("--all", "keep_all", is_flag=True, help="Harmless and progress lines too.")
def match(paths: tuple[str, ...], as_json: bool, keep_all: bool, **given: Any) -> None:
    """Every line that a rule fits, in plain log files or JSONL envelopes.

    Example: epicenter match --json outputs/7877.log
    """
    from stream.commands import match_files

    match_files(_settings(**given), list(paths), as_json, keep_all)


@cli.command()
@SOME_PATHS
@JSON
@RULES
@CONFIG
@click.option("--now", help="The time it is for the job (ISO 8601); the clock's when left out.")
@click.option("--job-state", default="", help="What the scheduler says of the job: RUNNING, CANCELLED, TIMEOUT …")
@click.option("--outputs", default="outputs", type=click.Path(path_type=Path), help="Folder for Slurm ids.")
def triage(paths: tuple[str, ...], as_json: bool, now: str | None, job_state: str, outputs: Path, **given: Any) -> None:
    """What became of a job: a log, a job's folder, a Slurm id under outputs/, or a whole folder of jobs.

    Example: epicenter triage outputs/7877-llama.log
    """
    from stream.triage import triage_paths

    if triage_paths(_settings(**given), list(paths), outputs, now, job_state, as_json):
        sys.exit(EXIT_NO_INPUT)


@cli.command("eval")
@SOME_PATHS
@RULES
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def evaluate(paths: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Hold the rules against labelled cases (JSONL): recall and precision, causes, false alarms, and every miss.

    Example: epicenter eval cases.jsonl
    """
    from stream.evaluate import evaluate_files

    if evaluate_files(_settings(**given), list(paths), as_json):
        sys.exit(EXIT_PROBLEMS)


@cli.command()
@SOME_PATHS
@JSON
@RULES
@TOPOLOGY
@CONFIG
def replay(paths: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Recorded lines, in event-time order, through the whole core: the final state of every incident.

    Example: epicenter replay --json recorded/
    """
    from stream.commands import replay_files

    replay_files(_settings(**given), list(paths), as_json)


@cli.command()
@PATHS
@JSON
@RULES
@TOPOLOGY
@CONFIG
@click.option("--once", is_flag=True, help="Read to the end and stop.")
@DATA_DIR
@STORE
@click.option("--page-port", type=int, help="Port of the local page.")
def run(paths: tuple[str, ...], as_json: bool, once: bool, **given: Any) -> None:
    """Follow files, folders, standard input (-), or with no PATH the journal or kernel log of this machine.

    Example: epicenter run /var/log/kern.log outputs/
    """
    from stream.commands import run_embedded

    run_embedded(_for_long(**given), list(paths), as_json, once)


@cli.command()
@CONFIG
@click.option("--dsn", "--store", "store", help="ClickHouse DSN; the embedded store of --data-dir when left out.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the embedded store.")
@click.option("--port", "page_port", type=click.IntRange(0, 65535), help="Port on the loopback; 0: any free one.")
def page(**given: Any) -> None:
    """The local page over a store that somebody else writes; only this machine's browsers are answered.

    Example: epicenter page --dsn http://clickhouse:8123/epicenter --port 8017
    """
    from stream.page import serve_page

    serve_page(_for_long(**given))


@cli.command()
@CONFIG
@click.option("--kafka", "with_kafka", is_flag=True, hidden=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where the simulated cluster writes.")
@click.option("--nodes", type=click.IntRange(2, 512), default=32, show_default=True, help="Of the cluster.")
@click.option("--fault", default="gpu-off-bus", show_default=True, help="A kind of fault, or none.")
@click.option("--keep/--no-keep", default=None, help="Leave the page open until Ctrl-C; on a terminal it is.")
def demo(with_kafka: bool, folder: Path | None, nodes: int, fault: str, keep: bool | None, config: Path | None) -> None:
    """Simulate a cluster with a fault, live, and watch epicenter find it.

    Example: epicenter demo --fault host-oom
    """
    from stream.demo import run_demo

    if with_kafka:
        click.echo("epicenter: demo --kafka was removed; run `make cluster` in a clone of the repository", err=True)
        sys.exit(EXIT_USAGE)
    run_demo(_for_long(config=config), folder, nodes, fault, keep)


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--nodes", type=click.IntRange(2, 2048), default=32, show_default=True, help="Of the cluster.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Jobs side by side; as a rule one for eight nodes.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=40.0, show_default=True, help="How much time passes."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed writes the same logs.")
@click.option("--speed", type=click.FloatRange(0, min_open=True), help="Write at so many times real time.")
@click.option("--fault", "faults", multiple=True, help="A kind of fault; may be given once for each job.")
@click.option("--healthy", is_flag=True, help="No fault. Without either, one fault an hour by published shares.")
def simulate(folder: Path, faults: tuple[str, ...], healthy: bool, speed: float | None, **given: Any) -> None:
    """Write the logs of a simulated cluster, with the ground truth in truth.json.

    Example: epicenter simulate /tmp/cluster --nodes 64 --jobs 3 --fault host-oom
    """
    from stream.demo import scenario_of, write_simulation

    if healthy and faults:
        raise click.UsageError("--healthy and --fault exclude each other")
    write_simulation(folder, scenario_of(**given, faults=faults, is_healthy=healthy), speed)


cli.add_command(incidents)
cli.add_command(export)
cli.add_command(explain)
cli.add_command(logs)
cli.add_command(mcp)
cli.add_command(deadletters)
cli.add_command(ack)
cli.add_command(silences)
cli.add_command(alerts)


@cli.group()
def rules() -> None:
    """Look at the rules and check them.

    Example: epicenter rules test
    """


@rules.command("list")
@RULES
@JSON
def rules_list(rules: tuple[Path, ...], as_json: bool) -> None:
    """Every rule.

    Example: epicenter rules list
    """
    from stream.rule_commands import list_rules

    list_rules(rules, as_json)


@rules.command("show")
@click.argument("rule_id")
@RULES
def rules_show(rule_id: str, rules: tuple[Path, ...]) -> None:
    """One rule, with its meaning, next steps and examples.

    Example: epicenter rules show nvidia.xid_79
    """
    from stream.rule_commands import show_rule

    show_rule(rules, rule_id)


@rules.command("test")
@RULES
@click.option("--scenarios", type=click.Path(path_type=Path), multiple=True, help="More scenarios: file or folder.")
@click.option("--only-scenarios", is_flag=True, help="Pass over the rules' examples.")
def rules_test(rules: tuple[Path, ...], scenarios: tuple[Path, ...], only_scenarios: bool) -> None:
    """Hold every rule against its own examples, and play scenarios; exit 1 when one does not do as it should.

    Example: epicenter rules test --rules my-pack.yaml --scenarios my-scenarios/
    """
    from stream.rule_commands import test_rules

    sys.exit(EXIT_PROBLEMS if test_rules(rules, scenarios, only_scenarios) else 0)


@rules.command("lint")
@RULES
def rules_lint(rules: tuple[Path, ...]) -> None:
    """Check the packs' form; exit 1 with every problem, each with file and line.

    Example: epicenter rules lint --rules my-pack.yaml
    """
    from stream.rule_commands import lint_rules

    sys.exit(EXIT_PROBLEMS if lint_rules(rules) else 0)


@rules.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--from", type=click.Choice(["npd"]), expose_value=False, hidden=True)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of standard output.")
def rules_import(files: tuple[Path, ...], output: Path | None) -> None:
    """Turn monitors of node-problem-detector into a rule pack to review; whatever is lost is listed.

    Example: epicenter rules import kernel-monitor.json --output imported.yaml
    """
    from stream.import_rules import import_rules

    import_rules(files, output)


@cli.command()
@RULES
@TOPOLOGY
@CONFIG
@click.option("--kafka", help="Broker addresses, host:port, separated by commas.")
@STORE
@click.option("--web-port", type=int, help="Port of /metrics and /healthz.")
@DATA_DIR
def worker(**given: Any) -> None:
    """The Faust worker: raw topics in, incidents out.

    Example: epicenter worker --kafka broker:9092 --store http://clickhouse:8123/epicenter
    """
    from stream.worker import run_worker

    sys.exit(run_worker(_for_long(**given)))


@cli.command()
@CONFIG
@click.option("--kafka", help="Broker addresses.")
def topics(**given: Any) -> None:
    """Make the Kafka topics that are missing; those that exist are left as they are.

    Example: epicenter topics --kafka broker:9092
    """
    from stream.topics import make_topics

    make_topics(_settings(**given))


@cli.command()
@CONFIG
@STORE
@DATA_DIR
@click.option("--plan", is_flag=True, help="Only say what would be done, and why.")
@click.option("--sql", is_flag=True, help="The same with every statement in full.")
@click.option("--with-logs", is_flag=True, help="Raw logs too: the server reads the raw topic itself.")
@click.option("--with-roles", is_flag=True, help="Roles too, for worker, page, Grafana and migrate.")
@click.option("--kafka", help="Broker addresses for the raw logs, as the server reaches them.")
@click.option("--raw-topic", help="Topic with the raw logs.")
def migrate(plan: bool, sql: bool, with_logs: bool, with_roles: bool, **given: Any) -> None:
    """Bring the tables of the store up to date.

    Example: epicenter migrate --store http://clickhouse:8123/epicenter --plan
    """
    from stream.schema import migrate_store

    migrate_store(_settings(**given), plan or sql, sql, with_logs, with_roles)


@cli.command()
@RULES
@TOPOLOGY
@CONFIG
@click.option("--kafka", help="Broker addresses.")
@STORE
@DATA_DIR
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def check(as_json: bool, **given: Any) -> None:
    """Check settings, rules and every connection, with what to do about each finding; exit 1 when one is a problem.

    Example: epicenter check --config epicenter.toml
    """
    from stream.check import check_all, wrong_settings

    try:
        settings = _settings(**given)
    except ConfigError as error:
        sys.exit(EXIT_PROBLEMS if wrong_settings(error, as_json) else 0)
    sys.exit(EXIT_PROBLEMS if check_all(settings, as_json) else 0)


def _settings(config: Path | None = None, rules: tuple[Path, ...] = (), **given: Any) -> Settings:
    settings = load_settings(config, rule_packs=rules or None, **given)
    for text in unwise(settings):
        click.echo(f"epicenter: warning: {text}", err=True)
    return settings


def _for_long(**given: Any) -> Settings:
    settings = _settings(**given)
    set_up_logs(settings.log_format)
    return settings


def main() -> None:
    """Run the command; turn every error of ours into one message and its exit code."""
    end_at_once_as_process_1()
    hush()
    try:
        cli.main(prog_name="epicenter", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except PipelineError as error:
        say(f"epicenter: {error}", logging.ERROR)
        sys.exit(_exit_code(error))
    except Exception as error:
        say("epicenter: this is a bug of ours; please report it with the lines above", logging.CRITICAL, error)
        sys.exit(EXIT_BUG)


def _tell_of_compiling(patterns: int) -> None:
    if patterns > MANY_PATTERNS and sys.stderr.isatty():
        click.echo(f"compiling {patterns} patterns; this machine keeps them for the next time", err=True)


def _exit_code(error: PipelineError) -> int:
    codes = {ConfigError: EXIT_CONFIG, InputError: EXIT_NO_INPUT, TransientError: EXIT_AWAY}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_BUG)
