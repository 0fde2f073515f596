"""Kafka with TLS, users and ACLs: a real broker with a listener for each kind of security, valid and broken ones."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from deploy.dev import broker as dev_broker
from deploy.dev.process import EPICENTER
from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.producer import RawProducer
from epicenter.rules.errors import ConfigError, TransientError
from epicenter.stream.checks.collect import kafka_findings
from epicenter.stream.kafka import preflight
from epicenter.stream.kafka.preflight import MAX_S, reach
from epicenter.stream.kafka.security import client_arguments
from epicenter.stream.load_settings import load_settings
from epicenter.stream.settings import Settings
from tests.support.cluster import Cluster, with_admin
from tests.support.logs import the_rules
from tests.support.receiver import Receiver
from tests.support.secure_kafka import PASSWORDS, PLAIN_USER, SecureBroker, allow, secure_broker
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

SECURITY: Final = Path(__file__).parents[2] / "docs/security.md"
PREFIX: Final = "epicenter"
RAW: Final = "logs.raw"
TOKEN: Final = "0123456789abcdef"
SERVICES: Final = ("match", "correlate", "store", "notify")
XID = b"2026-03-02T09:00:01.500000+00:00 n1 kernel: [   12.000001] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off"
LATER_XID = XID.replace(b"09:00:01", b"13:00:01").replace(b" n1 ", b" n2 ")
"""Hours later, so that the watermark advances."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    try:
        dev_broker._find_java(), dev_broker._find_jars()
    except ConfigError as error:
        if not dev_broker.docker_answers():
            raise
        pytest.skip(str(error))
    with secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


def as_user(secure: SecureBroker, name: str, **given: Any) -> dict[str, Any]:
    """The settings of one of the users."""
    user = {"kafka_security": "sasl_ssl", "kafka_username": name, "kafka_password": PASSWORDS[name]}
    return {"kafka": secure.at("SECURE"), "kafka_ca": secure.file("ca"), **user, **given}


def environment(given: dict[str, Any]) -> dict[str, str]:
    return {name.upper(): str(value) for name, value in given.items()}


def test_every_valid_way_to_connect_works(secure: SecureBroker) -> None:
    ca, plain = (
        {"kafka_ca": secure.file("ca")},
        dict(zip(("kafka_username", "kafka_password"), PLAIN_USER, strict=True)),
    )
    ways = (
        {"kafka": secure.plain},
        as_user(secure, "match"),
        as_user(secure, "old", kafka_sasl_mechanism="SCRAM-SHA-256"),
        {**as_user(secure, "match"), **plain, "kafka_sasl_mechanism": "PLAIN"},
        as_user(secure, "match", kafka=secure.at("CLEAR"), kafka_security="sasl_plaintext", kafka_ca=""),
        {"kafka": secure.at("MUTUAL"), "kafka_security": "ssl", "kafka_cert": secure.file("client"), **ca},
        as_user(secure, "match", kafka=f"127.0.0.1:1,{secure.at('SECURE')}"),
    )
    for way in ways:
        asyncio.run(reach(load_settings(**way)))


def test_every_wrong_way_to_connect_fails_soon_with_one_line_and_a_remedy(secure: SecureBroker) -> None:
    ca, user = {"kafka_ca": secure.file("ca")}, as_user(secure, "match")
    tls, clear = {"kafka_security": "ssl", **ca}, {"kafka_security": "sasl_plaintext", "kafka_ca": ""}
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("SECURE", user | {"kafka_password": "secret-that-is-wrong"}, "user match is refused with SCRAM-SHA-512"),
        ("SECURE", user | {"kafka_sasl_mechanism": "SCRAM-SHA-256"}, "user match is refused with SCRAM-SHA-256"),
        ("CLEAR", user | clear | {"kafka_sasl_mechanism": "PLAIN"}, "it does not know PLAIN: set kafka_sasl_mechanism"),
        ("SECURE", user | {"kafka_ca": ""}, "signed by an unknown CA: set kafka_ca"),
        ("SECURE", user | {"kafka_ca": secure.file("foreign-ca")}, "signed by an unknown CA: set kafka_ca"),
        ("EXPIRED", tls, "its certificate has expired: renew it on the broker"),
        ("ELSEWHERE", tls, "is not valid for '127.0.0.1'): use the name that the certificate has"),
        ("MUTUAL", tls, "it requires a client certificate: set kafka_cert and kafka_key"),
        ("MUTUAL", tls | {"kafka_cert": secure.file("foreign-client")}, "it rejects our client certificate"),
        ("SECURE", {}, "it accepts only TLS: set kafka_security to ssl or sasl_ssl"),
        ("SECURE", user | clear, "it accepts only TLS"),
        ("PLAIN", tls, "it does not speak TLS: give `kafka` the TLS port, or set kafka_security without ssl"),
        ("CLEAR", user, "it does not speak TLS"),
        ("SECURE", tls, "it requires a user: set kafka_security to sasl_ssl"),
        ("CLEAR", {}, "it requires a user: set kafka_security to sasl_plaintext"),
        ("PLAIN", user | clear, "accepts no user and password: set kafka_security to plaintext"),
    ]
    for listener, given, message in wrong:
        address = secure.plain if listener == "PLAIN" else secure.at(listener)
        begun_s = monotonic()
        with pytest.raises(TransientError if listener == "EXPIRED" else ConfigError) as refused:
            asyncio.run(reach(load_settings(**given | {"kafka": address})))
        text = str(refused.value)
        assert text.startswith(f"Kafka: {address}: ") and message in text, (listener, text)
        assert "\n" not in text and "secret" not in text
        assert monotonic() - begun_s < MAX_S, (listener, text)


def test_a_command_reports_a_refused_user_in_one_line_on_stderr(secure: SecureBroker, tmp_path: Path) -> None:
    given = as_user(secure, "match", kafka_password="secret-that-is-wrong", data_dir=tmp_path)
    env = {f"EPICENTER_{name}": value for name, value in environment(given).items()}
    done = subprocess.run([*EPICENTER, "topics"], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 78, done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"epicenter: Kafka: {secure.at('SECURE')}: user match is refused")
    assert "secret" not in done.stderr + done.stdout


async def test_a_running_service_reports_a_refused_login_and_its_recovery(
    secure: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "CHECK_EVERY_S", 0.01)
    messages: list[str] = []
    settings = [
        Settings(**as_user(secure, "match", kafka_password=password)) for password in ("wrong", PASSWORDS["match"])
    ]
    watching = asyncio.create_task(preflight.watch(changing := Changing(settings), messages.append))  # type: ignore[arg-type]
    async with asyncio.timeout(120):
        while len(messages) < 1:
            await asyncio.sleep(0.01)
        changing.now = 1
        while len(messages) < 2:
            await asyncio.sleep(0.01)
    watching.cancel()
    assert "user match is refused" in messages[0] and messages[1].endswith("connection restored")


class Changing:
    """Settings whose password is corrected at run time."""

    def __init__(self, settings: list[Settings]):
        self.settings, self.now = settings, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.settings[self.now], name)


def acls_of(service: str) -> list[tuple[str, str, str, str]]:
    """The ACLs that a service needs, from docs/security.md."""
    row = re.search(rf"^\| `{service}` \|(.*)\|(.*)\|(.*)\|$", SECURITY.read_text(), re.MULTILINE)
    assert row
    needed = []
    if service in SERVICES:
        needed += [("Topic", PREFIX, "prefixed", "Describe"), ("Topic", RAW, "literal", "Describe")]
    for names, kind, operation in zip(
        row.groups(), ("Topic", "Topic", "Group"), ("Read", "Write", "Read"), strict=True
    ):
        needed += [(kind, name, "literal", operation) for name in re.findall("`([^`]+)`", names)]
    return needed


@pytest.fixture(scope="module")
def allowed(secure: SecureBroker) -> None:
    """Each user has the document's ACLs and no others."""

    async def grant(admin: AIOKafkaAdminClient) -> None:
        for service in (*SERVICES, "shipper"):
            await allow(admin, service, acls_of(service))
        await allow(admin, "poor", [acl for acl in acls_of("match") if acl[1] != f"{PREFIX}.match"])
        await allow(admin, "topics", [("Topic", name, "prefixed", "Create") for name in (PREFIX, RAW)])

    with_admin(secure.plain, grant)


def test_four_workers_with_separate_users_process_everything(
    secure: SecureBroker, allowed: None, clickhouse: Any, tmp_path: Path
) -> None:
    receiver = Receiver()
    with receiver.listening():
        own = environment(as_user(secure, "topics")) | {"PREFIX": PREFIX, "RAW_TOPIC": RAW, "WEBHOOK_URL": receiver.url}
        own["WEB_TOKEN"] = TOKEN
        cluster = Cluster(secure.plain, clickhouse.dsn, tmp_path, **own)
        try:
            asyncio.run(ship(Settings(**as_user(secure, "shipper"))))
            poor = cluster.start_worker(SERVICES="match", **environment(as_user(secure, "poor")))
            for service in SERVICES:
                last = cluster.start_worker(SERVICES=service, **environment(as_user(secure, service)))
            refusal = "GroupAuthorizationFailedError.*docs/security.md lists what each service needs"
            eventually(
                lambda: re.search(refusal, poor.log.read_text()), 120, "the worker logs that its user lacks the group"
            )
            poor.kill()
            eventually(lambda: receiver.titles, 120, "the notification")
            eventually(cluster.incidents, 60, "the incident is stored")
            assert json.loads(last.get("/healthz")) == {"status": "ok"}
            assert json.loads(last.get("/healthz", TOKEN))["rules"]["problems"] == []
            assert [last.get(path) for path in ("/metrics", "/", "/nowhere")] == ["", "", ""]
            assert "epicenter_deliveries_total" in last.get("/metrics", TOKEN)
            assert_hidden_settings_are_warnings(secure)
            assert not [log for log in tmp_path.glob("*.log") if "Authorization" in log.read_text() and log != poor.log]
        finally:
            cluster.stop()


def assert_hidden_settings_are_warnings(secure: SecureBroker) -> None:
    """No user has DescribeConfigs, and each user has one group or two."""
    settings = Settings(**as_user(secure, "match"), prefix=PREFIX, raw_topic=RAW)
    found = asyncio.run(kafka_findings(settings, the_rules()))
    statuses = {finding.name: finding.status for finding in found if finding.status != "ok"}
    groups = [f"group {PREFIX}.{name}" for name in ("correlate", "store")]
    assert {name: statuses.get(name) for name in ("topics", *groups)} == dict.fromkeys(("topics", *groups), "warning")
    assert "problem" not in statuses.values() and "raw records" in {finding.name for finding in found}


async def ship(settings: Settings) -> None:
    """The line, through our own producer."""
    async with RawProducer(RAW, **client_arguments(settings)) as producer:
        await producer.send([(b"n1", Batch(RAW, [XID, LATER_XID], [None] * 2, [0] * 2, [0, 1]))])
