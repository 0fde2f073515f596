"""What is wrong between us and a server that should speak TLS; for brokers and stores alike."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec


class Fault(StrEnum):
    """What is wrong, as it is told behind the server's address."""

    EXPIRED = "its certificate has expired"
    NOT_YET_VALID = "its certificate is not valid yet"
    OTHER_NAME = "its certificate is for another host"
    UNKNOWN_CA = "its certificate is signed by nobody we know"
    NOT_BELIEVED = "its certificate is not believed"
    WANTS_OURS = "it wants a certificate of ours"
    REFUSES_OURS = "it refuses our certificate"
    NO_TLS = "it speaks no TLS"
    ONLY_TLS = "it speaks TLS only"


ON_ITS_SIDE: Final = (Fault.EXPIRED, Fault.NOT_YET_VALID)
"""Nothing that we could set: it may be well again without us."""


class Found(msgspec.Struct, frozen=True):
    """A fault, with OpenSSL's words where they tell more."""

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
"""OpenSSL's X509_V_ERR_…; every other is NOT_BELIEVED."""

_REASONS_OF_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_TOLD_DETAIL: Final = (Fault.OTHER_NAME, Fault.NOT_BELIEVED, Fault.REFUSES_OURS)


def fault_in(error: BaseException) -> Found | None:
    """The fault behind a failed connection, wherever the libraries have wrapped it; None when it is no TLS matter."""
    return next((found for one in _inside(error) if isinstance(one, ssl.SSLError) and (found := _found(one))), None)


def was_hung_up(error: BaseException) -> bool:
    """Whether the server took the connection and closed it, as it does with what it can't read."""
    causes = list(_inside(error))
    is_refused = any(isinstance(one, ConnectionRefusedError) for one in causes)
    return not is_refused and any(isinstance(one, ConnectionError) for one in causes)


def speaks_tls(host: str, port: int, within_s: float) -> bool:
    """Whether a TLS handshake succeeds; nobody's certificate is looked at, and nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), within_s) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def unusable(use: Callable[[], object]) -> str:
    """Why a file of certificates or keys can't be used, in a few words; empty when it can."""
    try:
        use()
    except ssl.SSLError as error:
        reason = str(error.reason or "").lower().replace("_", " ")
        return f"can't be used ({reason})" if reason else "holds no PEM, or another password is needed"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _inside(error: BaseException) -> Iterator[BaseException]:
    """An error and those that led to it; urllib3 keeps them in `reason` and in the arguments."""
    waiting, seen = [error], list[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.append(id(one))
            yield one
            inner = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
            waiting += [each for each in inner if isinstance(each, BaseException)]


def _found(error: ssl.SSLError) -> Found | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _with_detail(_BY_VERIFY_CODE.get(error.verify_code, Fault.NOT_BELIEVED), error.verify_message)
    reason = str(error.reason or "")
    fault = _by_reason(reason)
    return _with_detail(fault, reason.lower().replace("_", " ")) if fault else None


def _with_detail(fault: Fault, detail: str) -> Found:
    return Found(fault, detail.rstrip(".") if fault in _TOLD_DETAIL else "")


def _by_reason(reason: str) -> Fault | None:
    if reason.endswith("ALERT_CERTIFICATE_REQUIRED"):
        return Fault.WANTS_OURS
    if "_ALERT_" in reason and reason.endswith(("CERTIFICATE", "CA", "_UNKNOWN", "_EXPIRED", "_REVOKED")):
        return Fault.REFUSES_OURS
    return Fault.NO_TLS if reason in _REASONS_OF_NO_TLS else None
