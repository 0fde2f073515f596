"""The errors of clickhouse-connect, chdb and urllib3, translated to ours."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clickhouse_connect.driver import exceptions as library
from urllib3.exceptions import HTTPError

from epicenter.rules.errors import ConfigError, PipelineError, RejectedError, TransientError
from epicenter.sinks.net.tls import SERVER_SIDE, Fault, Found, fault_in
from epicenter.sinks.text.sanitize import sanitize

MAX_SHOWN_CHARACTERS: Final = 600
_CONNECTION_FAILED: Final = re.compile(
    r"Failed to (?:establish|resolve)[^\[]{0,300}\[Errno -?\d+\] (?P<reason>[^\"')]{1,100})"
)

_OTHER_PROGRAM: Final = re.compile(r"HTTP driver received HTTP status (?P<status>\d{3})(?!.*DB::Exception)", re.DOTALL)
_ENGINE_PREFIX: Final = re.compile(r"^(?:Code: \d+\. )?DB::Exception: |\([A-Z_]{3,60}\)\s*$")

MEANING_BY_CLASS: Final[dict[type[BaseException], type[PipelineError]]] = {
    library.ClickHouseError: TransientError,
    library.Warning: RejectedError,
    library.Error: TransientError,
    library.InterfaceError: TransientError,
    library.DatabaseError: TransientError,  # without a code, an HTTP status from a proxy
    library.DataError: RejectedError,
    library.OperationalError: TransientError,
    library.IntegrityError: RejectedError,
    library.InternalError: TransientError,
    library.ProgrammingError: RejectedError,
    library.NotSupportedError: RejectedError,
    library.StreamClosedError: TransientError,
    library.StreamCompleteException: TransientError,
    library.StreamFailureError: TransientError,
    HTTPError: TransientError,
    ImportError: ConfigError,
    OSError: TransientError,
    RuntimeError: TransientError,
    OverflowError: RejectedError,
    TypeError: RejectedError,
    ValueError: RejectedError,
    struct.error: RejectedError,
}
"""Our error for each library class, used without an engine code; the nearest base class decides."""

TRANSIENT_CODES: Final = {
    76: "CANNOT_OPEN_FILE",
    159: "TIMEOUT_EXCEEDED",
    198: "DNS_ERROR",
    201: "QUOTA_EXCEEDED",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    204: "CANNOT_FSYNC",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    225: "NO_ZOOKEEPER",
    236: "ABORTED",
    241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    252: "TOO_MANY_PARTS",
    254: "NO_ACTIVE_REPLICAS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
    290: "LIMIT_EXCEEDED",
    319: "UNKNOWN_STATUS_OF_INSERT",
    341: "UNFINISHED",
    373: "SESSION_IS_LOCKED",
    394: "QUERY_WAS_CANCELLED",
    425: "SYSTEM_ERROR",
    439: "CANNOT_SCHEDULE_TASK",
    473: "DEADLOCK_AVOIDED",
    499: "S3_ERROR",
    574: "DISTRIBUTED_TOO_MANY_PENDING_BYTES",
    700: "USER_SESSION_LIMIT_EXCEEDED",
    733: "TABLE_IS_BEING_RESTARTED",
    735: "QUERY_WAS_CANCELLED_BY_CLIENT",
    745: "SERVER_OVERLOADED",
    999: "KEEPER_EXCEPTION",
}
"""The engine is busy, short of resources or partly unavailable: the same call may work later."""

SENTENCES: Final[Mapping[object, str]] = {
    202: "the server answers too many queries at the moment",
    203: "the server has no free connection",
    241: "the store is out of memory",
    242: "the tables are read-only at the moment: check the server's Keeper",
    243: "the disk of the store is full: free some space",
}
"""What some codes of `TRANSIENT_CODES` mean for an operator, in place of the engine's text."""

CONFIG_CODES: Final = {
    60: "UNKNOWN_TABLE: run `epicenter migrate`",
    81: "UNKNOWN_DATABASE: run `epicenter migrate`",
    115: "UNKNOWN_SETTING: upgrade the ClickHouse server",
    164: "READONLY: this user can only read: grant it SELECT, INSERT, CREATE and ALTER on the database",
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    195: "IP_ADDRESS_NOT_ALLOWED",
    291: "DATABASE_ACCESS_DENIED",
    497: "ACCESS_DENIED: grant it to this user",
    516: "AUTHENTICATION_FAILED: check the user and the password",
}
"""Someone must change a setting or run the migrations; dead-lettering every batch would hide that."""

_FULL: Final = 243
_NO_SPACE: Final = re.compile("No space left on device|Disk quota exceeded")
_FILE_CODES: Final = {75: "CANNOT_WRITE_TO_FILE_DESCRIPTOR", 76: "CANNOT_OPEN_FILE", 204: "CANNOT_FSYNC", 1001: "STD"}
"""The embedded engine also reports a full disk with these codes; their messages quote no log lines."""

TLS_ADVICE: Final = {
    Fault.EXPIRED: "renew it on the server",
    Fault.NOT_YET_VALID: "check the clocks of both machines",
    Fault.OTHER_NAME: "use the host name of the certificate in the DSN",
    Fault.UNKNOWN_CA: "add ca_cert=/path/of/the/ca.pem to the DSN",
    Fault.UNVERIFIED: "check ca_cert in the DSN and the server's certificate",
    Fault.CERTIFICATE_REQUIRED: "add client_cert and client_cert_key to the DSN",
    Fault.CERTIFICATE_REJECTED: "check client_cert in the DSN",
    Fault.NO_TLS: "write http://, or use the TLS port (usually 8443)",
    Fault.ONLY_TLS: "write https://",
}
"""What to do about each TLS fault."""


class StoreInUseError(TransientError):
    """Another process has the embedded store in `folder` open."""

    def __init__(self, folder: Path, process: int | None):
        who = "another epicenter process" + (f" (process {process})" if process else "")
        super().__init__(
            f"{folder}: {who} has this embedded store open, and only one process can."
            " Read it through that process's local page (/api/incidents), or stop that process."
        )
        self.folder = folder
        self.process = process


class StoreFullError(TransientError):
    """The disk of the store at this address is full."""

    def __init__(self, address: str):
        super().__init__(f"{address}: {SENTENCES[_FULL]}")


class StoreDamagedError(TransientError):
    """The embedded engine can't read the files of `table`, or of the database of that name, in `folder`."""

    def __init__(self, folder: Path, table: str):
        super().__init__(
            f"{folder}: this embedded store is damaged ({table}): move the folder away; `epicenter migrate` makes a new"
            " one, and `epicenter run --once` reads logs into it again"
        )
        self.folder = folder


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Translate errors of clickhouse-connect, chdb and urllib3 raised inside the block."""
    try:
        yield
    except PipelineError:
        raise
    except tuple(MEANING_BY_CLASS) as error:
        raise translate(error, address) from error


def translate(error: BaseException, address: str) -> PipelineError:
    """Our error for a library's error: by the engine's code if there is one, else by class."""
    if found := fault_in(error):
        return tls_error(found, address)
    code = getattr(error, "code", None)
    if _is_disk_full(error, code):
        return StoreFullError(address)
    message = f"{address}: {_in_our_words(str(error) or type(error).__name__, code)}"
    if code in CONFIG_CODES:
        return ConfigError([f"{message} [{CONFIG_CODES[code]}]"])
    if code in TRANSIENT_CODES:
        return TransientError(message)
    if isinstance(code, int) and code > 0 and type(error) is not library.OperationalError:
        return RejectedError(message)
    meaning = next(MEANING_BY_CLASS[base] for base in type(error).__mro__ if base in MEANING_BY_CLASS)
    return ConfigError([message]) if meaning is ConfigError else meaning(message)


def _is_disk_full(error: BaseException, code: object) -> bool:
    if code == _FULL:
        return True
    if code in _FILE_CODES:
        return bool(_NO_SPACE.search(str(error)))
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def tls_error(found: Found, address: str) -> PipelineError:
    """Our error for a TLS fault: transient if only the server's side can fix it."""
    text = f"{address}: {found}: {TLS_ADVICE[found.fault]}"
    return TransientError(text) if found.fault in SERVER_SIDE else ConfigError([text])


def _in_our_words(message: str, code: object) -> str:
    if known := SENTENCES.get(code):
        return known
    if answered := _OTHER_PROGRAM.search(message):
        return f"answers with HTTP status {answered['status']}, which is not ClickHouse's: check host, port and proxy"
    return _shown(_ENGINE_PREFIX.sub("", message) or "no reason given")


def _shown(message: str) -> str:
    """The message in one line, sanitized because it may quote a log line. Of a failed connection only the reason."""
    if failed := _CONNECTION_FAILED.search(message):
        return sanitize(failed["reason"])
    text = " ".join(re.sub(r"\(version [^()]*(\([^()]*\))?\)\s*$", "", message).split())
    return sanitize(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…")
