"""Wrong values: helm refuses them, with their names and what to write."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.chart import CHART, refusal, run_helm

REFUSED: Final = {
    "a misspelt value": (["worker.replica=3"], "minimal", "replica"),
    "a misspelt part": (["keeda.enabled=true"], "minimal", "keeda"),
    "a misspelt setting": (["settings.latenes=5s"], "minimal", "latenes"),
    "a number that is none": (["kafka.rawPartitions=many"], "minimal", "rawPartitions"),
    "a kind of shipper that there is not": (["shipper.kind=rsyslog"], "minimal", "shipper/kind"),
    "a duration without a unit": (["settings.allowed_lateness=5"], "minimal", "settings/allowed_lateness"),
    "no broker": (["kafka.brokers="], "minimal", "kafka.brokers: no broker"),
    "a broker without a port": (["kafka.brokers=kafka"], "minimal", "kafka/brokers"),
    "a page without a token": (["secrets.page="], "minimal", "secrets.page: the page listens beyond the loopback"),
    "workers without a store": (["secrets.worker="], "minimal", "secrets.worker: name a Secret"),
    "tables without a store": (["secrets.migrate="], "minimal", "secrets.migrate: name a Secret"),
    "more workers than partitions": (["worker.replicas=5"], "minimal", "worker.replicas: 5 are more than kafka.raw"),
    "KEDA beyond the partitions": (["keda.maxReplicas=33"], "fleet", "keda.maxReplicas: 33 are more than"),
    "KEDA the wrong way round": (["keda.minReplicas=9", "keda.maxReplicas=8"], "fleet", "keda.minReplicas: 9"),
    "SASL without a user": (["kafka.security=sasl_ssl"], "minimal", "kafka.users.worker: kafka.security is sasl_ssl"),
    "a CA without TLS": (["kafka.ca.secret=ca"], "minimal", "kafka.ca, kafka.certificate: not used"),
    "two alert files": (["alerts.file=x", "alerts.configMap=y"], "minimal", "alerts: file and configMap are both"),
    "YAML in a name": (["kafka.rawTopic=a\\, valueFrom: {}"], "minimal", "kafka/rawTopic"),
    "secrets of no alerts": (["alerts.secret=x"], "minimal", "alerts.secret: there is no alerts file"),
}


@pytest.mark.parametrize(("given", "values", "expected"), REFUSED.values(), ids=list(REFUSED))
def test_wrong_values_are_named(given: list[str], values: str, expected: str) -> None:
    assert expected in refusal(*[word for pair in given for word in ("--set", pair)], values=values)


def test_a_release_whose_name_fits_no_service_is_refused() -> None:
    assert "begins with a letter" in run_helm("template", "1", str(CHART)).stderr


def test_all_problems_are_reported_at_once() -> None:
    message = refusal("--set", "kafka.brokers=", "--set", "secrets.page=", "--set", "worker.replicas=9")
    assert all(name in message for name in ("kafka.brokers:", "secrets.page:", "worker.replicas:"))


def test_the_schema_allows_no_unknown_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    _assert_closed(schema, "")


KUBERNETES_OWN: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity", "namespaceSelector", "podSelector", "global")


def _assert_closed(schema: Any, place: str) -> None:
    if isinstance(schema, list):
        for part in schema:
            _assert_closed(part, place)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and not place.endswith(KUBERNETES_OWN):
        assert schema.get("additionalProperties", True) is not True, place
    for name, part in schema.items():
        _assert_closed(part, f"{place}/{name}")
