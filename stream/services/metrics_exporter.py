"""This worker's metrics -> the store, through our own topic, because a worker may run without the store writer."""

from __future__ import annotations

from typing import Any, Final

from aiokafka.errors import KafkaError
from mode import Service

from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.log import get_logger
from epicenter.stream.kafka.clients import make_producer
from epicenter.stream.kafka.messages import StoreMessage, store_messages
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.sampling import Sampler
from epicenter.stream.settings import Settings

log: Final = get_logger(__name__)

POLL_EVERY_S: Final = 1.0


class MetricsExporter(Service):
    """Sends samples every 15 seconds. Samples that can't be sent are dropped."""

    def __init__(self, settings: Settings, _: RuleSet, metrics: Metrics, **kwargs: Any):
        super().__init__(**kwargs)
        self._settings = settings
        self._topic = TopicNames(settings.prefix).signals
        self._sampler = Sampler(metrics)

    async def on_start(self) -> None:
        """Connect."""
        self._producer = make_producer(self._settings)
        await self._producer.start()

    async def on_stop(self) -> None:
        """Disconnect."""
        await self._producer.stop()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.sleep(POLL_EVERY_S)
            try:
                for message in store_messages(StoreMessage(samples=tuple(self._sampler.due()))):
                    await self._producer.send_and_wait(self._topic, message)
            except KafkaError as error:
                log.warning("metrics_not_sent", error=repr(error))
