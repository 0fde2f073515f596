"""A dispatcher of checked alerts, by this machine's clock."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from epicenter.rules.model.incident import Incident
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.notify.load import Alerts
from epicenter.stream.alerts.dispatcher import DeliveryLog, Dispatcher
from epicenter.stream.alerts.journal import Journal


def is_liveness(rules: RuleSet) -> Callable[[Incident], bool]:
    """Whether the root cause of an incident is a silence, by these rules."""
    silences = {rule.spec.id for rule in rules.rules if rule.spec.detect in ("no-progress", "silence")}
    return lambda incident: incident.root_cause.rule in silences


def dispatcher(alerts: Alerts, rules: RuleSet, journal: Journal, delivery_log: DeliveryLog) -> Dispatcher:
    """By this machine's clock."""
    return Dispatcher(alerts.routing, alerts.make_targets(time_ns), is_liveness(rules), journal, delivery_log)
