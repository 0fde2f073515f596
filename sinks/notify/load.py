"""`alerts.yaml` -> routes and targets, or all problems in it at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epicenter.rules.alerts.routing import Routing
from epicenter.rules.alerts.spec import RouteSpec, RoutingSpec
from epicenter.rules.alerts.validation.check import routing_faults
from epicenter.rules.documents.document import Document, line_of, parse_document, with_present_names
from epicenter.rules.errors import ConfigError
from epicenter.sinks.notify.alertmanager import AlertmanagerTarget
from epicenter.sinks.notify.apprise import AppriseTarget
from epicenter.sinks.notify.config import (
    AlertmanagerSpec,
    AlertsSpec,
    AppriseSpec,
    PagerDutySpec,
    SlackSpec,
    TargetSpec,
    TemplateSpec,
    WebhookSpec,
)
from epicenter.sinks.notify.http import Clock
from epicenter.sinks.notify.message import without_markup
from epicenter.sinks.notify.pagerduty import PagerDutyTarget
from epicenter.sinks.notify.slack import SlackBot, SlackWebhook
from epicenter.sinks.notify.target import Target
from epicenter.sinks.notify.templates import Writer, template_faults
from epicenter.sinks.notify.webhook import WebhookTarget

_NAME: Final = "alerts file"
_TARGET_KEYS: Final = ("targets", "templates")
FORMER_KEYS: Final = {"silence_grace": "grace_period"}
"""Former name -> present name of what a file may still say at its top."""


@dataclass(frozen=True)
class Alerts:
    """A validated `alerts.yaml`."""

    spec: AlertsSpec
    routing: Routing
    warnings: tuple[str, ...] = ()
    """A line for each former name in the file, with the present one."""

    def make_targets(self, clock: Clock) -> dict[str, Target]:
        """The targets by name, not yet connected."""
        return {
            name: make_target(name, spec, self.spec.templates.get(name), clock)
            for name, spec in self.spec.targets.items()
        }


def load_alerts(file: Path) -> Alerts:
    """The content of an `alerts.yaml`.

    Raises:
        ConfigError: with all problems, each with file and line.
    """
    problems: list[str] = []
    document = parse_document(file, Path.read_bytes, _NAME, problems)
    if document is None:
        raise ConfigError(problems)
    document, warnings = with_present_names(document, FORMER_KEYS, problems)
    spec = document.checked(AlertsSpec, _NAME, problems)
    problems += _routing_faults(document)
    if spec:
        problems += _template_faults(spec, document)
    if problems or not spec:
        raise ConfigError(problems)
    return Alerts(spec, Routing(spec, str(file), document.lines), warnings)


def webhook_alerts(url: str) -> Alerts:
    """The setting `webhook_url` as alerts: one webhook that gets every notification."""
    spec = AlertsSpec.model_validate(
        {"route": RouteSpec(targets=("webhook",)), "targets": {"webhook": {"type": "webhook", "url": url}}}
    )
    return Alerts(spec, Routing(spec, "webhook_url"))


def make_target(name: str, spec: TargetSpec, template: TemplateSpec | None, clock: Clock) -> Target:
    """The target for a target spec."""
    writer = Writer(name, template)
    match spec:
        case AlertmanagerSpec():
            return AlertmanagerTarget(name, spec, writer, clock)
        case PagerDutySpec():
            return PagerDutyTarget(name, spec, writer, clock)
        case SlackSpec(url=None):
            return SlackBot(name, spec, writer, clock)
        case SlackSpec():
            return SlackWebhook(name, spec, writer, clock)
        case WebhookSpec():
            return WebhookTarget(name, spec, writer, clock)
        case AppriseSpec():
            return AppriseTarget(name, spec, Writer(name, template, without_markup), clock)


def _routing_faults(document: Document) -> list[str]:
    """Problems in the routes, reported even if a target is invalid."""
    if not isinstance(document.content, dict):
        return []
    rest = {key: value for key, value in document.content.items() if key not in _TARGET_KEYS}
    spec = Document(document.file, rest, document.lines).checked(RoutingSpec, _NAME, [])
    return routing_faults(spec, document.file, document.lines, _target_names(document)) if spec else []


def _target_names(document: Document) -> Collection[str]:
    targets = document.content.get("targets")
    return list(targets) if isinstance(targets, dict) else []


def _template_faults(spec: AlertsSpec, document: Document) -> Iterator[str]:
    for name, template in spec.templates.items():
        target = spec.targets.get(name)
        where = f"{document.file}:{line_of(document.lines, ('templates', name))}: templates.{name}"
        if target is None:
            yield f"{where}: unknown target: the targets are {', '.join(spec.targets)}"
        elif isinstance(target, WebhookSpec) and target.format != "alertmanager":
            yield f"{where}: a webhook with format {target.format} has no title or body: remove the template"
        else:
            for part, fault in template_faults(name, template):
                line = line_of(document.lines, ("templates", name, part))
                yield f"{document.file}:{line}: templates.{name}.{part}: {fault}"
