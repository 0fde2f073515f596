"""How a worker stops."""

from __future__ import annotations

from pathlib import Path

import faust
import pytest
from aiokafka.errors import KafkaConnectionError
from mode import Service

from epicenter.rules.errors import TransientError
from epicenter.stream.worker import run_app


def test_broker_lost_during_start_is_a_transient_error(tmp_path: Path) -> None:
    app = faust.App("test", datadir=tmp_path, web_enabled=False)
    app.boot_strategy.enable_kafka = False

    @app.service
    class _Late(Service):
        async def on_start(self) -> None:
            raise KafkaConnectionError("gone")

    with pytest.raises(TransientError, match=r"Kafka is unreachable: .*gone"):
        run_app(app)
