"""`epicenter worker`: check that rules, settings and topics are in place, then run the Faust app."""

from __future__ import annotations

import asyncio

import faust
from aiokafka.errors import KafkaConnectionError
from faust.worker import Worker

from epicenter.rules.errors import ConfigError, TransientError
from epicenter.sinks.private_files import private_folder
from epicenter.stream.app import build_app
from epicenter.stream.kafka.topics import missing_topics
from epicenter.stream.process.memory import limit_allocator
from epicenter.stream.process.page_token import checked_token
from epicenter.stream.process.shutdown import stop_on_signals
from epicenter.stream.rule_tools.trial import proven
from epicenter.stream.scan.prefilter import MARKS
from epicenter.stream.settings import Settings


def run_worker(settings: Settings) -> int:
    """Run until stopped; return the exit code of the process.

    Raises:
        ConfigError: rules or settings are invalid, or topics are missing.
        TransientError: the broker is unreachable.
    """
    checked_token(settings, "web")
    rules = proven(settings.rule_packs, settings.topology, MARKS)
    missing = asyncio.run(missing_topics(settings))
    if missing:
        or_hidden = "" if settings.kafka_security == "plaintext" else ", or allow this user to describe it"
        remedy = f"on {settings.kafka}: run `epicenter topics`{or_hidden}"
        raise ConfigError([f"no topic {name} {remedy}" for name in missing])
    private_folder(settings.data_dir)
    return run_app(build_app(settings, rules))


class _Worker(Worker):  # type: ignore[misc]
    """Faust's worker with our shutdown deadline, which starts at the first signal."""

    def install_signal_handlers(self) -> None:
        stop_on_signals(self._on_sigterm)


def run_app(app: faust.App) -> int:
    """Run an app until stopped; return the exit code of the process.

    Raises:
        TransientError: the broker became unreachable while the app was starting.
    """
    limit_allocator()
    worker = _Worker(app, quiet=True, redirect_stdouts=False, override_logging=False)
    worker.spinner = None
    try:
        worker.execute_from_commandline()
    except SystemExit as stopped:
        if isinstance(stopped.__context__, KafkaConnectionError):
            raise TransientError(f"Kafka is unreachable: {stopped.__context__}") from stopped
        return int(stopped.code or 0)
    return 0
