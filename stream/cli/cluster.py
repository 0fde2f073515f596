"""`epicenter worker`, `topics`, `migrate` and `check`: the commands for Kafka and ClickHouse."""

from __future__ import annotations

import sys
from typing import Any

import click

from epicenter.rules.errors import ConfigError
from epicenter.stream.cli.options import (
    CONFIG,
    DATA_DIR,
    EXIT_PROBLEMS,
    JSON,
    ONE_JSON,
    RULES,
    STORE,
    TOPOLOGY,
    long_running_settings,
    settings_of,
)


@click.command()
@RULES
@TOPOLOGY
@CONFIG
@click.option("--kafka", help="Kafka brokers, as host:port, separated by commas.")
@STORE
@click.option("--web-port", type=int, help="Serve /metrics, /livez and /readyz on this port.")
@DATA_DIR
def worker(**options: Any) -> None:
    """Read logs from Kafka, write incidents, notify targets.

    Example: epicenter worker --kafka broker:9092 --store http://clickhouse:8123/epicenter
    """
    from epicenter.stream.worker import run_worker

    sys.exit(run_worker(long_running_settings(**options)))


@click.command()
@CONFIG
@click.option("--kafka", help="Kafka brokers, as host:port, separated by commas.")
@JSON
def topics(as_json: bool, **options: Any) -> None:
    """Create the Kafka topics that are missing. Existing ones stay as they are.

    Example: epicenter topics --kafka broker:9092
    """
    from epicenter.stream.kafka.topics import make_topics

    make_topics(settings_of(**options), as_json)


@click.command()
@CONFIG
@STORE
@DATA_DIR
@click.option("--plan", is_flag=True, help="Only print what would be done, and why.")
@click.option("--sql", is_flag=True, help="Like --plan, with every statement in full.")
@click.option(
    "--with-logs", is_flag=True, help="Create tables for raw logs too. The server reads the raw topic itself."
)
@click.option("--with-roles", is_flag=True, help="Create roles too, for worker, page, Grafana and migrate.")
@click.option("--kafka", help="Kafka brokers for the raw logs, as the ClickHouse server reaches them.")
@click.option("--raw-topic", help="Topic with the raw logs.")
@JSON
def migrate(plan: bool, sql: bool, with_logs: bool, with_roles: bool, as_json: bool, **options: Any) -> None:
    """Bring the tables of the store up to date.

    Example: epicenter migrate --store http://clickhouse:8123/epicenter --plan
    """
    from epicenter.stream.cli.migrate import migrate_store

    migrate_store(settings_of(**options), plan or sql, sql, with_logs, with_roles, as_json)


@click.command()
@RULES
@TOPOLOGY
@CONFIG
@click.option("--kafka", help="Kafka brokers, as host:port, separated by commas.")
@STORE
@DATA_DIR
@ONE_JSON
def check(as_json: bool, **options: Any) -> None:
    """Check settings, rules and connections. Names a fix for each finding. Exit 1 if there is a problem.

    Example: epicenter check --config epicenter.toml
    """
    from epicenter.stream.checks.run import check_all, wrong_settings

    try:
        settings = settings_of(**options)
    except ConfigError as error:
        sys.exit(EXIT_PROBLEMS if wrong_settings(error, as_json) else 0)
    sys.exit(EXIT_PROBLEMS if check_all(settings, as_json) else 0)
