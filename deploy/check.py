"""`make check-deploy`: checks deployment files against the schemas and linters of the programs that read them.

Chart and examples against Kubernetes' own schemas and those of KEDA's, Prometheus' and Strimzi's operators; Dockerfile
and shell scripts by their linters. Needs Go, Java and Maven; downloads stay in the user's cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import kubernetes_validate
import yaml
from platformdirs import user_cache_path

from tests.support.chart import CHART, DEPLOY, VALUE_SETS, VALUES, run_helm

CACHE: Final = user_cache_path("epicenter") / "check-deploy"
KUBECONFORM: Final = "v0.8.0"
KUBERNETES: Final = "1.37.0"
PROMETHEUS: Final = "example/prometheus-operator-crd/monitoring.coreos.com_"
CRDS_IN_GO: Final = {
    ("github.com/kedacore/keda/v2", "v2.21.0"): (
        "config/crd/bases/keda.sh_scaledobjects.yaml",
        "config/crd/bases/keda.sh_triggerauthentications.yaml",
    ),
    ("github.com/prometheus-operator/prometheus-operator", "v0.85.0"): (
        f"{PROMETHEUS}servicemonitors.yaml",
        f"{PROMETHEUS}podmonitors.yaml",
        f"{PROMETHEUS}prometheusrules.yaml",
    ),
}
OF_KUBERNETES: Final = "{{.ResourceKind}}{{.KindSuffix}}.json"
OF_OTHERS: Final = "{{.ResourceKind}}.json"
NO_SCHEMA: Final = "ClickHouseInstallation"
"""The registries used here lack its operator."""


def main() -> int:
    """Run every check. The exit code is 1 if one fails."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if missing := [name for name in ("go", "java", "mvn") if not shutil.which(name)]:
        print(f"needs {', '.join(missing)}: install it")
        return 1
    failed = [name for name, command in _checks() if not _passes(name, command)]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def _checks() -> Iterator[tuple[str, list[str]]]:
    for values in VALUE_SETS:
        yield f"helm lint {values}", [*_helm("lint", "--strict"), "--values", str(VALUES / f"{values}.yaml")]
    with TemporaryDirectory() as name:
        _render(Path(name))
        examples = [DEPLOY / "strimzi/kafka.yaml", DEPLOY / "clickhouse-operator/clickhouse.yaml"]
        yield "kubeconform", [*_kubeconform(), name, *map(str, examples)]
    yield "hadolint", ["hadolint", str(DEPLOY / "Dockerfile")]
    yield "shellcheck", ["shellcheck", *sorted(map(str, DEPLOY.rglob("*.sh")))]


def _passes(name: str, command: list[str]) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = [line for line in (done.stdout + done.stderr).splitlines() if line and "symbolic link" not in line]
    print(f"{'FAILED' if done.returncode else 'ok'}: {name}: {output[-1] if output else 'no complaints'}")
    if done.returncode:
        print("\n".join(output))
    return done.returncode == 0


def _helm(*arguments: str) -> list[str]:
    from tests.support.programs import helm

    return [str(helm()), *arguments, str(CHART)]


def _render(folder: Path) -> None:
    for values in VALUE_SETS:
        done = run_helm("template", "epicenter", str(CHART), "--values", str(VALUES / f"{values}.yaml"))
        (folder / f"{values}.yaml").write_text(done.stdout)


def _kubeconform() -> list[str]:
    program = CACHE / f"kubeconform-{KUBECONFORM}" / "kubeconform"
    if not program.exists():
        module = f"github.com/yannh/kubeconform/cmd/kubeconform@{KUBECONFORM}"
        subprocess.run(["go", "install", module], env={**os.environ, "GOBIN": str(program.parent)}, check=True)
    places = (f"{_kubernetes()}/{OF_KUBERNETES}", f"{_crds()}/{OF_OTHERS}")
    schemas = [argument for place in places for argument in ("-schema-location", place)]
    return [str(program), "-summary", "-strict", "-skip", NO_SCHEMA, *schemas]


def _kubernetes() -> Path:
    """Kubernetes' own schemas, with references to files of the same folder."""
    installed = Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{KUBERNETES}-local-strict"
    folder = CACHE / f"kubernetes-{KUBERNETES}"
    folder.mkdir(parents=True, exist_ok=True)
    for file in installed.glob("*.json"):
        schema = json.loads(file.read_text().replace("/api/_definitions.json", "_definitions.json"))
        schema.pop("$id", None)
        (folder / file.name).write_text(json.dumps(schema))
    return folder


def _crds() -> Path:
    """A folder with a JSON schema for each kind that an operator defines."""
    folder = CACHE / "schemas"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*_crds_of_go(), *_crds_of_strimzi()):
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)["spec"]
        schema = definition["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"] |= {name: {} for name in ("apiVersion", "kind", "metadata")}
        (folder / f"{definition['names']['kind'].lower()}.json").write_text(json.dumps(_closed(schema)))
    return folder


def _crds_of_go() -> Iterator[Path]:
    for (module, version), files in CRDS_IN_GO.items():
        download = ["go", "mod", "download", "-json", f"{module}@{version}"]
        done = subprocess.run(download, cwd=CACHE, capture_output=True, text=True, check=True)
        yield from (Path(json.loads(done.stdout)["Dir"]) / file for file in files)


def _crds_of_strimzi() -> Iterator[Path]:
    folder = CACHE / "strimzi"
    pom = str(DEPLOY / "strimzi" / "pom.xml")
    goal = "io.fabric8:crd-generator-maven-plugin:generate"
    subprocess.run(
        ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, f"-Dcrds={folder}", goal], check=True, capture_output=True
    )
    yield from folder.glob("*.yml")


def _closed(schema: Any) -> Any:
    """The schema, refusing fields that it does not name: an API server would silently drop them."""
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if "properties" in schema:
        closed["properties"] = {name: _closed(value) for name, value in schema["properties"].items()}
        if not (_is_any_of_several(schema) or "x-kubernetes-preserve-unknown-fields" in schema):
            closed["additionalProperties"] = False
    elif schema.get("additionalProperties") == {"type": "object"}:
        closed["additionalProperties"] = True
    return closed


def _is_any_of_several(schema: Mapping[str, Any]) -> bool:
    """A Java class with subclasses: only their common properties are known."""
    return schema["properties"].keys() <= {"type", "additionalProperties"}


if __name__ == "__main__":
    sys.exit(main())
