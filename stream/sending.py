"""What was found in raw records -> matches, put-off ranges and dead letters on our own topics."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from rules.model import DeadLetter, Gap
from stream.found import FoundInRange
from stream.messages import Kept, encode_in_pieces, kept_in_pieces
from stream.put_off import PutOff
from stream.settings import Settings
from stream.topics import TopicNames


class Sender:
    """`topic_id` tells of which raw topic the records are."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer, topic_id: Callable[[], str]):
        self._names = TopicNames(settings.prefix)
        self._match_partitions = settings.match_partitions
        self._producer = producer
        self._topic_id = topic_id

    async def send(self, found: Sequence[FoundInRange]) -> None:
        """Return when all of it is acknowledged."""
        sends = []
        for number in range(self._match_partitions):
            for value in encode_in_pieces([one.part(number, self._match_partitions) for one in found]):
                sends.append(await self._producer.send(self._names.matches, value, partition=number))
        for one in found:
            if one.waits:
                raw = one.partition
                put_off = PutOff(raw.topic, raw.partition, one.first, one.end, self._topic_id())
                value = msgspec.msgpack.encode(put_off)
                sends.append(await self._producer.send(self._names.put_off, value, key=one.source.encode()))
            else:
                sends += [await self.send_dead(letter) for letter in one.scanned.dead_letters]
        await asyncio.gather(*sends)

    async def send_gaps(self, gaps: tuple[Gap, ...]) -> None:
        """Return when they are acknowledged."""
        for value in kept_in_pieces(Kept(gaps=gaps)):
            await self._producer.send_and_wait(self._names.signals, value)

    async def send_dead(self, letter: DeadLetter) -> Future[Any]:
        """What is to be waited for until the letter is acknowledged."""
        key = f"{letter.position.source}:{letter.position.offset}".encode()
        sent: Future[Any] = await self._producer.send(self._names.dead_letters, msgspec.json.encode(letter), key=key)
        return sent
