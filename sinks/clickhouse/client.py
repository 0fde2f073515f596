"""One client for a ClickHouse server and for the embedded engine; the DSN selects which."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.binding import quote_identifier
from urllib3 import disable_warnings
from urllib3.exceptions import InsecureRequestWarning

from epicenter.rules.errors import ConfigError, PipelineError, TransientError
from epicenter.sinks.clickhouse.dsn import StoreTarget, parse_dsn
from epicenter.sinks.clickhouse.embedded import log_lost_rows, open_embedded
from epicenter.sinks.clickhouse.errors import tls_error, translated
from epicenter.sinks.net.tls import Fault, Found, speaks_tls, unusable, was_hung_up


class Client:
    """A thread-safe connection that raises our errors. `address` is the DSN without user and password."""

    def __init__(self, backend: Any, address: str, database: str, is_embedded: bool):
        self.address = address
        self.database = database
        self.is_embedded = is_embedded
        self._backend = backend
        self._is_closed = False

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query. The engine binds `parameters` to `{name:Type}` in the SQL."""
        with self._translated():
            return list(self._backend.query(sql, parameters=dict(parameters or {})).result_rows)

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run one statement that returns no rows."""
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
        """Insert values by column. Passing `types` (ClickHouse names) saves a query to the server."""
        values = list(columns)
        try:
            with self._translated():
                self._backend.insert(
                    table,
                    values,
                    column_names=list(names),
                    column_type_names=list(types),
                    column_oriented=True,
                    settings=dict(settings),
                )
        finally:
            values.clear()  # the library's insert context is a reference cycle that would keep them alive

    def close(self) -> None:
        """Close the connection; another process can then open an embedded store."""
        self._is_closed = True
        self._backend.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self._is_closed:
            raise TransientError(f"{self.address}: this connection is closed")
        with translated(self.address):
            yield


def connect(dsn: str) -> Client:
    """A client for the store that `dsn` names; its database is created if it is missing.

    Raises:
        ConfigError: the DSN is malformed, its user is refused, or the chdb package is not installed.
        StoreInUseError: another process has the embedded store open.
        StoreDamagedError: the embedded engine can't read its files.
        TransientError: the server is unavailable or busy.
    """
    target = parse_dsn(dsn)
    backend = _opened(target)
    try:
        with translated(target.address):
            _use_database(backend, target.database)
            if target.folder is not None:
                log_lost_rows(backend, target.database, target.folder)
    except PipelineError:
        backend.close()
        raise
    return Client(backend, target.address, target.database, target.is_embedded)


def exists(dsn: str) -> bool:
    """Whether the store that `dsn` names has been created. Nothing is created.

    Raises:
        ConfigError, StoreInUseError, StoreDamagedError, TransientError: as `connect`.
    """
    target = parse_dsn(dsn)
    if target.is_embedded and not (target.folder and target.folder.is_dir() and any(target.folder.iterdir())):
        return False
    backend = _opened(target)
    try:
        with translated(target.address):
            return _has_database(backend, target.database)
    finally:
        backend.close()


def _opened(target: StoreTarget) -> Any:
    return open_embedded(target) if target.is_embedded else _open_server(target)


def _open_server(target: StoreTarget) -> Any:
    arguments = target.arguments
    _check_files(arguments)
    if arguments.get("verify") is False:
        disable_warnings(InsecureRequestWarning)  # logged once at the start instead of with every request
    try:
        with translated(target.address):
            return clickhouse_connect.get_client(**arguments, settings={"async_insert": 0})
    except TransientError as error:
        is_plain = arguments["interface"] == "http" and was_hung_up(error)
        if is_plain and speaks_tls(arguments["host"], arguments["port"], arguments["connect_timeout"]):
            raise tls_error(Found(Fault.ONLY_TLS), target.address) from None
        raise


def _check_files(arguments: Mapping[str, Any]) -> None:
    """Check the certificate files: the library would only report that the server is unreachable."""
    context = ssl.create_default_context()
    ca, own = arguments.get("ca_cert", "certifi"), arguments.get("client_cert")
    problems = []
    if ca != "certifi" and (problem := unusable(lambda: context.load_verify_locations(ca))):
        problems.append(f"store DSN: option ca_cert: {ca}: {problem}: name the PEM file of the CA's certificate")
    if own and (
        problem := unusable(lambda: context.load_cert_chain(own, arguments.get("client_cert_key"), lambda: ""))
    ):
        problems.append(f"store DSN: options client_cert, client_cert_key: {own}: {problem}")
    if problems:
        raise ConfigError(problems)


def _has_database(backend: Any, database: str) -> bool:
    wanted = "SELECT count() FROM system.databases WHERE name = {name:String}"
    return bool(backend.query(wanted, parameters={"name": database}).result_rows[0][0])


def _use_database(backend: Any, database: str) -> None:
    if not _has_database(backend, database):
        backend.command(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    backend.database = database
