"""Makes a dispatcher from checked alerts."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from epicenter.rules.model.incident import Incident
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.notify.load import Alerts
from epicenter.stream.alerts.dispatcher import DeliveryLog, Dispatcher
from epicenter.stream.alerts.journal import Journal


def is_liveness(rules: RuleSet) -> Callable[[Incident], bool]:
    """Whether an incident's root cause is a liveness verdict by these rules."""
    liveness_rules = {rule.spec.id for rule in rules.rules if rule.spec.detect in ("no-progress", "silence")}
    return lambda incident: incident.root_cause.rule in liveness_rules


def dispatcher(alerts: Alerts, rules: RuleSet, journal: Journal, delivery_log: DeliveryLog) -> Dispatcher:
    """A dispatcher that runs by this machine's clock."""
    return Dispatcher(alerts.routing, alerts.make_targets(time_ns), is_liveness(rules), journal, delivery_log)
