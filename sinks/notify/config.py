"""The schema of `alerts.yaml`: targets and templates, validated by pydantic."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, model_validator
from yarl import URL

from epicenter.rules.alerts.spec import RoutingSpec
from epicenter.rules.documents.strict import Strict

IDENTITY: Final = ("alertname", "cluster", "incident_id")
"""The labels that identify an alert; they never change."""

_SECRET_FORMS: Final = "write {env: NAME}, {file: PATH} or the text itself"


def _secret_text(value: object, info: ValidationInfo) -> object:
    """The text of a secret from its source; relative paths start at the alerts file's folder."""
    match value:
        case str():
            return value
        case {"env": str(name), **rest} if not rest:
            return _from_env(name)
        case {"file": str(path), **rest} if not rest:
            return _from_file((info.context or {}).get("file", Path()).parent / Path(path).expanduser())
    raise ValueError(_SECRET_FORMS)


def _from_env(name: str) -> str:
    if value := os.environ.get(name, "").strip():
        return value
    raise ValueError(f"the environment variable {name} is not set: set it, or {_SECRET_FORMS}")


def _from_file(path: Path) -> str:
    try:
        value = path.read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    if not value:
        raise ValueError(f"{path} is empty: write the secret into it")
    return value


def _not_empty(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().strip():
        raise ValueError(f"empty: {_SECRET_FORMS}")
    return secret


def _web_address(secret: SecretStr) -> SecretStr:
    """Validate an address; the error must not contain it, because it may be a secret."""
    try:
        url = URL(secret.get_secret_value())
        is_valid = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
    except ValueError:
        is_valid = False
    if not is_valid or re.search(r"\s", secret.get_secret_value()):
        raise ValueError("not a web address: write https://host/path")
    return secret


def _signing_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    try:
        length_bytes = len(base64.b64decode(text.removeprefix("whsec_"), validate=True))
    except (binascii.Error, ValueError):
        length_bytes = 0
    if not text.startswith("whsec_") or not 24 <= length_bytes <= 64:
        raise ValueError("not a Standard Webhooks secret: write whsec_ and 24 to 64 bytes in base64")
    return secret


def _matching(pattern: str, problem: str) -> AfterValidator:
    def check(secret: SecretStr) -> SecretStr:
        if not re.fullmatch(pattern, secret.get_secret_value()):
            raise ValueError(problem)
        return secret

    return AfterValidator(check)


def _installed_and_known(secret: SecretStr) -> SecretStr:
    try:
        library = import_module("apprise")
    except ImportError:
        raise ValueError("the apprise library is not installed: run pip install 'epicenter[apprise]'") from None
    if library.Apprise.instantiate(secret.get_secret_value()) is None:
        raise ValueError("apprise does not support this address: its documentation lists one per service")
    return secret


def _as_tuple(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


def _label_names(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise ValueError(f"{name!r} is not a label name: use letters, digits and _")
        if name in IDENTITY:
            raise ValueError(f"{name} is set by epicenter: choose another name")
    return labels


AsWritten = str | dict[Literal["env", "file"], str]
Secret = Annotated[
    SecretStr, BeforeValidator(_secret_text, json_schema_input_type=AsWritten), AfterValidator(_not_empty)
]
SecretUrl = Annotated[Secret, AfterValidator(_web_address)]
SigningSecret = Annotated[Secret, AfterValidator(_signing_secret)]
StaticLabels = Annotated[dict[str, str], AfterValidator(_label_names)]


class BasicAuthSpec(Strict):
    """A user name and a password."""

    username: Annotated[str, Field(min_length=1)]
    password: Secret


class AlertmanagerSpec(Strict):
    """An Alertmanager, API v2. `labels` are added to every alert, for its routes."""

    type: Literal["alertmanager"]
    url: SecretUrl
    basic_auth: BasicAuthSpec | None = None
    bearer_token: Secret | None = None
    labels: StaticLabels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_authentication(self) -> Self:
        if self.basic_auth and self.bearer_token:
            raise ValueError("basic_auth and bearer_token: use only one")
        if "/api/v" in self.url.get_secret_value():
            raise ValueError("url: write the address of the server, without /api/v2/…")
        return self


class PagerDutySpec(Strict):
    """PagerDuty, Events API v2, or a compatible service."""

    type: Literal["pagerduty"]
    routing_key: Annotated[
        Secret, _matching(r"[0-9A-Za-z]{32}", "not an integration key: it has 32 letters and digits")
    ]
    url: SecretUrl = SecretStr("https://events.pagerduty.com/v2/enqueue")


class SlackSpec(Strict):
    """Slack: an incoming webhook, or a bot that edits its messages and replies in threads."""

    type: Literal["slack"]
    url: SecretUrl | None = None
    token: (
        Annotated[Secret, _matching(r"xox[a-z.]*-\S+", "not a Slack token: a bot's token begins with xoxb-")] | None
    ) = None
    channel: Annotated[str, Field(min_length=1)] | None = None
    api_url: SecretUrl = SecretStr("https://slack.com/api")

    @model_validator(mode="after")
    def _webhook_or_bot(self) -> Self:
        is_webhook, is_bot = bool(self.url), bool(self.token and self.channel)
        if is_webhook == is_bot or (is_webhook and (self.token or self.channel)):
            raise ValueError("write url (an incoming webhook), or token and channel (a bot)")
        return self


class WebhookSpec(Strict):
    """Any URL that accepts JSON by POST. Every secret signs, so that secrets can be rotated."""

    type: Literal["webhook"]
    url: SecretUrl
    secret: Annotated[
        tuple[SigningSecret, ...], BeforeValidator(_as_tuple, json_schema_input_type=AsWritten | list[AsWritten])
    ] = ()
    format: Literal["epicenter", "cloudevents", "alertmanager"] = "epicenter"
    labels: StaticLabels = Field(default_factory=dict)


class AppriseSpec(Strict):
    """A service of the apprise library, by its apprise address."""

    type: Literal["apprise"]
    url: Annotated[Secret, AfterValidator(_installed_and_known)]


TargetSpec = Annotated[
    AlertmanagerSpec | PagerDutySpec | SlackSpec | WebhookSpec | AppriseSpec, Field(discriminator="type")
]
TargetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


class TemplateSpec(Strict):
    """Jinja templates that replace the default title or body."""

    title: str | None = None
    body: str | None = None


class AlertsSpec(RoutingSpec):
    """The whole of `alerts.yaml`. `templates` are keyed by target name."""

    targets: dict[TargetName, TargetSpec]
    templates: dict[str, TemplateSpec] = Field(default_factory=dict)


def secrets_of(spec: Any) -> Iterable[str]:
    """The text of every secret in a target's spec, for redaction."""
    if isinstance(spec, SecretStr):
        yield spec.get_secret_value()
    elif isinstance(spec, Strict):
        for name in type(spec).model_fields:
            yield from secrets_of(getattr(spec, name))
    elif isinstance(spec, tuple):
        for part in spec:
            yield from secrets_of(part)
