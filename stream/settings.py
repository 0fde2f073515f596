"""Settings: command line > environment (`EPICENTER_…`) > secrets folder > file (TOML) > default, checked once."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_path
from platformdirs.unix import Unix
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from rules.errors import ConfigError
from rules.model import NS_PER_S
from rules.times import duration_ns

PREFIX: Final = "EPICENTER_"
DurationNs = Annotated[int, BeforeValidator(lambda value: duration_ns(str(value)))]
Paths = Annotated[
    tuple[Path, ...],
    NoDecode,
    BeforeValidator(lambda value: value.split(os.pathsep) if isinstance(value, str) else value),
]

OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""An empty text in the environment says that there is none."""

_BROKER: Final = re.compile(r"\s*(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:\d{1,5})?\s*")
KafkaSecurity = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
ServiceName = Literal["match", "correlate", "store", "notify"]
ServiceNames = Annotated[
    tuple[ServiceName, ...],
    NoDecode,
    BeforeValidator(lambda value: [name.strip() for name in value.split(",")] if isinstance(value, str) else value),
]


def _web_address(value: SecretStr) -> SecretStr:
    if value and not _is_web_address(value.get_secret_value()):
        raise ValueError("no web address: write https://host/path")
    return value


def _brokers(value: str) -> str:
    if not all(map(_BROKER.fullmatch, value.split(","))):
        raise ValueError("write host:port, several with commas between them, and no protocol in front")
    return value


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def default_data_dir() -> Path:
    """The user's data folder for epicenter; the one that was used before platformdirs, where it exists (macOS)."""
    before = Unix("epicenter").user_data_path
    return before if before.exists() else user_data_path("epicenter")


class Settings(BaseSettings):
    """Everything that can be set. Durations are written `5s`, `15m`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_prefix_target="all", extra="forbid", frozen=True)

    cluster: str = Field(default="default", description="of lines that name no cluster")
    data_dir: Path = Field(
        default_factory=default_data_dir, description="folder of the embedded store, and of what was told"
    )
    store: SecretStr = Field(
        default=SecretStr(""), description="ClickHouse DSN; empty for the embedded store in data_dir"
    )
    secrets_dir: Path | None = Field(default=None, description="folder of files named like settings, with their values")
    rule_packs: Paths = Field(default=(), description="packs of your own, beside the shipped ones: files or folders")
    topology: Path | None = Field(default=None, description="racks, switches and rails of the nodes (YAML or JSON)")
    lateness_ns: DurationNs = Field(
        default=5 * NS_PER_S, validate_default=False, alias="lateness", description="how late a line may come"
    )
    webhook_url: Annotated[SecretStr, AfterValidator(_web_address)] = Field(
        default=SecretStr(""), description="one webhook that is told everything, instead of `alerts`"
    )
    alerts: Path | None = Field(default=None, description="who is told what: a YAML file, see docs/alerts.md")
    reload_every_ns: DurationNs = Field(
        default=2 * NS_PER_S, validate_default=False, alias="reload_every", description="how often to look at the packs"
    )
    flood_share: float = Field(default=0.3, gt=0, description="of a worker's time, for one rule; 1: no limit")
    flood_share_trusted: float = Field(default=0.9, gt=0, description="the same for shipped, root and critical rules")
    redact: bool = Field(default=True, description="take credentials out of log text before it is stored or sent")
    redact_patterns: Paths = Field(default=(), description="more files with patterns of them, as docs/secrets.md says")
    page_host: str = Field(default="127.0.0.1", description="anything but the loopback demands page_token")
    page_port: int = Field(default=8017, ge=0, le=65535, description="of the page; 0: any free one")
    page_token: SecretStr = Field(default=SecretStr(""), description="who has it may see the page, and act on it")
    log_format: Literal["text", "json"] = Field(default="text", description="our own log lines on standard error")

    kafka: Annotated[str, AfterValidator(_brokers)] = Field(
        default="127.0.0.1:9092", description="brokers, host:port, separated by commas"
    )
    kafka_security: KafkaSecurity = Field(default="plaintext", description="what the brokers' port speaks")
    kafka_sasl_mechanism: SaslMechanism = Field(default="SCRAM-SHA-512", description="how the password is shown")
    kafka_username: str = Field(default="", description="who we are to the brokers")
    kafka_password: SecretStr = Field(default=SecretStr(""), description="of that user")
    kafka_ca: OptionalPath = Field(default=None, description="PEM file of who signs the brokers' certificates")
    kafka_cert: OptionalPath = Field(default=None, description="our certificate (PEM), where brokers demand one")
    kafka_key: OptionalPath = Field(default=None, description="its key (PEM)")
    kafka_key_password: SecretStr = Field(default=SecretStr(""), description="of that key")
    raw_topic: str = Field(default="logs.raw", description="what the shippers send to")
    prefix: str = Field(default="epicenter", pattern=r"^[A-Za-z0-9._-]+$", description="of our topics and groups")
    raw_partitions: int = Field(default=4, ge=1, description="of the raw topic, for `epicenter topics`")
    match_partitions: int = Field(default=4, ge=1, description="of the topics that go by cluster")
    replication: int = Field(default=1, ge=1, description="copies of each topic, for `epicenter topics`")
    services: ServiceNames = Field(
        default=("match", "correlate", "store", "notify"), min_length=1, description="what it does, separated by commas"
    )
    behind_after_ns: DurationNs = Field(
        default=120 * NS_PER_S,
        validate_default=False,
        alias="behind_after",
        description="a backlog older than this is matched with the critical rules first, with the others later",
    )
    fetch_records: int = Field(default=20_000, ge=1, description="raw records scanned, sent and committed at a time")
    snapshot_every_ns: DurationNs = Field(
        default=5 * NS_PER_S, validate_default=False, alias="snapshot_every", description="how much a takeover repeats"
    )
    web_host: str = Field(default="127.0.0.1", description="of /metrics and /healthz; off the loopback, with web_token")
    web_port: int = Field(default=6066, ge=0, le=65535, description="the port of that")
    web_token: SecretStr = Field(default=SecretStr(""), description="for all of a worker's pages but /healthz")
    time_goes_on: bool = Field(default=True, description="false: event time stops at the newest record, as in a replay")

    @property
    def store_dsn(self) -> str:
        """The DSN of the store: the one that was set, else the embedded one. It may hold a password: never print it."""
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
        """The file comes in through `load_settings`, below the environment."""
        return (init_settings, env_settings)


def load_settings(file: Path | None = None, **given: Any) -> Settings:
    """One checked `Settings`; `given` holds what the command line says, None where it says nothing.

    Raises:
        ConfigError: with every problem of the file and the environment.
    """
    from_file = _read(file) if file else {}
    known = {field.alias or name for name, field in Settings.model_fields.items()}
    unknown = [name for name in from_file if name not in known]
    names = ", ".join(sorted(known))
    problems = [f"{_place(file, name)}{name}: no such setting; known are {names}" for name in unknown]
    stated = {name for name in known if PREFIX + name.upper() in os.environ}
    merged = {name: value for name, value in from_file.items() if name in known}
    from_folder = _read_folder(
        given.get("secrets_dir") or os.environ.get(f"{PREFIX}SECRETS_DIR") or merged.get("secrets_dir")
    )
    merged = {name: value for name, value in (merged | from_folder).items() if name not in stated}
    merged |= {name: value for name, value in given.items() if value is not None}
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        for found in error.errors():
            name = str(found["loc"][0])
            place = f"{PREFIX}{name.upper()}: " if name in stated else "" if name in from_folder else _place(file, name)
            told = f"{found['msg'].removeprefix('Value error, ')}{_shown(name, found['input'])}"
            problems.append(f"{place}{name}: {_without_secrets(told)}")
    else:
        if settings.alerts and settings.webhook_url:
            problems.append("alerts: webhook_url is set too: write the webhook into the alerts file as a target")
        problems += contradictions(settings)
    if problems:
        raise ConfigError(problems)
    return settings


def contradictions(settings: Settings) -> list[str]:
    """What does not go together in the settings of Kafka's security, and how to mend it."""
    security, has_password = settings.kafka_security, bool(settings.kafka_password.get_secret_value())
    of_tls = [name for name in ("kafka_ca", "kafka_cert", "kafka_key") if getattr(settings, name)]
    problems = []
    if security.startswith("sasl") and not (settings.kafka_username and has_password):
        problems.append(f"kafka_security: {security} needs kafka_username and kafka_password")
    if not security.startswith("sasl") and (settings.kafka_username or has_password):
        wanted = "sasl_ssl" if security == "ssl" else "sasl_ssl or sasl_plaintext"
        problems.append(f"kafka_username, kafka_password: not used with kafka_security = {security}: write {wanted}")
    if not security.endswith("ssl") and of_tls:
        wanted = "sasl_ssl" if security.startswith("sasl") else "ssl or sasl_ssl"
        problems.append(f"{', '.join(of_tls)}: not used with kafka_security = {security}: write {wanted}")
    if settings.kafka_key and not settings.kafka_cert:
        problems.append("kafka_key: a key without its certificate: set kafka_cert too")
    return problems


def _read_folder(folder: Any) -> dict[str, str]:
    """What files in a folder of secrets say; those that are not named like a setting are somebody else's."""
    if not folder:
        return {}
    try:
        if not Path(folder).is_dir():
            raise ConfigError([f"secrets_dir: {folder}: no such folder"])
        return SecretsSettingsSource(Settings, folder, env_prefix="")()
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        raise ConfigError([f"secrets_dir: {folder}: can't be read: {type(error).__name__}"]) from None


def _shown(name: str, value: Any) -> str:
    """What was found, unless it is a secret."""
    field = Settings.model_fields.get(name)
    return "" if field and field.annotation is SecretStr else f" (found {value!r})"


def _without_secrets(text: str) -> str:
    from rules.secret_patterns import load_redactor

    return load_redactor().redact(text.encode("utf-8", "replace")).text.decode()


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: can't be read: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{file}: not TOML: {error}"]) from error


def _place(file: Path | None, name: str) -> str:
    if file is None:
        return ""
    lines = file.read_text("utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if line.split("=")[0].strip() == name), 0)
    return f"{file}:{number}: " if number else ""
