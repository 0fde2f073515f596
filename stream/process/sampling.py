"""Samples of a process's metrics for the store: at the start, then every 15 seconds."""

from __future__ import annotations

import os
import socket
from time import monotonic, time
from typing import Final

from epicenter.rules.model.ledger import Sample
from epicenter.stream.metrics import Metrics

EVERY_S: Final = 15.0


class Sampler:
    """Takes samples of one process' metrics; `process` is `host:pid`."""

    def __init__(self, metrics: Metrics):
        self._metrics = metrics
        self._process = f"{socket.gethostname()}:{os.getpid()}"
        self._sampled_s = -EVERY_S

    def due(self) -> list[Sample]:
        """The samples when they are due, else none."""
        return self.samples() if monotonic() - self._sampled_s >= EVERY_S else []

    def samples(self) -> list[Sample]:
        """Every series that has a value."""
        self._sampled_s = monotonic()
        time_s = int(time())
        return [Sample(time_s, self._process, *series) for series in self._metrics.series()]
