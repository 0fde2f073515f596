"""The store behind TLS: valid connections, and messages for wrong ones; a real TLS socket in front of chDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
import pytest
import trustme

from deploy.dev.clickhouse import User, dev_clickhouse
from epicenter.rules.errors import ConfigError, PipelineError, TransientError
from epicenter.sinks.clickhouse.client import connect
from tests.support.command import epicenter
from tests.support.tls_proxy import tls_in_front

pytestmark = pytest.mark.integration

PASSWORD: Final = "hunter2-hunter2"
SOON_S: Final = 30.0


class Stores(msgspec.Struct, frozen=True):
    """Ports of one store: without TLS, with a sound certificate, with an expired one, with one for another host."""

    plain: int
    sound: int
    expired: int
    elsewhere: int
    folder: Path


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder, ca, here = tmp_path_factory.mktemp("stores"), trustme.CA(), ("localhost", "127.0.0.1")
    made = {
        "sound": ca.issue_cert(*here),
        "expired": ca.issue_cert(*here, not_after=datetime.now(UTC) - timedelta(days=1)),
        "elsewhere": ca.issue_cert("clickhouse.example.org"),
    }
    for name, certificate in made.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}.pem"))
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "foreign.pem"))
    with dev_clickhouse(folder, [User("ada", PASSWORD)]) as store:
        plain = int(store.dsn.rpartition(":")[2].partition("/")[0])
        with tls_in_front(plain, *(folder / f"{name}.pem" for name in made)) as ports:
            yield Stores(plain, *ports, folder)


def dsn(port: int, options: str = "", scheme: str = "https", password: str = PASSWORD) -> str:
    return f"{scheme}://ada:{password}@127.0.0.1:{port}/epicenter{options}"


def test_every_valid_way_to_connect_works(stores: Stores) -> None:
    known = f"?ca_cert={stores.folder}/ca.pem"
    for way in (dsn(stores.sound, known), dsn(stores.sound, "?verify=false"), dsn(stores.plain, scheme="http")):
        client = connect(way)
        assert client.query("SELECT 1") == [(1,)]
        client.close()


def test_every_wrong_way_to_connect_fails_soon_with_one_line_and_a_remedy(stores: Stores) -> None:
    known = f"?ca_cert={stores.folder}/ca.pem"
    wrong: list[tuple[str, type[PipelineError], str]] = [
        (dsn(stores.sound), ConfigError, "signed by an unknown CA: add ca_cert=/path/of/the/ca.pem to the DSN"),
        (dsn(stores.sound, f"?ca_cert={stores.folder}/foreign.pem"), ConfigError, "signed by an unknown CA"),
        (dsn(stores.expired, known), TransientError, "its certificate has expired: renew it on the server"),
        (dsn(stores.elsewhere, known), ConfigError, "is for another host (IP address mismatch"),
        (dsn(stores.plain, known), ConfigError, "it does not speak TLS: write http://"),
        (dsn(stores.sound, scheme="http"), ConfigError, "it accepts only TLS: write https://"),
        (dsn(stores.sound, known, password="wrong"), ConfigError, "check the user and the password"),
        (dsn(stores.sound, "?ca_cert=/nowhere/ca.pem"), ConfigError, "ca_cert: /nowhere/ca.pem: No such file"),
        (dsn(stores.sound, "?client_cert=/nowhere/c.pem"), ConfigError, "/nowhere/c.pem: No such file"),
    ]
    for way, kind, message in wrong:
        begun_s = monotonic()
        with pytest.raises(kind) as refused:
            connect(way)
        text = str(refused.value)
        assert message in text, text
        assert "\n" not in text and PASSWORD not in text
        assert monotonic() - begun_s < SOON_S


def test_a_command_reports_a_refused_certificate_and_warns_without_verification(stores: Stores) -> None:
    for way, code, message in (
        (dsn(stores.sound), 78, "signed by an unknown CA"),
        (dsn(stores.expired, f"?ca_cert={stores.folder}/ca.pem"), 69, "has expired"),
        (
            dsn(stores.sound, "?verify=false"),
            0,
            "warning: store: verify=false: the certificate of 127.0.0.1 is not checked",
        ),
    ):
        done = epicenter("migrate", "--plan", "--store", way)
        errors = done.stderr.decode()
        assert (done.returncode, PASSWORD in errors) == (code, False), errors
        assert message in errors and "Traceback" not in errors
