"""Settings: command line > environment (`EPICENTER_…`) > secrets folder > file (TOML) > default, checked once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from platformdirs import user_data_path
from platformdirs.unix import Unix
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from epicenter.rules.documents.mistakes import instead, mistake_text, unreadable
from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S, duration_ns

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


class Former(NamedTuple):
    """What became of a setting: `now` is its present name, None where nothing takes its place, and `why`."""

    now: str | None
    why: str = ""


FORMER_SETTINGS: Final[dict[str, Former]] = {
    "flood_share": Former("rule_cpu_share"),
    "flood_share_trusted": Former("rule_cpu_share_trusted"),
    "time_goes_on": Former("advance_when_idle"),
    "lateness": Former("allowed_lateness"),
    "behind_after": Former(None, "a backlog is read in order, with all rules"),
}
"""Names that a file or an environment may still have: each stops no start, gives its value to its present name, if any,
and is warned of."""


class _Stated(NamedTuple):
    """A setting as a source states it; `place` says where, at the head of a message."""

    place: str
    name: str
    value: Any

    @property
    def warning(self) -> str:
        """What to do about a former name."""
        now, why = FORMER_SETTINGS[self.name]
        text = f"is now called {now}: write that" if now else f"ignored, nothing takes its place: {why}: remove it"
        return f"{self.place}{self.name}: {text}"


def _web_address(value: SecretStr) -> SecretStr:
    if value and not _is_web_address(value.get_secret_value()):
        raise ValueError("no web address: write https://host/path")
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
    """The user's data folder for epicenter; the one that was used before platformdirs, where it exists (macOS)."""
    before = Unix("epicenter").user_data_path
    return before if before.exists() else user_data_path("epicenter")


class Settings(BaseSettings):
    """Everything that can be set. Durations are written `5s`, `15m`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_prefix_target="all", extra="forbid", frozen=True)

    cluster: str = Field(default="default", description="Cluster of lines that name none.")
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
        description="How often to write a snapshot. A takeover repeats at most this much.",
    )
    web_host: str = Field(
        default="127.0.0.1", description="Address of /metrics and /healthz. Off the loopback it needs web_token."
    )
    web_port: int = Field(default=6066, ge=0, le=65535, description="Port of /metrics and /healthz.")
    web_token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token for /metrics and the details of /healthz."
    )
    advance_when_idle: bool = Field(
        default=True, description="Let event time advance while no records come. False: it stops at the newest record."
    )
    _warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each place that states a setting by a former name."""
        return self._warnings

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


def load_settings(file: Path | None = None, **options: Any) -> Settings:
    """One checked `Settings`; `given` holds what the command line says, None where it says nothing.

    Raises:
        ConfigError: with every problem of the file and the environment.
    """
    sources = _sources(file, options)
    stated = _by_present_name(sources)
    problems: list[str] = []
    try:
        settings = Settings(**{name: value.value for name, value in stated.items()})
    except ValidationError as error:
        problems += [_problem(found, stated) for found in error.errors()]
    else:
        settings._warnings = tuple(stated.warning for stated in chain(*sources) if stated.name in FORMER_SETTINGS)
        if settings.alerts and settings.webhook_url:
            problems.append("alerts: webhook_url is set too: write the webhook into the alerts file as a target")
        problems += contradictions(settings)
    if problems:
        raise ConfigError(problems)
    return settings


def _sources(file: Path | None, options: Mapping[str, Any]) -> list[list[_Stated]]:
    """What each source states; later ones win."""
    of_file = [_Stated(_place(file, name), name, value) for name, value in _read(file).items()] if file else []
    of_environment = [
        _Stated(f"{variable}: ", name, os.environ[variable])
        for name in (*_present_names(), *FORMER_SETTINGS)
        if (variable := PREFIX + name.upper()) in os.environ
    ]
    of_command_line = [_Stated("", name, value) for name, value in options.items() if value is not None]
    folder = _by_present_name([of_file, of_environment, of_command_line]).get("secrets_dir")
    of_folder = [_Stated("", name, value) for name, value in _read_folder(folder.value).items()] if folder else []
    return [of_file, of_folder, of_environment, of_command_line]


def _by_present_name(sources: Iterable[Sequence[_Stated]]) -> dict[str, _Stated]:
    """What counts. A source that states a setting by its former name and by its present one means the present one."""
    found: dict[str, _Stated] = {}
    for source in sources:
        by_name = {stated.name: stated for stated in source}
        found |= {now: by_name.get(now, stated) for stated in source if (now := _present_name(stated.name))}
    return found


def _present_name(name: str) -> str | None:
    return FORMER_SETTINGS[name].now if name in FORMER_SETTINGS else name


def _present_names() -> list[str]:
    return [field.alias or name for name, field in Settings.model_fields.items()]


def _problem(found: ErrorDetails, stated: Mapping[str, _Stated]) -> str:
    """What is wrong with a setting, by the name under which it is stated, and where that is."""
    name = str(found["loc"][0])
    value = stated.get(name, _Stated("", name, None))
    if found["type"] == "extra_forbidden":
        return f"{value.place}{name}: unknown setting: {instead(name, _present_names())}"
    return f"{value.place}{value.name}: {_without_secrets(mistake_text(found))}"


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
    """The values in a folder of secrets; files that are not named like a setting are ignored."""
    if not folder:
        return {}
    try:
        if not Path(folder).is_dir():
            raise ConfigError([f"secrets_dir: {folder}: no such folder"])
        former = {name: file for name in FORMER_SETTINGS if (file := Path(folder) / name).is_file()}
        present = SecretsSettingsSource(Settings, folder, env_prefix="")()
        return {name: file.read_text("utf-8").strip() for name, file in former.items()} | present
    except (OSError, UnicodeDecodeError, SettingsError) as error:
        raise ConfigError([f"secrets_dir: {folder}: can't be read: {type(error).__name__}"]) from None


def _without_secrets(text: str) -> str:
    from epicenter.rules.redact.load import load_redactor

    return load_redactor().redact(text.encode("utf-8", "replace")).text.decode()


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([unreadable(file, error)]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{file}: not TOML: {error}"]) from error


def _place(file: Path | None, name: str) -> str:
    if file is None:
        return ""
    lines = file.read_text("utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if line.split("=")[0].strip() == name), 0)
    return f"{file}:{number}: " if number else ""
