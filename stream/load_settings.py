"""Loads settings: command line > environment (`EPICENTER_…`) > secrets folder > file (TOML) > default.

Reports every mistake with its place, and accepts former names with a warning.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SecretsSettingsSource, SettingsError

from epicenter.rules.documents.mistakes import instead, mistake_text, unreadable
from epicenter.rules.errors import ConfigError
from epicenter.stream.settings import PREFIX, Settings


class Former(NamedTuple):
    """A renamed or removed setting: `now` is its present name, None if it was removed, with the reason in `why`."""

    now: str | None
    why: str = ""


FORMER_SETTINGS: Final[dict[str, Former]] = {
    "flood_share": Former("rule_cpu_share"),
    "flood_share_trusted": Former("rule_cpu_share_trusted"),
    "time_goes_on": Former("advance_when_idle"),
    "lateness": Former("allowed_lateness"),
    "behind_after": Former(None, "a backlog is read in order, with all rules"),
}
"""Names that files and environments may still have. Each is accepted with a warning; its present name, if any, gets the
value."""


class _Stated(NamedTuple):
    """A setting in a source; `place` is where, as the start of a message."""

    place: str
    name: str
    value: Any

    @property
    def warning(self) -> str:
        """The warning about a former name."""
        now, why = FORMER_SETTINGS[self.name]
        text = f"is now called {now}: write that" if now else f"ignored, it has no replacement: {why}: remove it"
        return f"{self.place}{self.name}: {text}"


def load_settings(file: Path | None = None, **options: Any) -> Settings:
    """The validated settings; `options` are those of the command line, None where not given.

    Raises:
        ConfigError: with every problem.
    """
    sources = _sources(file, options)
    stated = _by_present_name(sources)
    problems: list[str] = []
    try:
        settings = Settings(**{name: value.value for name, value in stated.items()})
    except ValidationError as error:
        problems += [_problem(found, stated) for found in error.errors()]
    else:
        settings._warnings = tuple(value.warning for value in chain(*sources) if value.name in FORMER_SETTINGS)
        if settings.alerts and settings.webhook_url:
            problems.append("alerts: webhook_url is set too: write the webhook into the alerts file as a target")
        problems += contradictions(settings)
    if problems:
        raise ConfigError(problems)
    return settings


def _sources(file: Path | None, options: Mapping[str, Any]) -> list[list[_Stated]]:
    """The settings in each source; later sources win."""
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
    """The settings that win. Within a source, a present name wins over its former name."""
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
    """The message for a mistake, with the place and the name as written."""
    name = str(found["loc"][0])
    value = stated.get(name, _Stated("", name, None))
    if found["type"] == "extra_forbidden":
        return f"{value.place}{name}: unknown setting: {instead(name, _present_names())}"
    return f"{value.place}{value.name}: {_without_secrets(mistake_text(found))}"


def contradictions(settings: Settings) -> list[str]:
    """Contradictions among the settings of Kafka's security, each with the fix."""
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
        problems.append("kafka_key: needs its certificate: set kafka_cert too")
    return problems


def _read_folder(folder: Any) -> dict[str, str]:
    """The settings in a folder of secrets; other files in it are ignored."""
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
        mistake, _, line = str(error).partition(" (at line ")
        place = f"{file}:{line.partition(',')[0]}" if line else file
        raise ConfigError([f"{place}: not TOML: {mistake}"]) from error
    except (RecursionError, ValueError) as error:
        reason = "a number has too many digits" if isinstance(error, ValueError) else "it is nested too deeply"
        raise ConfigError(
            [f"{file}:1: not TOML for settings: {reason}: write plain texts, numbers and lists"]
        ) from None


def _place(file: Path | None, name: str) -> str:
    if file is None:
        return ""
    lines = file.read_text("utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if line.split("=")[0].strip() == name), 0)
    return f"{file}:{number}: " if number else ""
