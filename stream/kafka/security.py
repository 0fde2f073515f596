"""Authentication and TLS settings that all our Kafka clients share."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from aiokafka.helpers import create_ssl_context

from epicenter.rules.errors import ConfigError
from epicenter.sinks.net.tls import unusable
from epicenter.stream.settings import Settings


def client_arguments(settings: Settings) -> dict[str, Any]:
    """Broker addresses and security settings as arguments of aiokafka's clients.

    Raises:
        ConfigError: lists every certificate or key file that can't be used.
    """
    return {"bootstrap_servers": settings.kafka, **security_arguments(settings)}


def security_arguments(settings: Settings) -> dict[str, Any]:
    """The security settings alone. Files are read on each call, so new clients use renewed files. Raises as above."""
    arguments: dict[str, Any] = {"security_protocol": settings.kafka_security.upper()}
    if settings.kafka_security.endswith("ssl"):
        arguments["ssl_context"] = _ssl_context(settings)
    if settings.kafka_security.startswith("sasl"):
        arguments["sasl_mechanism"] = settings.kafka_sasl_mechanism
        arguments["sasl_plain_username"] = settings.kafka_username
        arguments["sasl_plain_password"] = settings.kafka_password.get_secret_value()
    return arguments


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    problems = []
    if settings.kafka_ca and (problem := unusable(lambda: _with_ca(settings.kafka_ca))):
        problems.append(f"kafka_ca: {settings.kafka_ca}: {problem}: name the PEM file of the CA's certificate")
    if settings.kafka_cert and (problem := unusable(lambda: _own_certificate(settings, _with_ca(None)))):
        problems.append(_certificate_problem(settings, problem))
    if problems:
        raise ConfigError(problems)
    return _own_certificate(settings, _with_ca(settings.kafka_ca))


def _with_ca(ca: Path | None) -> ssl.SSLContext:
    context: ssl.SSLContext = create_ssl_context(cafile=ca)
    return context


def _own_certificate(settings: Settings, context: ssl.SSLContext) -> ssl.SSLContext:
    if settings.kafka_cert:
        # A function, even for an empty password: without one OpenSSL prompts on the terminal.
        context.load_cert_chain(settings.kafka_cert, settings.kafka_key, settings.kafka_key_password.get_secret_value)
    return context


def _certificate_problem(settings: Settings, problem: str) -> str:
    """What to fix. OpenSSL does not say which of the two files is wrong."""
    missing = [str(path) for path in (settings.kafka_cert, settings.kafka_key) if path and not path.is_file()]
    if missing:
        return f"kafka_cert, kafka_key: {', '.join(missing)}: no such file"
    if settings.kafka_key is None:
        return f"kafka_cert: {settings.kafka_cert}: {problem}: set kafka_key too, unless this file holds both (PEM)"
    files = f"{settings.kafka_cert}, {settings.kafka_key}"
    return f"kafka_cert, kafka_key: {files}: {problem}: both are PEM files and belong together; kafka_key_password?"
