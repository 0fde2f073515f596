"""Alert targets: the alerts file, and whether each host answers. Sends no notification."""

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

CONNECT_TIMEOUT_S: Final = 5.0
PORTS: Final = {"http": 80, "https": 443}


async def target_findings(settings: Settings) -> list[Finding]:
    """The file, then each target; all hosts are contacted at once."""
    try:
        alerts = alerts_of(settings)
    except PipelineError as error:
        return [refused("alerts", error, "fix the file; `epicenter alerts check FILE` reports the same")]
    if alerts is None:
        return [ok("alerts", "none: no notification is sent; set `alerts`, see docs/alerts.md")]
    reached = await asyncio.gather(*(_reached(name, spec) for name, spec in alerts.spec.targets.items()))
    return [ok("alerts", in_short(alerts)), *reached]


async def _reached(name: str, spec: Any) -> Finding:
    subject = f"target {name}"
    if isinstance(spec, AppriseSpec):
        return ok(subject, "its address is well-formed; its host is known only to apprise, so it was not contacted")
    url = urlsplit(_address(spec))
    host, port = url.hostname or "", url.port or PORTS[url.scheme]
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await _connect(host, port, url.scheme == "https")
    except (OSError, TimeoutError, ssl.SSLError) as error:
        text = f"{host}:{port}: {'; '.join(_reasons(error))}"
        return warning(
            subject, text, "check the target, its host name and the network; its notifications wait meanwhile"
        )
    return ok(subject, f"{host}:{port} answers")


def _address(spec: Any) -> str:
    address = spec.api_url if isinstance(spec, SlackSpec) and spec.url is None else spec.url
    return str(address.get_secret_value())


async def _connect(host: str, port: int, is_secure: bool) -> None:
    """Resolve the name and connect; with https, verify the certificate too."""
    context = ssl.create_default_context() if is_secure else None
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.close()


def _reasons(error: BaseException) -> Iterator[str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        yield f"its certificate can't be verified: {error.verify_message}"
    elif isinstance(error, TimeoutError):
        yield f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    elif isinstance(error, ConnectionError) and error.errno:
        yield os.strerror(error.errno)
    elif isinstance(error, OSError):
        yield error.strerror or type(error).__name__
