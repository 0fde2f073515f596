"""One real broker with a listener for each kind of security, valid and broken; certificates are made here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from deploy.dev import broker as dev_broker
from deploy.dev.broker import JavaBroker
from deploy.dev.process import free_ports

USERS: Final = ("match", "correlate", "store", "notify", "topics", "shipper", "poor", "old")
PASSWORDS: Final = {name: f"secret-of-{name}" for name in USERS}
PLAIN_USER: Final = ("plain", "secret-of-plain")
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS: Final = {
    "SECURE": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}


class SecureBroker(msgspec.Struct, frozen=True):
    """`ports` by the listener's name; `plain` is the address that needs nothing, and may do everything."""

    broker: JavaBroker
    plain: str
    ports: dict[str, int]
    folder: Path

    def at(self, listener: str) -> str:
        """The address of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def file(self, name: str) -> str:
        """A PEM file: ca, foreign-ca, client, foreign-client (with their keys)."""
        return str(self.folder / f"{name}.pem")


@contextmanager
def secure_broker(folder: Path) -> Iterator[SecureBroker]:
    """Start it; every user but ANONYMOUS (the plain listener's) needs ACLs."""
    ca, foreign_ca, names = trustme.CA(), trustme.CA(), ("localhost", "127.0.0.1")
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    foreign_ca.cert_pem.write_to_path(str(folder / "foreign-ca.pem"))
    long_ago = datetime.now(UTC) - timedelta(days=1)
    write_pem(folder / "server.pem", ca.issue_cert(*names))
    write_pem(folder / "expired.pem", ca.issue_cert(*names, not_after=long_ago))
    write_pem(folder / "elsewhere.pem", ca.issue_cert("kafka.example.org"))
    write_pem(folder / "client.pem", ca.issue_cert("client.example.org", common_name="worker"))
    write_pem(folder / "foreign-client.pem", foreign_ca.issue_cert("client.example.org"))
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    users = [
        f"SCRAM-SHA-{bits}=[name={name},password={password}]"
        for name, password in PASSWORDS.items()
        for bits in ((256,) if name == "old" else (512,))
    ]
    broker = JavaBroker(dev_broker._find_java(), dev_broker._find_jars(), folder, settings(folder, ports), users)
    broker.start()
    try:
        yield SecureBroker(broker, broker.bootstrap, ports, folder)
    finally:
        broker.stop()


def settings(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    """The broker's settings in addition to the common ones."""
    keys = {"SECURE": "server", "MUTUAL": "server", "EXPIRED": "expired", "ELSEWHERE": "elsewhere"}
    stores = {
        f"listener.name.{name.lower()}.ssl.keystore.{what}": value
        for name, key in keys.items()
        for what, value in (("type", "PEM"), ("location", str(folder / f"{key}.pem")))
    }
    users = {
        f"listener.name.{name}.scram-sha-{bits}.sasl.jaas.config": SCRAM_MODULE
        for name in ("secure", "clear")
        for bits in (256, 512)
    }
    plain = f'{PLAIN_MODULE} user_{PLAIN_USER[0]}="{PLAIN_USER[1]}";'
    return {
        "more.listeners": ",".join(f"{name}=127.0.0.1:{ports[name]}={kind}" for name, kind in LISTENERS.items()),
        **stores,
        **users,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "listener.name.clear.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secure.plain.sasl.jaas.config": plain,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def write_pem(file: Path, certificate: trustme.LeafCert) -> None:
    """A certificate with its key in one PEM file; Java wants the key as PKCS #8."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    as_java_likes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(as_java_likes + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))


KINDS: Final = {"Topic": 2, "Group": 3, "Cluster": 4}
OPERATIONS: Final = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10, "IdempotentWrite": 12}
ANY_HOST, ALLOW = "*", 3
PATTERNS: Final = {"literal": 3, "prefixed": 4}


async def allow(admin: AIOKafkaAdminClient, user: str, acls: Sequence[tuple[str, str, str, str]]) -> None:
    """Allow a user (kind, name, pattern, operation) each; they hold once this returns and the broker has them."""
    for kind, name, pattern, operation in acls:
        request: Any = CreateAclsRequest(
            KINDS[kind], name, PATTERNS[pattern], f"User:{user}", ANY_HOST, OPERATIONS[operation], ALLOW
        )
        answer = await admin._send_request(request)
        assert [code for code, _ in answer.creation_responses] == [0], answer
