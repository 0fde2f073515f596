"""Insecure settings, reported at the start because nothing else shows them."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from epicenter.sinks.net.loopback import is_loopback
from epicenter.stream.settings import Settings


def insecure_settings(settings: Settings) -> list[str]:
    """A line for each, without secrets."""
    return [text for text in (_kafka_in_the_clear(settings), _store_not_verified(settings)) if text]


def _kafka_in_the_clear(settings: Settings) -> str:
    if settings.kafka_security != "sasl_plaintext":
        return ""
    from aiokafka.conn import collect_hosts

    remote = [host for host, _, _ in collect_hosts(settings.kafka, randomize=False) if not is_loopback(host)]
    problem = f"kafka_security: sasl_plaintext: the traffic to {', '.join(remote)} is not encrypted: use sasl_ssl"
    return problem if remote else ""


def _store_not_verified(settings: Settings) -> str:
    try:
        parts = urlsplit(settings.store.get_secret_value())
    except ValueError:
        return ""
    options = {name: value.lower() for name, value in parse_qsl(parts.query)}
    if options.get("verify") in ("false", "0"):
        return (
            f"store: verify=false: the certificate of {parts.hostname} is not checked: use ca_cert=/path/of/the/ca.pem"
        )
    is_plain = parts.scheme in ("http", "clickhouse") and options.get("secure") not in ("true", "1")
    if is_plain and parts.password and not is_loopback(parts.hostname or ""):
        return f"store: its password goes to {parts.hostname} unencrypted: use https"
    return ""
