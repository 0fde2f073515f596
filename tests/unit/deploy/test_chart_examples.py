"""Kafka and ClickHouse by their operators: the examples agree with epicenter and its chart."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

import yaml

from epicenter.stream.kafka.topics import TopicNames, wanted_topics
from epicenter.stream.settings import Settings
from tests.support.chart import DEPLOY, VALUES

KAFKA: Final = list(yaml.safe_load_all((DEPLOY / "strimzi/kafka.yaml").read_text()))
CLICKHOUSE: Final = yaml.safe_load((DEPLOY / "clickhouse-operator/clickhouse.yaml").read_text())
SECURED: Final = yaml.safe_load((VALUES / "secured.yaml").read_text())


def test_strimzi_creates_the_same_topics_as_epicenter() -> None:
    made = {
        manifest["metadata"]["name"]: (
            manifest["spec"]["partitions"],
            manifest["spec"]["replicas"],
            {name: str(value) for name, value in manifest["spec"]["config"].items()},
        )
        for manifest in KAFKA
        if manifest["kind"] == "KafkaTopic"
    }
    settings = Settings(raw_partitions=SECURED["kafka"]["rawPartitions"], replication=3)
    assert made == {
        topic.name: (topic.num_partitions, topic.replication_factor, topic.topic_configs)
        for topic in wanted_topics(settings)
    }


def test_users_of_kafka_have_the_rights_they_need() -> None:
    names, raw = TopicNames(Settings().prefix), Settings().raw_topic
    worker, shipper = (_acls(SECURED["kafka"]["users"][user]["name"]) for user in ("worker", "shipper"))
    assert shipper == {("topic", raw, "literal"): ["Write", "Describe"]}
    assert worker[("topic", raw, "literal")] == ["Read", "Describe"]
    ours = f"{names.prefix}."
    assert worker[("topic", ours, "prefix")] == ["Read", "Write", "Describe"]
    assert worker[("group", ours, "prefix")] == ["Read", "Describe"]
    own = [topic.name for topic in wanted_topics(Settings()) if topic.name != raw]
    groups = [names.match_group, names.correlate_group, names.store_group, names.notify_group]
    assert all(name.startswith(ours) for name in (*own, *groups))


def _acls(user: str) -> dict[tuple[str, str, str], list[str]]:
    found = next(
        manifest for manifest in KAFKA if manifest["kind"] == "KafkaUser" and manifest["metadata"]["name"] == user
    )
    return {
        (acl["resource"]["type"], acl["resource"]["name"], acl["resource"]["patternType"]): acl["operations"]
        for acl in found["spec"]["authorization"]["acls"]
    }


def test_everything_of_kafka_belongs_to_the_cluster_that_the_chart_reaches() -> None:
    cluster = next(manifest for manifest in KAFKA if manifest["kind"] == "Kafka")
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    assert all(manifest["metadata"]["namespace"] == namespace for manifest in KAFKA)
    assert all(
        manifest is cluster or manifest["metadata"]["labels"] == {"strimzi.io/cluster": name} for manifest in KAFKA
    )
    port = cluster["spec"]["kafka"]["listeners"][0]["port"]
    assert SECURED["kafka"]["brokers"] == f"{name}-kafka-bootstrap.{namespace}.svc:{port}"
    assert SECURED["kafka"]["ca"]["secret"] == f"{name}-cluster-ca-cert"


def test_clickhouse_reads_passwords_and_keys_from_secrets_only() -> None:
    configuration = CLICKHOUSE["spec"]["configuration"]
    users: dict[str, Any] = configuration["users"]
    names = {key.partition("/")[0] for key in users}
    assert names == {"epicenter_migrate", "epicenter_worker", "epicenter_page", "epicenter_grafana"}
    for name in names:
        assert users[f"{name}/password_sha256_hex"]["valueFrom"]["secretKeyRef"]["name"] == "clickhouse-users"
    mounted = "/etc/clickhouse-server/secrets.d/{0}/clickhouse-tls/{0}"
    for file in ("tls.crt", "tls.key"):
        assert mounted.format(file) in configuration["files"]["openssl.xml"]
        assert configuration["files"][file]["valueFrom"]["secretKeyRef"] == {"name": "clickhouse-tls", "key": file}


def test_users_of_clickhouse_have_the_rights_of_our_roles() -> None:
    sql = re.sub("--.*", "", (DEPLOY.parent / "sinks/clickhouse/optional/roles.sql").read_text())
    roles: dict[str, list[str]] = defaultdict(list)
    for statement in (" ".join(statement.split()) for statement in sql.replace("{database}", "epicenter").split(";")):
        grant, _, role = statement.rpartition(" TO ")
        if grant.startswith("GRANT "):
            roles[role].append(grant)
    users = CLICKHOUSE["spec"]["configuration"]["users"]
    assert roles == {name: users[f"{name}/grants/query"] for name in roles}
    assert len(roles) == 4


def test_templates_that_clickhouse_names_are_defined() -> None:
    templates = CLICKHOUSE["spec"]["templates"]
    there = {template["name"] for kind in templates.values() for template in kind}
    assert set(CLICKHOUSE["spec"]["defaults"]["templates"].values()) == there
    profiles, quotas = (CLICKHOUSE["spec"]["configuration"][kind] for kind in ("profiles", "quotas"))
    for key, value in CLICKHOUSE["spec"]["configuration"]["users"].items():
        for kind, defined in (("/profile", profiles), ("/quota", quotas)):
            assert not key.endswith(kind) or any(path.startswith(f"{value}/") for path in defined), key
