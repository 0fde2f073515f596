"""Each pod of the chart has the least privileges that it needs."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.chart import VALUE_SETS, Manifest, containers_of, of_kind, pod_of, rendered, values_at, workloads

EVERY_POD: Final = [
    pytest.param(workload, id=f"{values}-{workload['metadata']['name']}")
    for values in VALUE_SETS
    for workload in workloads(rendered(values))
]
OUR_PODS: Final = [pod for pod in EVERY_POD if "shipper" not in str(pod.id).removeprefix("vector-shipper")]
SHIPPERS: Final = [pod for pod in EVERY_POD if pod not in OUR_PODS]


@pytest.mark.parametrize("workload", OUR_PODS)
def test_our_pods_run_without_privileges(workload: Manifest) -> None:
    spec = pod_of(workload)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not list(values_at(spec, "hostPath", "hostNetwork", "hostPID", "hostIPC", "privileged"))
    for container in containers_of(workload):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("workload", SHIPPERS)
def test_a_shipper_runs_as_root_reads_the_host_and_writes_a_single_folder_there(workload: Manifest) -> None:
    spec, shipper = pod_of(workload)["spec"], containers_of(workload)[0]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    host = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    writable = [
        mount["name"] for mount in shipper["volumeMounts"] if mount["name"] in host and not mount.get("readOnly")
    ]
    assert [host[name] for name in writable] == ["/var/lib/epicenter-shipper"]
    if "/dev/kmsg" in host.values():
        assert shipper["securityContext"] == {"readOnlyRootFilesystem": True, "privileged": True}
    else:
        assert shipper["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("workload", EVERY_POD)
def test_every_container_has_limits_and_no_links_to_services(workload: Manifest) -> None:
    assert pod_of(workload)["spec"]["enableServiceLinks"] is False, "EPICENTER_PAGE_PORT would become an address"
    for container in containers_of(workload):
        for bound in ("requests", "limits"):
            assert {"cpu", "memory"} <= container["resources"][bound].keys()


@pytest.mark.parametrize("workload", EVERY_POD)
def test_no_secret_is_in_an_environment_or_on_a_command_line(workload: Manifest) -> None:
    for container in containers_of(workload):
        named = [
            variable["name"]
            for variable in container["env"]
            if re.search("PASSWORD|TOKEN|SECRET|STORE", variable["name"])
        ]
        assert set(named) <= {"EPICENTER_SECRETS_DIR", "KAFKA_PASSWORD"}
        for variable in container["env"]:
            if variable["name"] == "KAFKA_PASSWORD":
                assert variable["valueFrom"].keys() == {"secretKeyRef"}
        assert not re.search("password|token|://", " ".join(container["args"]))


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_chart_makes_no_secret_and_only_shippers_use_the_api(values: str) -> None:
    assert not of_kind(rendered(values), "Secret", "Role")
    assert all(
        account["automountServiceAccountToken"] is False for account in of_kind(rendered(values), "ServiceAccount")
    )
    (role,) = of_kind(rendered(values), "ClusterRole")
    (rule,) = role["rules"]
    assert set(rule["resources"]) <= {"pods", "namespaces", "nodes"}
    assert rule["verbs"] == ["get", "list", "watch"]
    (binding,) = of_kind(rendered(values), "ClusterRoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == ["epicenter-shipper"]


REACH: Final = {
    "worker": {53, 9092, 8123, 8443},
    "page": {53, 8123, 8443},
    "migrate": {53, 9092, 8123, 8443},
    "shipper": {53, 9092, 443, 6443},
}


def test_each_pod_reaches_what_it_needs_and_nothing_else() -> None:
    policies = of_kind(rendered("minimal"), "NetworkPolicy")
    found = {policy["metadata"]["labels"]["app.kubernetes.io/component"]: policy["spec"] for policy in policies}
    assert {name: {port["port"] for port in values_of(spec)} for name, spec in found.items()} == REACH
    for spec in found.values():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert {name for name, spec in found.items() if "ingress" in spec} == {"worker", "shipper"}


def test_a_pod_that_only_matches_reaches_neither_store_nor_targets() -> None:
    split = rendered("fleet", "--set", "alerts.file=x", "--set", "store.ca.secret=ca")
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind(split, "NetworkPolicy")}
    pods = {manifest["metadata"]["name"]: pod_of(manifest)["spec"] for manifest in workloads(split)}
    reach = {name: {port["port"] for port in values_of(spec)} for name, spec in policies.items()}
    assert reach["epicenter-worker"] == {53, 9092}
    assert reach["epicenter-rest"] == {53, 9092, 8123, 8443, 443, 9093}
    assert set(values_at(pods["epicenter-worker"]["volumes"], "path")) == {"web_token", "topology.yaml"}
    assert {"store", "ca.crt", "alerts.yaml"} <= set(values_at(pods["epicenter-rest"]["volumes"], "path"))


def values_of(policy: Manifest) -> list[Manifest]:
    return [port for rule in policy["egress"] for port in rule["ports"]]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_no_pod_is_left_without_a_policy(values: str) -> None:
    policies = [policy["spec"]["podSelector"]["matchLabels"] for policy in of_kind(rendered(values), "NetworkPolicy")]
    for workload in workloads(rendered(values)):
        labels = pod_of(workload)["metadata"]["labels"]
        assert [selector for selector in policies if selector.items() <= labels.items()], workload["metadata"]["name"]


def test_allowed_peers_are_those_of_the_values() -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind(rendered("secured"), "NetworkPolicy")}
    peers = policies["epicenter-page"]["ingress"][0]["from"]
    assert peers == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]


@pytest.mark.parametrize("name", ["epicenter-worker", "epicenter-page"])
def test_liveness_and_readiness_have_probes_apart(name: str) -> None:
    (pod,) = (manifest for manifest in workloads(rendered("minimal")) if manifest["metadata"]["name"] == name)
    container = containers_of(pod)[0]
    ports = {port["name"] for port in container["ports"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == ports


def test_an_empty_list_of_ports_allows_none() -> None:
    none = rendered(
        "minimal", "--set-json", "networkPolicy.storePorts=[]", "--set", "networkPolicy.apiServerPorts=null"
    )
    egress = [rule for policy in of_kind(none, "NetworkPolicy") for rule in policy["spec"]["egress"]]
    assert len(egress) == 7 and all(rule["ports"] for rule in egress)
