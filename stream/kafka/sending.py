"""Scan results -> matches and dead letters on our own topics."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from epicenter.rules.model.ledger import DeadLetter, Gap
from epicenter.stream.kafka.messages import StoreMessage, encode_in_pieces, store_messages
from epicenter.stream.kafka.scan_messages import ScannedRange
from epicenter.stream.kafka.topics import TopicNames
from epicenter.stream.settings import Settings


class Sender:
    """Writes to the topics that the correlators and the store read."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer):
        self._names = TopicNames(settings.prefix)
        self._match_partitions = settings.match_partitions
        self._bundles_steps = settings.bundle_steps
        self._producer = producer

    async def send(self, ranges: Sequence[ScannedRange]) -> None:
        """Send all results; return when they are acknowledged."""
        sends = []
        for number in range(self._match_partitions):
            for value in encode_in_pieces(
                [scanned_range.part(number, self._match_partitions, self._bundles_steps) for scanned_range in ranges]
            ):
                sends.append(await self._producer.send(self._names.matches, value, partition=number))
        for scanned_range in ranges:
            sends += [await self._send_dead(dead_letter) for dead_letter in scanned_range.scanned.dead_letters]
        await asyncio.gather(*sends)

    async def send_gaps(self, gaps: tuple[Gap, ...]) -> None:
        """Send gaps for the store; return when they are acknowledged."""
        for value in store_messages(StoreMessage(gaps=gaps)):
            await self._producer.send_and_wait(self._names.signals, value)

    async def _send_dead(self, dead_letter: DeadLetter) -> Future[Any]:
        key = f"{dead_letter.position.source}:{dead_letter.position.offset}".encode()
        sent: Future[Any] = await self._producer.send(
            self._names.dead_letters, msgspec.json.encode(dead_letter), key=key
        )
        return sent
