"""Targets of alerts: their file, and whether each host answers. Nothing is sent that anybody would read."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from epicenter.rules.errors import PipelineError
from epicenter.sinks.notify.config import AppriseSpec, SlackSpec
from epicenter.stream.alerts.file import alerts_of, in_short
from epicenter.stream.checks.finding import Finding, ok, refused, warning
from epicenter.stream.settings import Settings

ANSWER_WITHIN_S: Final = 5.0
PORTS: Final = {"http": 80, "https": 443}


async def target_findings(settings: Settings) -> list[Finding]:
    """The file, then each target; all hosts are asked at once."""
    try:
        alerts = alerts_of(settings)
    except PipelineError as error:
        return [refused("alerts", error, "`epicenter alerts check FILE` tells the same")]
    if alerts is None:
        return [ok("alerts", "nobody is told: set `alerts`, see docs/alerts.md")]
    reached = await asyncio.gather(*(_reached(name, spec) for name, spec in alerts.spec.targets.items()))
    return [ok("alerts", in_short(alerts)), *reached]


async def _reached(name: str, spec: Any) -> Finding:
    subject = f"target {name}"
    if isinstance(spec, AppriseSpec):
        return ok(subject, "its address has the right form; apprise alone knows its host")
    url = urlsplit(_address(spec))
    host, port = url.hostname or "", url.port or PORTS[url.scheme]
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await _connect(host, port, url.scheme == "https")
    except (OSError, TimeoutError, ssl.SSLError) as error:
        text = f"{host}:{port}: {'; '.join(_reasons(error))}"
        return warning(subject, text, "look at the target, the name, and the way to it; what is for it waits in Kafka")
    return ok(subject, f"{host}:{port} answers")


def _address(spec: Any) -> str:
    address = spec.api_url if isinstance(spec, SlackSpec) and spec.url is None else spec.url
    return str(address.get_secret_value())


async def _connect(host: str, port: int, is_secure: bool) -> None:
    """As far as a name, a connection, and with https a certificate that is believed."""
    context = ssl.create_default_context() if is_secure else None
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.close()


def _reasons(error: BaseException) -> Iterator[str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        yield f"its certificate can't be verified: {error.verify_message}"
    elif isinstance(error, TimeoutError):
        yield f"no answer within {ANSWER_WITHIN_S:.0f} s"
    elif isinstance(error, ConnectionError) and error.errno:
        yield os.strerror(error.errno)
    elif isinstance(error, OSError):
        yield error.strerror or type(error).__name__
