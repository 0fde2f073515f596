"""Our own log lines: a fixed event name and fields. `stream.process.log_chain` writes them."""

from __future__ import annotations

import logging
from typing import Any

import structlog


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger for lines such as `log.warning("rule_over_budget", rule="nvidia.xid_79")`.

    They go through the standard library's logger of this name, so that levels and handlers are those of everybody.
    """
    processors: list[Any] = [structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name), processors=processors, wrapper_class=structlog.stdlib.BoundLogger
    )
    return logger
