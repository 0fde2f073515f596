"""The settings: names, types, defaults and descriptions. `load_settings` reads them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_path
from platformdirs.unix import Unix
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from epicenter.ingest.provenance.log_names import LogName
from epicenter.rules.model.records import DEFAULT_CLUSTER
from epicenter.rules.model.time_zones import zone_fault
from epicenter.rules.model.times import NS_PER_S, UTC_ZONE, duration_ns

PREFIX: Final = "EPICENTER_"
DurationNs = Annotated[int, BeforeValidator(lambda value: duration_ns(str(value)))]
Paths = Annotated[
    tuple[Path, ...],
    NoDecode,
    BeforeValidator(lambda value: value.split(os.pathsep) if isinstance(value, str) else value),
]

OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""An empty text in the environment means none."""

_BROKER: Final = re.compile(r"\s*(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:\d{1,5})?\s*")
KafkaSecurity = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
ServiceName = Literal["match", "correlate", "store", "notify"]
ServiceNames = Annotated[
    tuple[ServiceName, ...],
    NoDecode,
    BeforeValidator(lambda value: [name.strip() for name in value.split(",")] if isinstance(value, str) else value),
]


def _log_names(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(LogName.of(pattern).pattern for pattern in patterns)


LogNames = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(
        lambda value: [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
    ),
    AfterValidator(_log_names),
]


def _time_zone(value: str) -> str:
    if fault := zone_fault(value):
        raise ValueError(fault)
    return value


def _web_address(value: SecretStr) -> SecretStr:
    if value and not _is_web_address(value.get_secret_value()):
        raise ValueError("not a web address: write https://host/path")
    return value


def _brokers(value: str) -> str:
    if not all(map(_BROKER.fullmatch, value.split(","))):
        raise ValueError(f"write host:port, several with commas between them, without a protocol, not {value!r}")
    return value


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def default_data_dir() -> Path:
    """The user's data folder for epicenter; on macOS the former one, if it exists."""
    before = Unix("epicenter").user_data_path
    return before if before.exists() else user_data_path("epicenter")


class Settings(BaseSettings):
    """All settings. Write durations as `5s`, `15m`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_prefix_target="all", extra="forbid", frozen=True)

    cluster: str = Field(default=DEFAULT_CLUSTER, description="Cluster of lines that name none.")
    time_zone: Annotated[str, BeforeValidator(lambda value: value or UTC_ZONE), AfterValidator(_time_zone)] = Field(
        default=UTC_ZONE, description="Time zone of log times that name none, such as Europe/Berlin."
    )
    log_names: LogNames = Field(
        default=(),
        description="How your log files are named: patterns with {job}, {node}, {rank} and *, separated by commas.",
    )
    data_dir: Path = Field(
        default_factory=default_data_dir, description="Folder of the embedded store and of its notification state."
    )
    store: SecretStr = Field(
        default=SecretStr(""), description="DSN of the ClickHouse store. Empty: the embedded store in data_dir."
    )
    secrets_dir: Path | None = Field(
        default=None, description="Folder with a file for each secret, named like the setting."
    )
    rule_packs: Paths = Field(
        default=(), description="Your rule packs, in addition to the shipped ones: files or folders."
    )
    topology: Path | None = Field(
        default=None, description="File with the racks, switches and rails of the nodes (YAML or JSON)."
    )
    allowed_lateness_ns: DurationNs = Field(
        default=5 * NS_PER_S,
        validate_default=False,
        alias="allowed_lateness",
        description="How much later than others a line may come and still be in order.",
    )
    webhook_url: Annotated[SecretStr, AfterValidator(_web_address)] = Field(
        default=SecretStr(""), description="Webhook that gets every notification, in place of `alerts`."
    )
    alerts: Path | None = Field(
        default=None, description="YAML file with routes and targets of notifications, see docs/alerts.md."
    )
    reload_every_ns: DurationNs = Field(
        default=2 * NS_PER_S,
        validate_default=False,
        alias="reload_every",
        description="How often to check the rule packs for changes.",
    )
    rule_cpu_share: float = Field(
        default=0.3, gt=0, description="Share of a worker's CPU time that one rule may use. 1: no limit."
    )
    rule_cpu_share_trusted: float = Field(
        default=0.9, gt=0, description="The same share for shipped, root and critical rules."
    )
    redact: bool = Field(default=True, description="Remove credentials from log text before it is stored or sent.")
    redact_patterns: Paths = Field(
        default=(), description="More files with patterns of credentials, see docs/secrets.md."
    )
    page_host: str = Field(
        default="127.0.0.1", description="Address that the page listens on. Off the loopback it needs page_token."
    )
    page_port: int = Field(default=8017, ge=0, le=65535, description="Port of the page. 0: any free port.")
    page_token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token required to open the page and to act on incidents."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Format of epicenter's log lines on standard error."
    )

    kafka: Annotated[str, AfterValidator(_brokers)] = Field(
        default="127.0.0.1:9092", description="Kafka brokers, as host:port, separated by commas."
    )
    kafka_security: KafkaSecurity = Field(default="plaintext", description="Security protocol of the brokers' port.")
    kafka_sasl_mechanism: SaslMechanism = Field(
        default="SCRAM-SHA-512", description="SASL mechanism for kafka_username and kafka_password."
    )
    kafka_username: str = Field(default="", description="User name for the brokers.")
    kafka_password: SecretStr = Field(default=SecretStr(""), description="Password of kafka_username.")
    kafka_ca: OptionalPath = Field(
        default=None, description="PEM file of the authority that signs the brokers' certificates."
    )
    kafka_cert: OptionalPath = Field(
        default=None, description="PEM file of the client certificate, if the brokers require one."
    )
    kafka_key: OptionalPath = Field(default=None, description="PEM file of the private key for kafka_cert.")
    kafka_key_password: SecretStr = Field(default=SecretStr(""), description="Password of kafka_key.")
    raw_topic: str = Field(default="logs.raw", description="Topic that the shippers write to.")
    prefix: str = Field(
        default="epicenter",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Prefix of the names of epicenter's topics and consumer groups.",
    )
    raw_partitions: int = Field(default=4, ge=1, description="Partitions of the raw topic, for `epicenter topics`.")
    match_partitions: int = Field(
        default=4, ge=1, description="Partitions of the topics that are partitioned by cluster."
    )
    bundle_steps: bool = Field(
        default=False,
        description="Send steps that ranks of a node complete together as one record. First update every worker.",
    )
    replication: int = Field(default=1, ge=1, description="Replicas of each topic, for `epicenter topics`.")
    services: ServiceNames = Field(
        default=("match", "correlate", "store", "notify"),
        min_length=1,
        description="Services that the worker runs, separated by commas.",
    )
    fetch_records: int = Field(
        default=20_000, ge=1, description="Raw records that are scanned, sent and committed together."
    )
    snapshot_every_ns: DurationNs = Field(
        default=5 * NS_PER_S,
        validate_default=False,
        alias="snapshot_every",
        description="How often a worker or `epicenter run` saves a snapshot. A restart repeats at most this much.",
    )
    web_host: str = Field(
        default="127.0.0.1", description="Address of /metrics and the probes. Off the loopback it needs web_token."
    )
    web_port: int = Field(default=6066, ge=0, le=65535, description="Port of /metrics, /livez and /readyz.")
    web_token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token for /metrics and the details of /healthz."
    )
    advance_when_idle: bool = Field(
        default=True, description="Let event time advance while no records come. False: it stops at the newest record."
    )
    _warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each setting that was given under a former name, with its place."""
        return self._warnings

    @property
    def store_dsn(self) -> str:
        """The DSN of the store, by default the embedded one. It may hold a password: never print it."""
        return self.store.get_secret_value() or f"chdb://{self.data_dir.absolute()}/store"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only arguments and the environment; `load_settings` passes the file and the secrets folder as arguments."""
        return (init_settings, env_settings)
