"""ClickHouse's HTTP interface over embedded chDB: the server's code path, tested where no ClickHouse server exists."""

from __future__ import annotations

import asyncio
import http.client
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import click
import cramjam
import msgspec
from aiohttp import BasicAuth, web
from aiohttp.web_request import FileField

from deploy.dev.broker import REPOSITORY
from deploy.dev.process import ChildServer, free_ports

DATABASE = "epicenter"
BODY_LIMIT_BYTES = 1 << 30
DEFAULT_FORMAT = "TabSeparated"

# What the server reads itself; every other parameter of a request is a setting of its query.
_TRANSPORT_PARAMETERS = (
    {"query", "database", "default_format", "user", "password", "quota_key", "query_id", "role"}
    | {"session_id", "session_timeout", "session_check", "buffer_size", "wait_end_of_query"}
    | {"compress", "decompress", "client_protocol_version"}
)
_DECOMPRESSORS = {
    "lz4": cramjam.lz4.decompress,
    "zstd": cramjam.zstd.decompress,
    "gzip": cramjam.gzip.decompress,
    "deflate": cramjam.zlib.decompress,
    "br": cramjam.brotli.decompress,
}
_CONTENT_TYPES = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8",
    "JSON": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
}
# Source: ClickHouse src/Server/HTTP/exceptionCodeToHTTPStatus.cpp; every other error is 500.
_ERROR_NAMES_BY_HTTP_STATUS = {
    400: """
        BAD_ARGUMENTS CANNOT_COMPILE_REGEXP CANNOT_PARSE_DATE CANNOT_PARSE_DATETIME CANNOT_PARSE_ESCAPE_SEQUENCE
        CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING CANNOT_PARSE_INPUT_ASSERTION_FAILED CANNOT_PARSE_IPV4 CANNOT_PARSE_IPV6
        CANNOT_PARSE_NUMBER CANNOT_PARSE_QUOTED_STRING CANNOT_PARSE_TEXT CANNOT_PARSE_UUID DUPLICATE_COLUMN
        ILLEGAL_COLUMN INCORRECT_DATA SYNTAX_ERROR THERE_IS_NO_COLUMN TOO_BIG_AST TOO_DEEP_AST TYPE_MISMATCH
        UNEXPECTED_AST_STRUCTURE UNKNOWN_ELEMENT_IN_AST UNKNOWN_TYPE_OF_AST_NODE VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
    """,
    403: "ACCESS_DENIED",
    404: """
        UNKNOWN_AGGREGATE_FUNCTION UNKNOWN_DATABASE UNKNOWN_DATABASE_ENGINE UNKNOWN_DIRECTION_OF_SORTING UNKNOWN_FORMAT
        UNKNOWN_FUNCTION UNKNOWN_IDENTIFIER UNKNOWN_ROLE UNKNOWN_SETTING UNKNOWN_STORAGE UNKNOWN_TABLE UNKNOWN_TYPE
        UNKNOWN_TYPE_OF_QUERY
    """,
    408: "TIMEOUT_EXCEEDED",
    413: "QUERY_IS_TOO_LARGE",
    501: "NOT_IMPLEMENTED",
    503: "CANNOT_OPEN_FILE CANNOT_SCHEDULE_TASK SOCKET_TIMEOUT",
}
_HTTP_STATUS_BY_ERROR_NAME = {
    name: status for status, names in _ERROR_NAMES_BY_HTTP_STATUS.items() for name in names.split()
}

_NAME = rb"""(?:`[^`]*`|"[^"]*"|\w+)"""
_INSERT_WITH_BLOCK = re.compile(
    rb"\s*(INSERT\s+INTO\s+(?:TABLE\s+)?" + _NAME + rb"(?:\." + _NAME + rb")?\s*(?:\([^()]*\))?)\s*"
    rb"(SETTINGS\s[^\n]*?)?\s*\bFORMAT\s+(\w+)[ \t]*;?[ \t]*(?:\r?\n)?",
    re.IGNORECASE,
)
_TRAILING_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*(?:SETTINGS\b.*)?;?\s*$", re.IGNORECASE | re.DOTALL)
_QUOTED_OR_COMMENT = re.compile(rb"""'(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_ERROR = re.compile(r"Code: (\d+)\. DB::Exception: (.*) \((\w+)\)", re.DOTALL)


class EngineError(Exception):
    """A query was refused, with ClickHouse's error number, name and message."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message} ({name})")
        self.code = code
        self.name = name


def _allowing_backups(path: Path) -> Path:
    """A configuration that allows backups next to the data."""
    backups, config = path.parent / "backups", path.parent / "config.xml"
    config.write_text(
        f"<clickhouse><backups><allowed_path>{backups.resolve()}/</allowed_path></backups></clickhouse>\n"
    )
    return config.resolve()


class User(msgspec.Struct, frozen=True):
    """A user who may run queries; `may_write` is false for one with `readonly = 2`."""

    name: str
    password: str
    may_write: bool = True


class Query(msgspec.Struct, frozen=True):
    """One request: the statement, with the rows after an INSERT's FORMAT still in `sql`."""

    sql: bytes
    database: str
    output_format: str
    settings: dict[str, str]
    parameters: dict[str, str]
    may_write: bool = True


class Answer(msgspec.Struct, frozen=True):
    """The bytes that a query returned, in `output_format`, and the server's counts as X-ClickHouse-Summary has them."""

    body: bytes
    output_format: str
    summary: dict[str, str]


class Engine:
    """One chDB directory. All calls must come from the thread that made it.

    `config` is a configuration file of ClickHouse; without one everything is allowed, even backups next to the data.
    """

    def __init__(self, path: Path, config: Path | None = None) -> None:
        import chdb

        self._chdb: Any = chdb
        self._path = f"{path.resolve()}?config-file={config or _allowing_backups(path)}"
        self._connection = self._chdb.connect(self._path)
        if DATABASE not in self._connection.query("SHOW DATABASES", "TSV").data().split():
            self._connection.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self.version, self.timezone = self._connection.query("SELECT version(), timezone()", "TSV").data().split()

    def close(self) -> None:
        """Flush all data and close the directory."""
        self._connection.close()

    def run(self, query: Query) -> Answer:
        """Run one query on a separate handle, so that settings and the database last for this query only.

        Raises:
            EngineError: the engine refused it.
        """
        with closing(self._chdb.connect(self._path)) as handle:
            try:
                return _run_on(handle, query)
            except RuntimeError as error:
                raise _engine_error(str(error)) from error


def _run_on(handle: Any, query: Query) -> Answer:
    handle.query(f"USE {_quoted(query.database, '`')}")
    if query.settings:
        handle.query("SET " + ", ".join(_assignment(name, value) for name, value in query.settings.items()))
    if not query.may_write:
        handle.query("SET readonly = 2")
    if insert := _INSERT_WITH_BLOCK.match(query.sql):
        into, settings, block_format = (part.decode() if part else "" for part in insert.groups())
        return _insert_block(handle, into, f"{settings} FORMAT {block_format}", query.sql[insert.end() :])
    if re.search(rb";\s*\S", _QUOTED_OR_COMMENT.sub(b"", query.sql)):
        raise EngineError(62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed).")
    result = handle.query(query.sql, query.output_format, params=query.parameters)
    requested = _TRAILING_FORMAT.search(query.sql)
    return Answer(result.bytes(), requested[1].decode() if requested else query.output_format, _summary(result))


def _insert_block(handle: Any, into: str, how: str, block: bytes) -> Answer:
    """Insert rows through a file: chDB's streaming insert acknowledges those that it could not write to a full disk."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(block)
        file.flush()
        result = handle.query(f"{into} FROM INFILE {_quoted(file.name, chr(39))} {how}", DEFAULT_FORMAT)
    return Answer(b"", DEFAULT_FORMAT, _summary(result))


def _summary(result: Any) -> dict[str, str]:
    counts = {"read_rows": result.rows_read(), "read_bytes": result.bytes_read()}
    written = {"written_rows": result.rows_written(), "written_bytes": result.bytes_written()}
    return {name: str(count) for name, count in (counts | written).items()}


def _assignment(name: str, value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise EngineError(115, "UNKNOWN_SETTING", f"Unknown setting '{name}'.")
    return f"{name} = {_quoted(value, chr(39))}"


def _quoted(text: str, quote: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return f"{quote}{escaped}{quote}"


def _engine_error(text: str) -> EngineError:
    if found := _ERROR.search(text):
        return EngineError(int(found[1]), found[3], found[2])
    return EngineError(1002, "UNKNOWN_EXCEPTION", text)


class Server:
    """The HTTP interface of one engine, which runs in a separate thread."""

    def __init__(self, path: Path, users: Sequence[User] = (), config: Path | None = None) -> None:
        self._path = path
        self._config = config
        self._users = {user.name: user for user in users}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chdb")
        self._engine: Engine

    async def open(self) -> None:
        """Open the engine; the first request may come after this."""
        self._engine = await asyncio.get_running_loop().run_in_executor(self._thread, Engine, self._path, self._config)

    async def close(self) -> None:
        """Finish the running query and close the engine."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.close)
        self._thread.shutdown()

    def app(self) -> web.Application:
        """The routes: /ping, and / for queries."""
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.router.add_get("/ping", _answer_ping)
        app.router.add_route("*", "/", self._answer_query)
        return app

    async def _answer_query(self, request: web.Request) -> web.Response:
        headers = {
            "X-ClickHouse-Query-Id": request.query.get("query_id") or str(uuid.uuid4()),
            "X-ClickHouse-Timezone": self._engine.timezone,
            "X-ClickHouse-Server-Display-Name": "epicenter-dev",
        }
        try:
            query = msgspec.structs.replace(await _read_query(request), may_write=self._may_write(request))
            if not query.sql.strip():
                return await _answer_ping(request)
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.run, query)
        except EngineError as error:
            headers["X-ClickHouse-Exception-Code"] = str(error.code)
            status = _HTTP_STATUS_BY_ERROR_NAME.get(error.name, 500)
            return web.Response(status=status, text=f"{error} (version {self._engine.version})\n", headers=headers)
        headers["X-ClickHouse-Format"] = answer.output_format
        headers["X-ClickHouse-Summary"] = msgspec.json.encode(answer.summary).decode()
        headers["Content-Type"] = _CONTENT_TYPES.get(answer.output_format, "application/octet-stream")
        return web.Response(body=answer.body, headers=headers)

    def _may_write(self, request: web.Request) -> bool:
        """Whether the user may write. Without users, everyone may.

        Raises:
            EngineError: no such user, or a wrong password.
        """
        if not self._users:
            return True
        credentials = BasicAuth.decode(request.headers.get("Authorization", "Basic OjA="))
        user = self._users.get(credentials.login)
        if user is None or user.password != credentials.password:
            message = "Authentication failed: password is incorrect, or there is no user with such name."
            raise EngineError(516, "AUTHENTICATION_FAILED", f"{credentials.login}: {message}")
        return user.may_write


async def _answer_ping(_request: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


async def _read_query(request: web.Request) -> Query:
    fields = dict(request.query)
    if request.content_type == "multipart/form-data":
        for name, value in (await request.post()).items():
            if isinstance(value, FileField):
                raise EngineError(48, "NOT_IMPLEMENTED", "External data needs a real ClickHouse server.")
            fields[name] = value.decode() if isinstance(value, bytes | bytearray) else value
        body = b""
    else:
        body = _decompress(await request.read(), request.headers.get("Content-Encoding", ""))
    in_url = fields.get("query", "").encode()
    headers = request.headers
    return Query(
        sql=in_url + b"\n" + body if in_url and body else in_url or body,
        database=fields.get("database") or headers.get("X-ClickHouse-Database") or "default",
        output_format=fields.get("default_format") or headers.get("X-ClickHouse-Format") or DEFAULT_FORMAT,
        settings={
            name: value
            for name, value in fields.items()
            if name not in _TRANSPORT_PARAMETERS and not name.startswith("param_")
        },
        parameters={name.removeprefix("param_"): value for name, value in fields.items() if name.startswith("param_")},
    )


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    try:
        return bytes(_DECOMPRESSORS[encoding](body))
    except (KeyError, cramjam.DecompressionError) as error:
        raise EngineError(36, "BAD_ARGUMENTS", f"Content-Encoding {encoding}: {error!r}.") from error


async def serve(path: Path, host: str, port: int, users: Sequence[User] = (), config: Path | None = None) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish the running ones and close the engine."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = Server(path, users, config)
    await server.open()
    runner = web.AppRunner(server.app(), auto_decompress=False, access_log=None, shutdown_timeout=5)
    try:
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        await stopped.wait()
    finally:
        await runner.cleanup()
        await server.close()


class DevClickHouse(ChildServer):
    """The interface in a child process on a free loopback port, over `data` or a new data folder in `work_dir`."""

    def __init__(
        self, work_dir: Path, users: Sequence[User] = (), data: Path | None = None, grants: Sequence[str] | None = None
    ) -> None:
        work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="clickhouse-", dir=work_dir.resolve()))
        (port,) = free_ports(1)
        self.dsn = f"http://127.0.0.1:{port}/{DATABASE}"
        options = ["--path", str(data or folder / "data"), "--port", str(port)]
        if grants is not None:
            options += ["--config", str(_config_with(grants, folder))]
        for user in users:
            options += ["--user" if user.may_write else "--reader", user.name, user.password]
        command = [sys.executable, "-m", "deploy.dev.clickhouse", *options]
        super().__init__("ClickHouse over chDB", command, folder, REPOSITORY, lambda: _answers_ping(port))


def _config_with(grants: Sequence[str], folder: Path) -> Path:
    """A configuration in which every user has these rights and no others; the engine enforces it."""
    queries = "".join(f"<query>{escape(grant)}</query>" for grant in grants)
    default = f"<password/><networks><ip>::/0</ip></networks><profile>default</profile><grants>{queries}</grants>"
    users, config = folder / "users.xml", folder / "config.xml"
    users.write_text(
        f"<clickhouse><profiles><default/></profiles><users><default>{default}<quota>default</quota></default></users>"
        "<quotas><default/></quotas></clickhouse>"
    )
    directories = f"<user_directories><users_xml><path>{users}</path></users_xml></user_directories>"
    config.write_text(f"<clickhouse>{directories}</clickhouse>")
    return config


@contextmanager
def dev_clickhouse(
    work_dir: Path, users: Sequence[User] = (), data: Path | None = None, grants: Sequence[str] | None = None
) -> Iterator[DevClickHouse]:
    """Give ClickHouse's HTTP interface over chDB in a child process; the database of its DSN exists.

    `data` is the folder of an earlier one; with `grants` (`GRANT … ON …`), nothing else is allowed.

    Raises:
        TransientError: it did not answer in time.
    """
    server = DevClickHouse(work_dir, users, data, grants)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _answers_ping(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=2)) as connection:
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


@click.command()
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), required=True, help="Data directory.")
@click.option("--port", type=int, required=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--user", type=(str, str), multiple=True, help="Name and password; without any, everyone may query.")
@click.option("--reader", type=(str, str), multiple=True, help="The same for a user who may only read.")
@click.option("--config", type=click.Path(path_type=Path), help="A configuration file of ClickHouse.")
def main(
    path: Path,
    port: int,
    host: str,
    user: Sequence[tuple[str, str]],
    reader: Sequence[tuple[str, str]],
    config: Path | None,
) -> None:
    """Serve ClickHouse's HTTP interface over the chDB data in PATH.

    Example: python -m deploy.dev.clickhouse --path /tmp/ch --port 8123
    """
    path.mkdir(parents=True, exist_ok=True)
    users = [User(*account) for account in user] + [User(*account, may_write=False) for account in reader]
    asyncio.run(serve(path, host, port, users, config))


if __name__ == "__main__":
    main()
