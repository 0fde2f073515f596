"""A store's DSN, parsed: embedded engine or server, database and options."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from epicenter.rules.errors import ConfigError

DEFAULT_DATABASE: Final = "epicenter"
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
"""Options after the `?` of a server's DSN, with their types."""

PORTS: Final = {"http": 8123, "https": 8443}


class StoreTarget(msgspec.Struct, frozen=True):
    """A parsed DSN. `arguments` go to the library and may contain the password: never print them."""

    address: str
    database: str
    arguments: dict[str, Any]
    folder: Path | None = None
    is_embedded: bool = False


def parse_dsn(dsn: str) -> StoreTarget:
    """The store that a DSN selects.

    Raises:
        ConfigError: the DSN is malformed; the message never contains the password.
    """
    try:
        parts = urlsplit(dsn.strip())
        port = parts.port
    except ValueError:
        # The library's message may contain part of the password.
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


def address_of(dsn: str) -> str:
    """The DSN without user and password.

    Raises:
        ConfigError: the DSN is malformed.
    """
    return parse_dsn(dsn).address


def _embedded_target(parts: SplitResult) -> StoreTarget:
    options = dict(parse_qsl(parts.query))
    database = options.pop("database", DEFAULT_DATABASE)
    if options:
        raise ConfigError([f"store DSN: unknown option {', '.join(sorted(options))}; chdb knows only `database`"])
    if parts.netloc == "memory":
        name = unquote(parts.path.strip("/")) or database
        return StoreTarget("chdb://memory", name, {"interface": "chdb"}, is_embedded=True)
    if parts.netloc or not parts.path.startswith("/") or not parts.path.strip("/"):
        raise ConfigError(["store DSN: chdb needs an absolute folder, with three slashes: chdb:///var/lib/epicenter"])
    folder = Path(os.path.realpath(unquote(parts.path)))
    return StoreTarget(
        f"chdb://{folder}", database, {"interface": "chdb", "path": str(folder)}, folder, is_embedded=True
    )


def _server_target(parts: SplitResult, port: int | None) -> StoreTarget:
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
    return StoreTarget(f"{interface}://{shown_host}:{port}/{database}", database, arguments | options)


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
