"""The Helm chart: its manifests are valid, consistent, and agree with the sources."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import yaml

from epicenter.stream.load_settings import FORMER_SETTINGS, load_settings
from epicenter.stream.settings import PREFIX, Settings
from tests.support.chart import (
    CHART,
    DEPLOY,
    OURS,
    VALUE_SETS,
    VALUES,
    Manifest,
    containers_of,
    of_kind,
    pod_of,
    rendered,
    run_helm,
    validate,
    values_at,
    workloads,
)

OTHERS: Final = ("keda.sh/", "monitoring.coreos.com/")
"""Kinds of operators: `make check-deploy` validates them against their schemas."""

SETTINGS: Final = {field.alias or name for name, field in Settings.model_fields.items()}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_helm_lint_finds_nothing(values: str) -> None:
    done = run_helm("lint", "--strict", str(CHART), "--values", str(VALUES / f"{values}.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_manifest_fits_the_schema_of_kubernetes(values: str) -> None:
    for manifest in rendered(values):
        if not manifest["apiVersion"].startswith(OTHERS):
            validate(manifest)


@pytest.mark.parametrize("values", VALUE_SETS)
def test_names_are_unique_and_short_enough_for_labels_and_hosts(values: str) -> None:
    names = [
        (manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
        for manifest in rendered(values)
    ]
    assert len(set(names)) == len(names)
    long_release = "r" * 53
    done = run_helm("template", long_release, str(CHART), "--values", str(VALUES / f"{values}.yaml"))
    for name in values_at(list(yaml.load_all(done.stdout, yaml.CSafeLoader)), "name"):
        assert len(str(name)) <= 63, name


AMBIGUOUS: Final = (
    *("kafka.rawTopic=1e3", "kafka.prefix=0", "kafka.security=sasl_ssl", "kafka.ca.secret=12", "kafka.ca.key=1"),
    *("kafka.certificate.secret=null", "kafka.users.worker.name=off", "kafka.users.worker.secret=1e3"),
    *("kafka.users.topics.name=y", "kafka.users.topics.secret=13", "kafka.users.shipper.name=no"),
    *("kafka.users.shipper.secret=14", "store.ca.secret=15", "secrets.worker=16", "secrets.page=true"),
    *("secrets.migrate=0x1", "worker.priorityClassName=true", "topology.configMap=null", "rulePacks.configMaps[0]=1"),
    *("alerts.configMap=17", "alerts.secret=18", "shipper.env.YES=no", "image.pullSecrets[0]=0", "cluster=0123"),
    *("shipper.sidecar.namespaces[0]=19", "monitoring.dashboards.label=on"),
)
"""Names that Kubernetes and Kafka allow, and that YAML reads as another type."""


def test_ambiguous_names_stay_texts() -> None:
    more = [word for pair in AMBIGUOUS for word in ("--set-string", pair)] + [
        "--set-json",
        "settings.fetch_records=1000000",
    ]
    done = run_helm("template", "my.release", str(CHART), "-n", "20", "--values", str(VALUES / "fleet.yaml"), *more)
    assert done.returncode == 0, done.stderr
    manifests = list(yaml.load_all(done.stdout, yaml.CSafeLoader))
    for manifest in manifests:
        if not manifest["apiVersion"].startswith(OTHERS):
            validate(manifest)
    assert all(
        isinstance(name, str) for name in values_at(manifests, "name", "namespace", "key", "topic", "secretName")
    )
    assert {manifest["metadata"]["name"] for manifest in manifests if "." in manifest["metadata"]["name"]} == set()
    assert {
        variable["value"]
        for variable in values_at(manifests, "env")
        for variable in variable
        if "FETCH" in variable["name"]
    } == {"1000000"}


def test_the_four_sets_of_values_render_different_parts() -> None:
    kinds = {values: {manifest["kind"] for manifest in rendered(values)} for values in VALUE_SETS}
    assert {"ScaledObject", "ServiceMonitor", "PodMonitor", "PrometheusRule", "PodDisruptionBudget"} <= kinds["fleet"]
    assert not {"ScaledObject", "ServiceMonitor", "PrometheusRule"} & kinds["minimal"]
    components = [
        manifest["metadata"]["labels"]["app.kubernetes.io/component"] for manifest in rendered("vector-shipper")
    ]
    assert "page" not in components
    assert "shipper" in components


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_setting_in_the_chart_exists_and_they_agree(
    values: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workload in workloads(rendered(values)):
        for container in containers_of(workload):
            if container["name"] in OURS:
                with monkeypatch.context() as patch:
                    folder = tmp_path / workload["metadata"]["name"] / container["name"]
                    folder.mkdir(parents=True)
                    for name in _secret_settings(workload, container):
                        (folder / name).write_text("https://epicenter:secret@clickhouse:8443/epicenter")
                    for variable in container["env"]:
                        patch.setenv(variable["name"], variable["value"])
                        assert not variable["name"].startswith(PREFIX) or _is_setting(variable["name"]), variable[
                            "name"
                        ]
                    patch.setenv("EPICENTER_SECRETS_DIR", str(folder))
                    load_settings()


def test_settings_that_may_be_given_are_settings() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(schema["properties"]["settings"]["properties"]) <= SETTINGS | FORMER_SETTINGS.keys()


def _is_setting(variable: str) -> bool:
    return variable.removeprefix(PREFIX).lower() in SETTINGS


def _secret_settings(workload: Manifest, container: Manifest) -> list[str]:
    """The files in the container's folder of secrets."""
    mount = next(mount for mount in container["volumeMounts"] if mount["mountPath"] == "/run/secrets/epicenter")
    volume = next(volume for volume in pod_of(workload)["spec"]["volumes"] if volume["name"] == mount["name"])
    names = list(values_at(volume, "path"))
    assert set(names) <= SETTINGS
    return names


def test_each_task_is_done_by_one_kind_of_pod() -> None:
    def services(values: str) -> dict[str, str]:
        return {
            container["name"]: variable["value"]
            for workload in of_kind(rendered(values), "Deployment")
            for container in containers_of(workload)
            for variable in container["env"]
            if variable["name"] == "EPICENTER_SERVICES"
        }

    assert services("minimal") == {"worker": "match,correlate,store,notify"}
    assert services("fleet") == {"worker": "match", "rest": "correlate,store,notify"}


def test_keda_scales_the_workers_by_the_lag_up_to_the_partitions() -> None:
    scaled, worker = of_kind(rendered("fleet"), "ScaledObject")[0], _part("fleet", "worker")
    trigger = scaled["spec"]["triggers"][0]["metadata"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert scaled["spec"]["maxReplicaCount"] == 32
    assert (trigger["consumerGroup"], trigger["topic"]) == ("epicenter.match", "logs.raw")
    assert "replicas" not in worker["spec"], "an upgrade would undo what KEDA did"


def test_keda_signs_in_as_a_worker() -> None:
    signed = rendered("secured", "--set", "keda.enabled=true")
    trigger = of_kind(signed, "ScaledObject")[0]["spec"]["triggers"][0]
    account = of_kind(signed, "TriggerAuthentication")[0]
    assert (trigger["metadata"]["sasl"], trigger["metadata"]["tls"]) == ("scram_sha512", "enable")
    assert trigger["authenticationRef"]["name"] == account["metadata"]["name"]
    assert [reference["parameter"] for reference in account["spec"]["secretTargetRef"]] == ["password", "ca"]


def test_alert_rules_dashboards_and_shippers_are_those_of_the_repository() -> None:
    rule = of_kind(rendered("fleet"), "PrometheusRule")[0]
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus/epicenter.rules.yaml").read_text())
    data = {
        name: text
        for config_map in of_kind(rendered("fleet"), "ConfigMap")
        if "grafana_dashboard" in config_map["metadata"]["labels"]
        for name, text in config_map["data"].items()
    }
    files = {file.name: json.loads(file.read_text()) for file in (DEPLOY / "grafana/dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in data.items()} == files
    for values, kind, file in (
        ("fleet", "fluent-bit", "daemonset.yaml"),
        ("fleet", "fluent-bit", "sidecar.yaml"),
        ("vector-shipper", "vector", "daemonset.yaml"),
    ):
        texts = [config_map["data"].get(file) for config_map in of_kind(rendered(values), "ConfigMap")]
        assert (DEPLOY / kind / file).read_text() in texts
    assert all(file.is_symlink() for file in (CHART / "files").iterdir()), "a copy would grow old"


def test_the_migration_reaches_its_servers_before_other_manifests_are_made() -> None:
    job = of_kind(rendered("minimal"), "Job")[0]["metadata"]["annotations"]
    (policy,) = (
        policy for policy in of_kind(rendered("minimal"), "NetworkPolicy") if "migrate" in policy["metadata"]["name"]
    )
    hook = policy["metadata"]["annotations"]
    assert int(hook["helm.sh/hook-weight"]) < int(job.get("helm.sh/hook-weight", 0))
    assert {name: hook[name] for name in job} == job


def test_vector_reads_the_variables_of_its_configuration() -> None:
    """From 0.57 on it does so only by option."""
    env = {
        variable["name"]: variable.get("value")
        for variable in containers_of(_part("vector-shipper", "shipper"))[0]["env"]
    }
    assert env["VECTOR_DANGEROUSLY_ALLOW_ENV_VAR_INTERPOLATION"] == "true"


def test_metrics_have_the_job_label_of_the_alert_rules() -> None:
    monitor = of_kind(rendered("fleet"), "ServiceMonitor")[0]["spec"]
    for service in _chosen("fleet", "Service", monitor["selector"]["matchLabels"]):
        assert service["metadata"]["labels"][monitor["jobLabel"]] == "epicenter"
        assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_named_ports_exist_where_they_are_used(values: str) -> None:
    for workload in workloads(rendered(values)):
        for container in containers_of(workload):
            for probe in values_at(container, "httpGet", "tcpSocket"):
                assert probe["port"] in [port["name"] for port in container["ports"]]
    for service in of_kind(rendered(values), "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= _ports(values, service["spec"]["selector"])
    for policy in of_kind(rendered(values), "NetworkPolicy"):
        names = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
        assert names <= _ports(values, policy["spec"]["podSelector"]["matchLabels"])
    for budget in of_kind(rendered(values), "PodDisruptionBudget"):
        assert _ports(values, budget["spec"]["selector"]["matchLabels"])


@pytest.mark.parametrize("values", VALUE_SETS)
def test_references_exist_or_are_named_in_the_values(values: str) -> None:
    given = {str(name) for name in values_at(yaml.safe_load((VALUES / f"{values}.yaml").read_text()), *_NAMING)}
    made = {
        (config_map["metadata"].get("namespace"), config_map["metadata"]["name"]): config_map["data"]
        for config_map in of_kind(rendered(values), "ConfigMap")
    }
    for workload in workloads(rendered(values)):
        for secret in values_at(pod_of(workload), "secret", "secretKeyRef"):
            assert (secret.get("name") or secret["secretName"]) in given
        for config in values_at(pod_of(workload), "configMap"):
            data = made.get((workload["metadata"]["namespace"], config["name"]))
            assert data is not None or config["name"] in given
            assert data is None or {entry["key"] for entry in config.get("items", [])} <= data.keys()
        accounts = [account["metadata"]["name"] for account in of_kind(rendered(values), "ServiceAccount")]
        assert pod_of(workload)["spec"]["serviceAccountName"] in [*accounts, "default"]
        mounted = {mount["name"] for container in containers_of(workload) for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod_of(workload)["spec"]["volumes"]}


_NAMING: Final = ("secret", "worker", "migrate", "page", "configMap")


def test_a_change_of_configuration_replaces_the_pods_that_read_it() -> None:
    def annotation(component: str, name: str, *more: str) -> Any:
        return pod_of(_part("minimal", component, *more))["metadata"]["annotations"][name]

    for component, name, value in (
        ("worker", "checksum/alerts", "alerts.file=x"),
        ("worker", "checksum/topology", "topology.file=x"),
        ("shipper", "checksum/config", "shipper.kind=vector"),
    ):
        assert annotation(component, name, "--set", value) != annotation(component, name)


def test_packs_topology_and_alerts_are_mounted_at_the_paths_of_the_settings() -> None:
    given = ["rulePacks.files.own\\.yaml=x", "rulePacks.configMaps={big}", "topology.file=x", "alerts.file=x"]
    more = [word for pair in given for word in ("--set", pair)]
    manifests = rendered("minimal", *more)
    worker = containers_of(_part("minimal", "worker", *more))[0]
    env = {variable["name"]: variable["value"] for variable in worker["env"]}
    mounts = [mount["mountPath"] for mount in worker["volumeMounts"]]
    assert env["EPICENTER_RULE_PACKS"] == "/etc/epicenter/rules/chart:/etc/epicenter/rules/0"
    for variable in ("EPICENTER_TOPOLOGY", "EPICENTER_ALERTS"):
        assert env[variable].rpartition("/")[0] in mounts
    assert set(env["EPICENTER_RULE_PACKS"].split(":")) <= set(mounts)
    made = {config_map["metadata"]["name"]: config_map["data"] for config_map in of_kind(manifests, "ConfigMap")}
    assert made["epicenter-alerts"] == {"alerts.yaml": "x"}
    assert made["epicenter-rules"] == {"own.yaml": "x"}


def _part(values: str, component: str, *more: str) -> Manifest:
    """The Deployment, DaemonSet or Job of a component."""
    label = "app.kubernetes.io/component"
    return next(
        workload
        for workload in workloads(rendered(values, *more))
        if workload["metadata"]["labels"][label] == component
    )


def _chosen(values: str, kind: str, labels: Manifest) -> list[Manifest]:
    found = [
        manifest
        for manifest in of_kind(rendered(values), kind)
        if labels.items() <= manifest["metadata"]["labels"].items()
    ]
    assert found
    return found


def _ports(values: str, labels: Manifest) -> set[str]:
    """Names of the ports of the pods with these labels."""
    pods = [
        workload
        for workload in workloads(rendered(values))
        if labels.items() <= pod_of(workload)["metadata"]["labels"].items()
    ]
    assert len(pods) == 1, labels
    return {port["name"] for container in containers_of(pods[0]) for port in container.get("ports", [])}
