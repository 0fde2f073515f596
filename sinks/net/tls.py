"""TLS faults of connections to brokers and stores, in one line each."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec


class Fault(StrEnum):
    """A TLS fault, worded to follow the server's address."""

    EXPIRED = "its certificate has expired"
    NOT_YET_VALID = "its certificate is not valid yet"
    OTHER_NAME = "its certificate is for another host"
    UNKNOWN_CA = "its certificate is signed by an unknown CA"
    UNVERIFIED = "its certificate can't be verified"
    CERTIFICATE_REQUIRED = "it requires a client certificate"
    CERTIFICATE_REJECTED = "it rejects our client certificate"
    NO_TLS = "it does not speak TLS"
    ONLY_TLS = "it accepts only TLS"


SERVER_SIDE: Final = (Fault.EXPIRED, Fault.NOT_YET_VALID)
"""Faults to fix on the server; no setting of epicenter helps."""


class Found(msgspec.Struct, frozen=True):
    """A fault, with OpenSSL's detail where it helps."""

    fault: Fault
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.fault} ({self.detail})" if self.detail else self.fault.value


_BY_VERIFY_CODE: Final = {
    9: Fault.NOT_YET_VALID,
    10: Fault.EXPIRED,
    **dict.fromkeys((2, 18, 19, 20, 21), Fault.UNKNOWN_CA),
    **dict.fromkeys((62, 64), Fault.OTHER_NAME),
}
"""OpenSSL's X509_V_ERR_…; every other is UNVERIFIED."""

_REASONS_OF_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_DETAILED: Final = (Fault.OTHER_NAME, Fault.UNVERIFIED, Fault.CERTIFICATE_REJECTED)


def fault_in(error: BaseException) -> Found | None:
    """The TLS fault that caused an error, however deeply it is wrapped; None for other errors."""
    return next(
        (found for cause in _causes(error) if isinstance(cause, ssl.SSLError) and (found := _found(cause))), None
    )


def was_hung_up(error: BaseException) -> bool:
    """Whether the server accepted the connection and then closed it."""
    causes = list(_causes(error))
    is_refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
    return not is_refused and any(isinstance(cause, ConnectionError) for cause in causes)


def speaks_tls(host: str, port: int, within_s: float) -> bool:
    """Whether a TLS handshake succeeds; certificates are not verified and no data is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), within_s) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def unusable(load: Callable[[], object]) -> str:
    """Why a certificate or key file can't be used; empty if it can."""
    try:
        load()
    except ssl.SSLError as error:
        reason = str(error.reason or "").lower().replace("_", " ")
        return f"can't be used ({reason})" if reason else "contains no PEM, or needs a password"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes; urllib3 keeps them in `reason` and in the arguments."""
    pending, seen = [error], set[int]()
    while pending:
        cause = pending.pop(0)
        if id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            inner = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
            pending += [nested for nested in inner if isinstance(nested, BaseException)]


def _found(error: ssl.SSLError) -> Found | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _with_detail(_BY_VERIFY_CODE.get(error.verify_code, Fault.UNVERIFIED), error.verify_message)
    reason = str(error.reason or "")
    fault = _by_reason(reason)
    return _with_detail(fault, reason.lower().replace("_", " ")) if fault else None


def _with_detail(fault: Fault, detail: str) -> Found:
    return Found(fault, detail.rstrip(".") if fault in _DETAILED else "")


def _by_reason(reason: str) -> Fault | None:
    if reason.endswith("ALERT_CERTIFICATE_REQUIRED"):
        return Fault.CERTIFICATE_REQUIRED
    if "_ALERT_" in reason and reason.endswith(("CERTIFICATE", "CA", "_UNKNOWN", "_EXPIRED", "_REVOKED")):
        return Fault.CERTIFICATE_REJECTED
    return Fault.NO_TLS if reason in _REASONS_OF_NO_TLS else None
