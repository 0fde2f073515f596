"""docs/kubernetes.md: its commands are those of helm and the chart, and its snippets load."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import yaml

from tests.support.chart import (
    CHART,
    DEPLOY,
    VALUE_SETS,
    of_kind,
    pod_of,
    rendered,
    run_helm,
    validate,
    values_at,
    workloads,
)

ROOT: Final = DEPLOY.parent
DOCUMENT: Final = (ROOT / "docs/kubernetes.md").read_text()
COMMANDS: Final = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
POD: Final[dict[str, Any]] = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.M | re.S)[0])
OF_HELM: Final = {"install": "template", "upgrade": "template"}


def test_helm_accepts_its_commands(monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    shown = [command[1:] for command in COMMANDS if command[0] == "helm" and command[1] in OF_HELM]
    assert len(shown) == 2
    for verb, *arguments in shown:
        done = run_helm(OF_HELM[verb], *arguments)
        assert done.returncode == 0, done.stderr


def test_its_secret_has_the_keys_that_the_pods_mount() -> None:
    create = next(command for command in COMMANDS if "secret" in command)
    made = {word.partition("=")[2] for word in create if word.startswith("--from-file=")}
    sources = [
        source for workload in workloads(rendered("minimal")) for source in values_at(pod_of(workload), "secret")
    ]
    assert {item["key"] for source in sources for item in source["items"]} == made
    assert {source["name"] for source in sources} == {create[create.index("generic") + 1]}


def test_names_in_its_commands_exist() -> None:
    forward = next(command for command in COMMANDS if "port-forward" in command)
    service = next(
        service for service in of_kind(rendered("minimal"), "Service") if service["metadata"]["name"] in forward[-2]
    )
    assert service["spec"]["ports"][0]["port"] == int(forward[-1])
    assert set(re.findall(r"^\| `([a-z-]+)\.yaml` \|", DOCUMENT, re.MULTILINE)) == set(VALUE_SETS)
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in re.findall(r"`((?:kafka|rest|keda|secrets|networkPolicy|alerts|shipper)\.[A-Za-z.]+)`", DOCUMENT):
        here: Any = defaults
        for part in name.split("."):
            assert part in here, name
            here = here[part]


def test_the_sidecar_sets_the_variables_of_its_configuration_and_mounts_the_chart_s_files() -> None:
    validate(POD)
    shipper = next(container for container in POD["spec"]["containers"] if container["name"] == "shipper")
    read = set(re.findall(r"\$\{([A-Z_]+)\}", (DEPLOY / "fluent-bit/sidecar.yaml").read_text()))
    as_needed = {"KAFKA_SASL_MECHANISM", "KAFKA_USERNAME", "KAFKA_PASSWORD", "KAFKA_CA_FILE"}
    assert {variable["name"] for variable in shipper["env"]} == read - as_needed
    image = yaml.safe_load((CHART / "values.yaml").read_text())["shipper"]["image"]["fluent-bit"]
    assert shipper["image"] == f"{image['repository']}:{image['tag']}"
    made = [config_map["metadata"] for config_map in of_kind(rendered("fleet"), "ConfigMap")]
    (config,) = values_at(POD["spec"]["volumes"], "configMap")
    assert (config["name"], POD["metadata"]["namespace"]) in [
        (metadata["name"], metadata["namespace"]) for metadata in made
    ]
