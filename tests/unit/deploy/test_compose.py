"""deploy/compose.yaml and what it mounts: hardened, pinned, complete, and accepted by the programs that read it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from epicenter.stream.settings import Settings
from tests.support.programs import unpacked_program

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
TEXT: Final = (DEPLOY / "compose.yaml").read_text()
COMPOSE: Final = yaml.safe_load(TEXT)
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]
OURS: Final = {name for name, service in SERVICES.items() if "build" in service}
WITHOUT_HEALTH: Final = {"topics", "migrate", "fluent-bit"}
"""Two services that end, and one whose image has no program for a health check."""
SETTING_NAMES: Final = {field.alias or name for name, field in Settings.model_fields.items()}

each_service = pytest.mark.parametrize("name", SERVICES)


@pytest.fixture(scope="module")
def with_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `deploy` after secrets.sh has run."""
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("secrets", "helm"))
    for _ in range(2):
        subprocess.run(["sh", folder / "compose/secrets.sh"], check=True, capture_output=True)
    return folder


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    return [(volume.split(":")[0], volume.split(":")[1]) for volume in service.get("volumes", [])]


@each_service
def test_each_service_runs_without_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:\d+", service["user"])
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert not {"privileged", "cap_add", "devices", "pid", "network_mode"} & set(service)


@each_service
def test_its_image_is_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    if name in OURS:
        version = re.search(r'image.version="([^"]+)"', (DEPLOY / "Dockerfile").read_text())
        assert version and image == f"epicenter:{version[1]}"
    elif name == "fluent-bit":
        assert re.fullmatch(r"fluent/fluent-bit:\d+\.\d+\.\d+\$\{FLUENT_BIT_DIGEST:-\}", image)
    elif name == "page-proxy":
        assert re.fullmatch(r"nginxinc/nginx-unprivileged:\d+\.\d+\.\d+\$\{NGINX_DIGEST:-\}", image)
    else:
        assert re.fullmatch(r"[a-z/-]+:v?\d+(\.\d+)+@sha256:[0-9a-f]{64}", image)


@each_service
def test_each_service_has_a_health_check(name: str) -> None:
    health = SERVICES[name]["healthcheck"]
    assert health.get("disable", False) is (name in WITHOUT_HEALTH)
    assert name in WITHOUT_HEALTH or health["test"][0].startswith("CMD")


@each_service
def test_its_mounts_secrets_and_dependencies_exist(name: str, with_secrets: Path) -> None:
    service = SERVICES[name]
    for source, _ in mounts(service):
        if source.startswith("./"):
            assert (with_secrets / source).exists(), source
        else:
            assert source in COMPOSE["volumes"]
    assert all((with_secrets / file).is_file() for file in service.get("env_file", []))
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    for other, when in service.get("depends_on", {}).items():
        ends = SERVICES[other]["restart"] == "on-failure"
        assert when["condition"] == ("service_completed_successfully" if ends else "service_healthy")
        assert ends or other not in WITHOUT_HEALTH


@each_service
def test_its_settings_are_settings(name: str, with_secrets: Path) -> None:
    ours = {key for key in SERVICES[name].get("environment", {}) if key.startswith("EPICENTER_")}
    if name != "grafana":
        assert {key.removeprefix("EPICENTER_").lower() for key in ours} <= SETTING_NAMES
    for source, target in mounts(SERVICES[name]):
        if target == "/run/secrets/epicenter":
            assert {file.name for file in (with_secrets / source).iterdir()} <= SETTING_NAMES


def test_only_page_and_dashboards_are_reached_and_only_from_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"page-proxy": ["127.0.0.1:8017:8017"], "grafana": ["127.0.0.1:3000:3000"]}
    assert {name for name, service in SERVICES.items() if "outside" in service["networks"]} == set(published)
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_each_service_is_in_the_document() -> None:
    guide = (DEPLOY.parent / "docs/local-cluster.md").read_text()
    assert {name for name in SERVICES if f"`{name}`" not in guide} == set()


def test_ports_agree_between_services_and_configurations() -> None:
    ports = {
        name: re.findall(r":(\d{4,5})", str(service["healthcheck"].get("test"))) for name, service in SERVICES.items()
    }
    assert ports["kafka"] == re.findall(r"PLAINTEXT://:(\d+)", SERVICES["kafka"]["environment"]["KAFKA_LISTENERS"])
    assert SERVICES["worker"]["environment"]["EPICENTER_KAFKA"] == f"kafka:{ports['kafka'][0]}"
    assert SERVICES["worker"]["environment"]["ALERTMANAGER_URL"].endswith(ports["alertmanager"][0])
    assert f"@clickhouse:{ports['clickhouse'][0]}/" in (DEPLOY / "compose/secrets.sh").read_text()
    assert ports["grafana"] == ["3000"]
    defaults = [str(Settings.model_fields[name].default) for name in ("web_port", "page_port")]
    assert [SERVICES[name]["healthcheck"]["test"][-1] for name in ("worker", "page")] == defaults
    scraped = yaml.safe_load((DEPLOY / "compose/prometheus.yaml").read_text())["scrape_configs"]
    assert str(scraped[0]["dns_sd_configs"][0]["port"]) == defaults[0]
    shipper = yaml.safe_load((DEPLOY / "compose/fluent-bit.yaml").read_text())
    assert scraped[1]["static_configs"][0]["targets"] == [f"fluent-bit:{shipper['service']['http_port']}"]


def test_grafana_gets_the_variables_of_its_files(with_secrets: Path) -> None:
    files = [file.read_text() for file in (DEPLOY / "grafana/provisioning").rglob("*.yaml")]
    variables = {name for text in files for name in re.findall(r"\$(EPICENTER_\w+)", text)}
    secret = re.findall(r"^(\w+)=", (with_secrets / "compose/secrets/grafana.env").read_text(), re.MULTILINE)
    assert variables - set(SERVICES["grafana"]["environment"]) - set(secret) == set()


def test_fluent_bit_gets_the_variables_of_its_file() -> None:
    variables = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "compose/fluent-bit.yaml").read_text()))
    assert variables == set(SERVICES["fluent-bit"]["environment"])
    (parser,) = yaml.safe_load((DEPLOY / "compose/parsers.yaml").read_text())["parsers"]
    pattern = parser["regex"].replace("?<", "?P<")
    found = re.match(pattern, "/var/log/cluster/round000000/node0001/worker.jsonl")
    assert found and found["node"] == "node0001"


def test_it_contains_no_secret_and_each_is_generated(with_secrets: Path) -> None:
    made = with_secrets / "compose/secrets"
    secrets = {
        word for file in made.rglob("*") if file.is_file() for word in re.findall(r"[0-9a-f]{48,}", file.read_text())
    }
    assert len(secrets) == 4 + 3 + 3, "four passwords of the store, three others, three hashes"
    assert not [word for word in secrets if word in TEXT]
    given = {key for service in SERVICES.values() for key in service.get("environment", {})}
    assert {key for key in given if re.search("PASSWORD|TOKEN|SECRET|KEY", key)} == {"EPICENTER_SECRETS_DIR"}
    assert made.stat().st_mode & 0o077 == 0
    assert "/deploy/compose/secrets/" in (DEPLOY.parent / ".gitignore").read_text().splitlines()


def test_clickhouse_parses_the_statements_of_its_users(with_secrets: Path) -> None:
    import chdb

    for statement in (with_secrets / "compose/secrets/users.sql").read_text().split(";")[:-1]:
        assert chdb.query(f"EXPLAIN AST {statement}").has_error() is False


def test_prometheus_accepts_its_configuration(with_secrets: Path) -> None:
    inside = with_secrets / "prometheus"
    text = (with_secrets / "compose/prometheus.yaml").read_text()
    text = text.replace("/etc/prometheus/web_token", str(with_secrets / "compose/secrets/worker/web_token"))
    (inside / "prometheus.yaml").write_text(text)
    promtool = unpacked_program("promtool", "prometheus")
    done = subprocess.run([promtool, "check", "config", inside / "prometheus.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 rule files found" in done.stdout


def test_alertmanager_accepts_its_configuration() -> None:
    amtool = unpacked_program("amtool", "prometheus-alertmanager")
    file = DEPLOY / "compose/alertmanager.yaml"
    done = subprocess.run([amtool, "check-config", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
