"""A topic's id, which changes when the topic is recreated, and its partitions, from the brokers."""

from __future__ import annotations

import uuid
from typing import Any, Final

import msgspec
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IncompatibleBrokerVersion, NoError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

_NO_ID: Final = uuid.UUID(int=0).bytes


class Topic(msgspec.Struct, frozen=True):
    """A topic as it is now."""

    topic_id: str
    partitions: int


async def describe(admin: AIOKafkaAdminClient, name: str) -> Topic | None:
    """The topic; None when it does not exist.

    Raises:
        KafkaError: the brokers are unreachable, or older than Kafka 3.1.
    """
    try:
        answer = await admin._send_request(_TopicRequest(name))
    except NotImplementedError as error:
        raise IncompatibleBrokerVersion("no topic ids: Kafka 3.1 or newer is needed") from error
    (found,) = answer.to_object()["topics"]
    problem = for_code(found["error_code"])
    if problem is UnknownTopicOrPartitionError:
        return None
    if problem is not NoError:
        raise problem(name)
    return Topic(str(uuid.UUID(bytes=found["topic_id"])), len(found["partitions"]))


async def described(admin: AIOKafkaAdminClient, name: str) -> Topic:
    """The topic.

    Raises:
        KafkaError: as `describe`, or the topic does not exist.
    """
    topic = await describe(admin, name)
    if topic is None:
        raise UnknownTopicOrPartitionError(name)
    return topic


class _Uuid(AbstractType[bytes]):
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        return bytes(data.read(16))

    @classmethod
    def repr(cls, value: bytes) -> str:
        return str(uuid.UUID(bytes=value))


_PARTITION: Final = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)


class _Metadata(Response):
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                ("partitions", CompactArray(*_PARTITION)),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataRequest(RequestStruct):
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _Metadata
    FLEXIBLE_VERSION = True
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("topic", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicRequest(Request[_MetadataRequest]):
    """Metadata version 12, the first with topic ids for topic names; aiokafka itself uses version 5."""

    API_KEY = 3

    def __init__(self, name: str):
        self._name = name

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class([(_NO_ID, self._name, {})], False, False, {})
