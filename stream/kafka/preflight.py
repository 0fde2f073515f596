"""Check that the brokers accept us. If not, say in one line what is wrong and what to set, within `MAX_S`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from epicenter.rules.errors import ConfigError, PipelineError, TransientError
from epicenter.sinks.net.tls import SERVER_SIDE, Fault, Found, fault_in, speaks_tls
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.kafka.security import security_arguments
from epicenter.stream.settings import Settings

ANSWER_S: Final = 4.0
"""At most this long a broker may take for one answer."""

ATTEMPT_S: Final = 5.0
"""At most this long one attempt may take. Finding out why it failed takes at most as long again."""

MAX_S: Final = 4 * ATTEMPT_S
"""One attempt at the given brokers, one at the brokers they advertise, and a diagnosis for each."""

CHECK_EVERY_S: Final = 30.0

WHAT_TO_DO: Final = {
    Fault.EXPIRED: "renew it on the broker",
    Fault.NOT_YET_VALID: "check the clocks of both machines",
    Fault.OTHER_NAME: "use the name that the certificate has, in `kafka` and in the broker's advertised.listeners",
    Fault.UNKNOWN_CA: "set kafka_ca to the PEM file of the CA that signed it",
    Fault.UNVERIFIED: "check kafka_ca and the broker's certificate",
    Fault.CERTIFICATE_REQUIRED: "set kafka_cert and kafka_key",
    Fault.CERTIFICATE_REJECTED: "check kafka_cert: the broker's truststore must contain the CA that signed it",
    Fault.NO_TLS: "give `kafka` the TLS port, or set kafka_security without ssl",
    Fault.ONLY_TLS: "set kafka_security to ssl or sasl_ssl",
}
WANTS_A_USER: Final = "it requires a user: set kafka_security to {security}, kafka_username and kafka_password"


async def reach(settings: Settings) -> None:
    """Return when a listed broker accepts us and no advertised broker refuses us.

    Raises:
        ConfigError: a setting is wrong: a password, a CA, a port.
        TransientError: all are unreachable, or their certificates have expired.
    """
    hosts = [(host, port) for host, port, _ in collect_hosts(settings.kafka, randomize=False)]
    attempts = await asyncio.gather(*(_attempt(settings, *host) for host in hosts))
    problems = [attempt for attempt in attempts if isinstance(attempt, PipelineError)]
    if len(problems) == len(attempts):
        raise _together(problems)
    named = {broker for attempt in attempts if not isinstance(attempt, PipelineError) for broker in attempt} - set(
        hosts
    )
    others = await asyncio.gather(*(_attempt(settings, *broker) for broker in sorted(named)))
    if refused := [other for other in others if isinstance(other, ConfigError)]:
        raise _together(refused)


async def watch(settings: Settings, report: Callable[[str], None]) -> None:
    """While a worker runs, report once when the brokers refuse new connections, and once when they accept them again.

    The worker's open connections do not show this: they stay open, or aiokafka retries them silently.
    """
    was_reachable = True
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        try:
            await reach(settings)
        except PipelineError as error:
            if was_reachable:
                report(f"{error}; retrying until it works")
            was_reachable = False
        else:
            if not was_reachable:
                report(f"Kafka broker {settings.kafka}: connection restored")
            was_reachable = True


def _together(problems: Sequence[PipelineError]) -> PipelineError:
    """All problems in one line. Refusals take precedence over unreachable brokers."""
    decisive = [problem for problem in problems if isinstance(problem, ConfigError)] or problems
    text = "; ".join(dict.fromkeys(str(problem) for problem in decisive))
    return ConfigError([text]) if isinstance(decisive[0], ConfigError) else TransientError(text)


async def _attempt(settings: Settings, host: str, port: int) -> list[tuple[str, int]] | PipelineError:
    """The brokers that it advertises, or what is wrong."""
    try:
        async with asyncio.timeout(ATTEMPT_S):
            return await _brokers(settings, host, port)
    except (KafkaError, OSError) as error:  # an untrusted certificate is both an OSError and a ValueError
        failed = error
    except (ValueError, AssertionError):
        return ConfigError([f"Kafka: {host}:{port}: not a Kafka broker: check `kafka`"])
    try:
        async with asyncio.timeout(ATTEMPT_S):
            return await _why(settings, host, port, failed)
    except TimeoutError:
        return _unreachable(host, port, f"no answer within {ATTEMPT_S:.0f} s")


async def _brokers(settings: Settings, host: str, port: int) -> list[tuple[str, int]]:
    connection = await _connected(host, port, **security_arguments(settings))
    try:
        answer = await connection.send(MetadataRequest([]))
    finally:
        connection.close()
    return [(broker[1], broker[2]) for broker in answer.brokers]


async def _connected(host: str, port: int, **security: Any) -> Any:
    return await create_conn(
        host, port, client_id="epicenter-look", request_timeout_ms=int(ANSWER_S * 1000), **security
    )


async def _why(settings: Settings, host: str, port: int, error: BaseException) -> PipelineError:
    place = f"Kafka: {host}:{port}"
    if refusal := _sasl_refusal(settings, error):
        return ConfigError([f"{place}: {refusal}"])
    found = fault_in(error) or await _other_protocol(settings, host, port, error)
    if isinstance(found, Found):
        if found.fault is Fault.CERTIFICATE_REJECTED and not settings.kafka_cert:
            found = Found(Fault.CERTIFICATE_REQUIRED)
        text = f"{place}: {found}: {WHAT_TO_DO[found.fault]}"
        return TransientError(text) if found.fault in SERVER_SIDE else ConfigError([text])
    if found:
        return ConfigError([f"{place}: {found}"])
    is_late = isinstance(error, TimeoutError)
    return _unreachable(host, port, f"no answer within {ATTEMPT_S:.0f} s" if is_late else _reason(error))


def _reason(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    known = os.strerror(number) if isinstance(number, int) and number > 0 else getattr(error, "strerror", None)
    return known or sanitize(str(error))


def _unreachable(host: str, port: int, reason: str) -> TransientError:
    return TransientError(f"Kafka is unreachable: {host}:{port}: {reason}: start it, or give --kafka host:port")


def _sasl_refusal(settings: Settings, error: BaseException) -> str:
    if isinstance(error, SaslAuthenticationFailed):
        known = f"user {sanitize(settings.kafka_username)} is refused with {settings.kafka_sasl_mechanism}"
        return f"{known}: check kafka_username, kafka_password and kafka_sasl_mechanism"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"it does not know {settings.kafka_sasl_mechanism}: set kafka_sasl_mechanism to one that it knows"
    if isinstance(error, IllegalSaslStateError):
        without = settings.kafka_security.removeprefix("sasl_")
        return f"this port accepts no user and password: set kafka_security to {without}, or give `kafka` another port"
    return ""


async def _other_protocol(settings: Settings, host: str, port: int, error: BaseException) -> Found | str:
    """With the wrong protocol a broker closes the connection or waits for more data, so try the other protocol."""
    if isinstance(error, ConnectionRefusedError):
        return ""
    is_tls = settings.kafka_security.endswith("ssl")
    if not is_tls and await asyncio.to_thread(speaks_tls, host, port, ANSWER_S):
        return Found(Fault.ONLY_TLS)
    if is_tls and await _speaks_plainly(host, port):
        return Found(Fault.NO_TLS)
    if not settings.kafka_security.startswith("sasl") and (known := await _mechanisms(settings, host, port)):
        hint = WANTS_A_USER.format(security="sasl_ssl" if is_tls else "sasl_plaintext")
        return f"{hint}; it knows {', '.join(known)}"
    return ""


async def _speaks_plainly(host: str, port: int) -> bool:
    try:
        (await _connected(host, port)).close()
    except (KafkaError, OSError, ValueError, AssertionError):
        return False
    return True


async def _mechanisms(settings: Settings, host: str, port: int) -> list[str]:
    """The SASL mechanisms that the broker offers; empty when it does not require a user."""
    try:
        connection = await _connected(host, port, **security_arguments(settings))
        try:
            answer = await connection.send(SaslHandShakeRequest(settings.kafka_sasl_mechanism))
        finally:
            connection.close()
    except (KafkaConnectionError, KafkaError, OSError):
        return []
    return sorted(answer.enabled_mechanisms)
