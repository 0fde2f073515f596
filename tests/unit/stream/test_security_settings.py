"""Contradictory settings are refused before the start: users, certificates, addresses that other hosts reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from epicenter.rules.errors import ConfigError
from epicenter.sinks.net.loopback import is_loopback
from epicenter.stream.kafka.security import security_arguments
from epicenter.stream.load_settings import load_settings
from epicenter.stream.process.insecure_settings import insecure_settings
from epicenter.stream.process.page_token import checked_token

USER = {"kafka_username": "ada", "kafka_password": "hunter2-hunter2"}
TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EPICENTER_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, client.pem and key.pem of it, locked.pem (the key with a password), other.pem (another key), text.pem."""
    folder, ca = tmp_path_factory.mktemp("files"), trustme.CA()
    client, other = ca.issue_cert("client.example.org"), ca.issue_cert("other.example.org")
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    client.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    client.private_key_pem.write_to_path(str(folder / "key.pem"))
    other.private_key_pem.write_to_path(str(folder / "other.pem"))
    key = load_pem_private_key(client.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2-hunter2"))
    (folder / "locked.pem").write_bytes(locked)
    (folder / "text.pem").write_text("no certificate\n")
    return folder


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka_security": "sasl_ssl"}, "sasl_ssl needs kafka_username and kafka_password"),
        ({"kafka_security": "sasl_ssl", "kafka_password": "x"}, "sasl_ssl needs kafka_username and kafka_password"),
        ({"kafka_security": "sasl_plaintext", "kafka_username": "ada"}, "needs kafka_username and kafka_password"),
        (USER, "not used with kafka_security = plaintext: write sasl_ssl or sasl_plaintext"),
        ({"kafka_security": "ssl", **USER}, "not used with kafka_security = ssl: write sasl_ssl"),
        ({"kafka_ca": "ca.pem"}, "kafka_ca: not used with kafka_security = plaintext: write ssl or sasl_ssl"),
        ({"kafka_security": "sasl_plaintext", "kafka_ca": "ca.pem", **USER}, "kafka_ca: not used with"),
        ({"kafka_security": "ssl", "kafka_key": "key.pem"}, "kafka_key: needs its certificate"),
        ({"kafka_security": "tls"}, "write 'plaintext', 'ssl', 'sasl_plaintext' or 'sasl_ssl'"),
        ({"kafka_sasl_mechanism": "GSSAPI"}, "write 'SCRAM-SHA-512'"),
    ],
)
def test_contradictory_settings_are_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(**given)
    (problem,) = refused.value.problems
    assert expected in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "address", ["k1:port", "SASL_SSL://k1.example.org:9092", "k1:9092;k2:9092", "k1:9092,", "", "::1"]
)
def test_an_invalid_address_of_brokers_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="kafka: write host:port, several with commas between them"):
        load_settings(kafka=address)


def test_all_contradictions_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(kafka_username="ada", kafka_ca="ca.pem", kafka_key="key.pem")
    assert len(refused.value.problems) == 3


def test_an_empty_path_in_the_environment_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICENTER_KAFKA_CA", "")
    assert load_settings().kafka_ca is None


def test_a_password_is_read_from_the_folder_of_secrets(tmp_path: Path) -> None:
    (tmp_path / "kafka_password").write_text("hunter2-hunter2\n")
    settings = load_settings(secrets_dir=tmp_path, kafka_security="sasl_ssl", kafka_username="ada")
    assert security_arguments(settings)["sasl_plain_password"] == "hunter2-hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka_ca": "none.pem"}, ["kafka_ca: {folder}/none.pem: No such file or directory: name the PEM file"]),
        ({"kafka_ca": "text.pem"}, ["kafka_ca: {folder}/text.pem: can't be used (no certificate or crl found)"]),
        ({"kafka_cert": "none.pem"}, ["kafka_cert, kafka_key: {folder}/none.pem: no such file"]),
        ({"kafka_cert": "client.pem"}, ["set kafka_key too, unless this file holds both (PEM)"]),
        ({"kafka_cert": "client.pem", "kafka_key": "other.pem"}, ["(key values mismatch): both are PEM files"]),
        ({"kafka_cert": "client.pem", "kafka_key": "locked.pem"}, ["kafka_key_password?"]),
        ({"kafka_ca": "text.pem", "kafka_cert": "none.pem"}, ["kafka_ca", "kafka_cert"]),
    ],
)  # fmt: skip
def test_unusable_files_are_refused(files: Path, given: dict[str, str], expected: list[str]) -> None:
    settings = load_settings(kafka_security="ssl", **{name: files / value for name, value in given.items()})
    with pytest.raises(ConfigError) as refused:
        security_arguments(settings)
    assert len(refused.value.problems) == len(expected)
    for problem, part in zip(refused.value.problems, expected, strict=True):
        assert part.format(folder=files) in problem


@pytest.mark.parametrize("key", [{"kafka_key": "key.pem"}, {"kafka_key": "locked.pem", "password": "hunter2-hunter2"}])
def test_valid_files_are_used(files: Path, key: dict[str, str]) -> None:
    given = {"kafka_ca": files / "ca.pem", "kafka_cert": files / "client.pem", "kafka_key": files / key["kafka_key"]}
    settings = load_settings(kafka_security="ssl", kafka_key_password=key.get("password"), **given)
    context = security_arguments(settings)["ssl_context"]
    assert context.check_hostname and len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("LOCALHOST", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.5", False), ("localhost.example.org", False), ("", False)),
    ],
)
@pytest.mark.parametrize("what", ["page", "web"])
def test_a_listener_that_other_hosts_reach_needs_a_token(host: str, is_ours: bool, what: str) -> None:
    settings = load_settings(**{f"{what}_host": host})
    if is_ours:
        assert checked_token(settings, what) == ""
    else:
        with pytest.raises(ConfigError, match=f"it needs a {what}_token: make one with `openssl rand"):
            checked_token(settings, what)
    assert is_loopback(host) == is_ours
    assert checked_token(load_settings(**{f"{what}_host": host, f"{what}_token": TOKEN}), what) == TOKEN


@pytest.mark.parametrize("token", ["short", "0123456789abcdé" * 2, "0123456789\tabcdef", "0123456789abcdef "])
def test_a_token_that_is_easy_to_guess_or_fits_no_header_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="page_token: write 16 printable ASCII characters at least") as refused:
        checked_token(load_settings(page_token=token), "page")
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"kafka": "127.0.0.1:9092", "kafka_security": "sasl_plaintext", **USER}, []),
        ({"kafka": "localhost, [::1]:9092", "kafka_security": "sasl_plaintext", **USER}, []),
        ({"kafka": "127.0.0.1:9092,k1.example.org:9092", "kafka_security": "sasl_plaintext", **USER},
         ["kafka_security: sasl_plaintext: the traffic to k1.example.org is not encrypted: use sasl_ssl"]),
        ({"store": "https://u:hunter2@ch.example.org:8443/db?ca_cert=/x"}, []),
        ({"store": "https://u:hunter2@ch.example.org:8443/db?verify=false"},
         ["store: verify=false: the certificate of ch.example.org is not checked: use ca_cert=/path/of/the/ca.pem"]),
        ({"store": "http://u:hunter2@ch.example.org:8123/db"},
         ["store: its password goes to ch.example.org unencrypted: use https"]),
        ({"store": "http://u:hunter2@127.0.0.1:8123/db"}, []),
        ({"store": "http://ch.example.org:8123/db"}, []),
    ],
)  # fmt: skip
def test_insecure_settings_are_warned_of(given: dict[str, str], expected: list[str]) -> None:
    assert insecure_settings(load_settings(**given)) == expected
