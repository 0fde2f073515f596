"""One client for a ClickHouse server and for the embedded engine; a DSN picks which, and our errors come out."""

from __future__ import annotations

import fcntl
import os
import re
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import clickhouse_connect
import msgspec
from clickhouse_connect.driver import exceptions as library
from clickhouse_connect.driver.binding import quote_identifier
from urllib3 import disable_warnings
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from epicenter.rules.errors import ConfigError, PipelineError, RejectedError, TransientError
from epicenter.sinks.net.tls import ON_ITS_SIDE, Fault, Found, fault_in, speaks_tls, unusable, was_hung_up
from epicenter.sinks.text.sanitize import sanitize

DEFAULT_DATABASE: Final = "epicenter"
MAX_SHOWN_CHARACTERS: Final = 600
FORMS: Final = "chdb:///absolute/folder, chdb://memory, http(s)://user:password@host:8123/database or clickhouse://…"

OPTIONS: Final[dict[str, type]] = {
    "secure": bool,
    "verify": bool,
    "ca_cert": str,
    "client_cert": str,
    "client_cert_key": str,
    "connect_timeout": int,
    "send_receive_timeout": int,
    "compress": str,
}
"""What may follow the `?` in a server's DSN."""

PORTS: Final = {"http": 8123, "https": 8443}

MEANING_BY_CLASS: Final[dict[type[BaseException], type[PipelineError]]] = {
    library.ClickHouseError: TransientError,
    library.Warning: RejectedError,
    library.Error: TransientError,
    library.InterfaceError: TransientError,
    library.DatabaseError: TransientError,  # without a code it is an HTTP status of something in between
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
"""What an error means by its class, when the engine gave no code; the nearest base class decides."""

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
"""The engine is busy, short of something or half away: the same call may work later."""

CONFIG_CODES: Final = {
    60: "UNKNOWN_TABLE: run `epicenter migrate`",
    81: "UNKNOWN_DATABASE: run `epicenter migrate`",
    115: "UNKNOWN_SETTING: this server is too old",
    164: "READONLY: this user may only read: grant it SELECT, INSERT, CREATE and ALTER on the database",
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    195: "IP_ADDRESS_NOT_ALLOWED",
    291: "DATABASE_ACCESS_DENIED",
    497: "ACCESS_DENIED: grant it to this user",
    516: "AUTHENTICATION_FAILED: check the user and the password",
}
"""Somebody has to change a setting or run the migrations: dead-lettering every batch would only hide it."""


WHAT_TO_DO: Final = {
    Fault.EXPIRED: "renew it on the server",
    Fault.NOT_YET_VALID: "look at the clocks of both machines",
    Fault.OTHER_NAME: "write the name that the certificate has into the DSN",
    Fault.UNKNOWN_CA: "add ca_cert=/path/of/the/ca.pem to the DSN",
    Fault.NOT_BELIEVED: "look at ca_cert in the DSN and at the server's certificate",
    Fault.WANTS_OURS: "add client_cert and client_cert_key to the DSN",
    Fault.REFUSES_OURS: "look at client_cert in the DSN",
    Fault.NO_TLS: "write http://, or the port where it does (8443 as a rule)",
    Fault.ONLY_TLS: "write https://",
}
"""For what is wrong with TLS."""


class StoreInUseError(TransientError):
    """Another process has the embedded store open; `folder` says which."""

    def __init__(self, folder: Path, process: int | None):
        who = "another epicenter process" + (f" (process {process})" if process else "")
        super().__init__(
            f"{folder}: {who} has this embedded store open, and only one process can."
            " Read it through that process's local page (/api/incidents), or stop that process."
        )
        self.folder = folder
        self.process = process


class Client:
    """A connection that speaks in our errors; threads may share it. `address` is the DSN without user and password."""

    def __init__(self, backend: Any, address: str, database: str, is_embedded: bool):
        self.address = address
        self.database = database
        self.is_embedded = is_embedded
        self._backend = backend
        self._is_closed = False

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows. `parameters` are bound by the engine, as `{name:Type}` in the SQL."""
        with self._translated():
            return list(self._backend.query(sql, parameters=dict(parameters or {})).result_rows)

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run one statement that gives no rows."""
        with self._translated():
            self._backend.command(sql, parameters=dict(parameters or {}))

    def insert(
        self,
        table: str,
        columns: Sequence[Sequence[Any]],
        names: Sequence[str],
        types: Sequence[str],
        settings: Mapping[str, Any],
    ) -> None:
        """Insert values by column; `types` are ClickHouse type names and save a question to the server."""
        given = list(columns)
        try:
            with self._translated():
                self._backend.insert(
                    table,
                    given,
                    column_names=list(names),
                    column_type_names=list(types),
                    column_oriented=True,
                    settings=dict(settings),
                )
        finally:
            given.clear()  # the library's insert context refers to itself: it would keep them until the next collection

    def close(self) -> None:
        """Let go of the connection; an embedded store is then free for another process."""
        self._is_closed = True
        self._backend.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._is_closed:
            raise TransientError(f"{self.address}: this connection is closed")
        with translated(self.address):
            yield


class _Target(msgspec.Struct, frozen=True):
    """A DSN taken apart: `arguments` are for the library and may hold the password; never print them."""

    address: str
    database: str
    arguments: dict[str, Any]
    folder: Path | None = None
    is_embedded: bool = False


def connect(dsn: str) -> Client:
    """A client for the store that `dsn` names; its database is created if it is missing.

    Raises:
        ConfigError: the DSN is malformed, its user is refused, or the chdb package is not installed.
        StoreInUseError: another process has the embedded store open.
        TransientError: the server is away or busy.
    """
    target = _target(dsn)
    backend = _open_embedded(target) if target.is_embedded else _open_server(target)
    try:
        with translated(target.address):
            _use_database(backend, target.database)
    except PipelineError:
        backend.close()
        raise
    return Client(backend, target.address, target.database, target.is_embedded)


def address_of(dsn: str) -> str:
    """The DSN without user and password.

    Raises:
        ConfigError: the DSN is malformed.
    """
    return _target(dsn).address


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Turn what clickhouse-connect, chdb and urllib3 raise into our errors."""
    try:
        yield
    except PipelineError:
        raise
    except tuple(MEANING_BY_CLASS) as error:
        raise translate(error, address) from error


def translate(error: BaseException, address: str) -> PipelineError:
    """The error of ours that says what to do: by the engine's code if it gave one, else by the error's class."""
    if found := fault_in(error):
        return _tls_error(found, address)
    code = getattr(error, "code", None)
    message = f"{address}: {_shown(str(error) or type(error).__name__)}"
    if code in CONFIG_CODES:
        return ConfigError([f"{message} [{CONFIG_CODES[code]}]"])
    if code in TRANSIENT_CODES:
        return TransientError(message)
    if isinstance(code, int) and code > 0 and type(error) is not library.OperationalError:
        return RejectedError(message)
    meaning = next(MEANING_BY_CLASS[base] for base in type(error).__mro__ if base in MEANING_BY_CLASS)
    return ConfigError([message]) if meaning is ConfigError else meaning(message)


def _target(dsn: str) -> _Target:
    try:
        parts = urlsplit(dsn.strip())
        port = parts.port
    except ValueError:
        # The library's message could hold a piece of the password.
        raise ConfigError(
            [f"store DSN: host or port can't be read; write {FORMS}, with / ? # @ : in a password as %2F %3F …"]
        ) from None
    if parts.scheme == "chdb":
        return _embedded_target(parts)
    if parts.scheme not in ("http", "https", "clickhouse") or not parts.hostname:
        raise ConfigError([f"store DSN: unknown form; write {FORMS}"])
    if "@" in parts.path + parts.query + parts.fragment:
        raise ConfigError(["store DSN: an @ after the host; write / ? # @ : in a password as %2F %3F %23 %40 %3A"])
    return _server_target(parts, port)


def _embedded_target(parts: SplitResult) -> _Target:
    options = dict(parse_qsl(parts.query))
    database = options.pop("database", DEFAULT_DATABASE)
    if options:
        raise ConfigError([f"store DSN: unknown option {', '.join(sorted(options))}; chdb knows only `database`"])
    if parts.netloc == "memory":
        name = unquote(parts.path.strip("/")) or database
        return _Target("chdb://memory", name, {"interface": "chdb"}, is_embedded=True)
    if parts.netloc or not parts.path.startswith("/") or not parts.path.strip("/"):
        raise ConfigError(["store DSN: chdb needs an absolute folder, with three slashes: chdb:///var/lib/epicenter"])
    folder = Path(os.path.realpath(unquote(parts.path)))
    return _Target(f"chdb://{folder}", database, {"interface": "chdb", "path": str(folder)}, folder, is_embedded=True)


def _server_target(parts: SplitResult, port: int | None) -> _Target:
    options = _options(parts.query)
    is_secure = options.pop("secure", parts.scheme == "https")
    interface = "https" if is_secure or parts.scheme == "https" else "http"
    host = parts.hostname or ""
    port = port or PORTS[interface]
    database = unquote(parts.path.strip("/")) or DEFAULT_DATABASE
    shown_host = f"[{host}]" if ":" in host else host
    arguments = {
        "interface": interface,
        "host": host,
        "port": port,
        "username": unquote(parts.username or "") or "default",
        "password": unquote(parts.password or ""),
        "autogenerate_session_id": False,
        "connect_timeout": 5,
        "send_receive_timeout": 30,
    }
    return _Target(f"{interface}://{shown_host}:{port}/{database}", database, arguments | options)


def _options(query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in parse_qsl(query, keep_blank_values=True):
        kind = OPTIONS.get(name)
        if kind is None:
            problems.append(f"store DSN: unknown option {name!r}; known are {', '.join(OPTIONS)}")
        elif kind is bool and text.lower() not in ("true", "false", "1", "0"):
            problems.append(f"store DSN: option {name}: write true or false")
        elif kind is int and not re.fullmatch("[0-9]{1,6}", text):
            problems.append(f"store DSN: option {name}: write a number of seconds")
        else:
            options[name] = text.lower() in ("true", "1") if kind is bool else kind(text)
    if problems:
        raise ConfigError(problems)
    return options


def _tls_error(found: Found, address: str) -> PipelineError:
    text = f"{address}: {found}: {WHAT_TO_DO[found.fault]}"
    return TransientError(text) if found.fault in ON_ITS_SIDE else ConfigError([text])


def _open_server(target: _Target) -> Any:
    given = target.arguments
    _check_files(given)
    if given.get("verify") is False:
        disable_warnings(InsecureRequestWarning)  # it is told once, at the start, and not with every request
    try:
        with translated(target.address):
            return clickhouse_connect.get_client(**given, settings={"async_insert": 0})
    except TransientError as error:
        is_plain = given["interface"] == "http" and was_hung_up(error)
        if is_plain and speaks_tls(given["host"], given["port"], given["connect_timeout"]):
            raise _tls_error(Found(Fault.ONLY_TLS), target.address) from None
        raise


def _check_files(given: Mapping[str, Any]) -> None:
    """The library would only say that the server can't be reached."""
    context, ca, own = ssl.create_default_context(), given.get("ca_cert", "certifi"), given.get("client_cert")
    problems = []
    if ca != "certifi" and (problem := unusable(lambda: context.load_verify_locations(ca))):
        problems.append(f"store DSN: option ca_cert: {ca}: {problem}: name the PEM file of the CA's certificate")
    if own and (problem := unusable(lambda: context.load_cert_chain(own, given.get("client_cert_key"), lambda: ""))):
        problems.append(f"store DSN: options client_cert, client_cert_key: {own}: {problem}")
    if problems:
        raise ConfigError(problems)


def _open_embedded(target: _Target) -> Any:
    if target.folder is not None:
        _prepare(target.folder)
        _refuse_if_owned(target.folder)
    try:
        return clickhouse_connect.get_client(**target.arguments, settings={"async_insert": 0})
    except ImportError as error:
        raise ConfigError(
            [f"{target.address}: the embedded engine is not installed; pip install 'epicenter[local]'"]
        ) from error
    except library.ProgrammingError as error:
        if "already initialized with path" in str(error):
            raise ConfigError(
                [f"{target.address}: this process has another embedded store open; a process can hold one"]
            ) from error
        if target.folder is not None:
            _refuse_if_owned(target.folder)
        raise TransientError(
            f"{target.address}: the embedded store can't be opened; check the folder's owner and the free space"
        ) from error


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError([f"{folder}: can't be the store's folder: {error.strerror}"]) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError([f"{folder}: can't be the store's folder: not writable for this user"])


def _refuse_if_owned(folder: Path) -> None:
    """Ask the engine's own lock before the engine does: it would only complain on stderr."""
    try:
        with (folder / "status").open("rb") as status:
            try:
                fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found = re.search(rb"PID: (\d+)", status.read(200))
                process = int(found[1]) if found else None
                if process != os.getpid():
                    raise StoreInUseError(folder, process) from None
    except OSError:
        return


def _use_database(backend: Any, database: str) -> None:
    exists = "SELECT count() FROM system.databases WHERE name = {name:String}"
    if backend.query(exists, parameters={"name": database}).result_rows[0][0] == 0:
        backend.command(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    backend.database = database


def _shown(message: str) -> str:
    """The message in one line; it may quote a log line, so it is made inert."""
    text = " ".join(re.sub(r"\(version [^()]*(\([^()]*\))?\)\s*$", "", message).split())
    return sanitize(text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…")
