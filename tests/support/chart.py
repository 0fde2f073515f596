"""The Helm chart, rendered by the real helm, once for each set of values."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml

from tests.support.programs import helm

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "epicenter"
VALUES: Final = DEPLOY / "helm" / "values"
VALUE_SETS: Final = ("minimal", "secured", "fleet", "vector-shipper")
OURS: Final = ("worker", "rest", "page", "topics", "migrate")
"""Containers that run epicenter."""

Manifest = Mapping[str, Any]
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False)


@cache
def rendered(values: str, *more: str) -> tuple[Manifest, ...]:
    """The manifests that a set of values gives."""
    done = run_helm("template", "epicenter", str(CHART), "--values", str(VALUES / f"{values}.yaml"), *more)
    assert done.returncode == 0, done.stderr
    return tuple(manifest for manifest in yaml.load_all(done.stdout, yaml.CSafeLoader) if manifest)


def refusal(*more: str, values: str = "minimal") -> str:
    """Helm's error for values that it refuses."""
    done = run_helm("template", "epicenter", str(CHART), "--values", str(VALUES / f"{values}.yaml"), *more)
    assert done.returncode != 0, "helm accepted the values"
    return "\n".join(line for line in done.stderr.splitlines() if "symbolic link" not in line)


def validate(manifest: Manifest) -> None:
    """Check a manifest against Kubernetes' schemas; a field that they do not know is an error."""
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def of_kind(manifests: tuple[Manifest, ...], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def workloads(manifests: tuple[Manifest, ...]) -> list[Manifest]:
    return of_kind(manifests, "Deployment", "DaemonSet", "Job")


def pod_of(workload: Manifest) -> Manifest:
    pod: Manifest = workload["spec"]["template"]
    return pod


def containers_of(workload: Manifest) -> list[Manifest]:
    spec = pod_of(workload)["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def values_at(document: Any, *keys: str) -> Iterator[Any]:
    """Every value of these keys, at any depth."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in keys:
                yield value
            yield from values_at(value, *keys)
    elif isinstance(document, list):
        for element in document:
            yield from values_at(element, *keys)
