"""DSNs, and the translation of the library's errors."""

from __future__ import annotations

import inspect
import struct
import sys
import traceback

import pytest
from clickhouse_connect.driver import exceptions as library
from urllib3.exceptions import HTTPError

from epicenter.rules.errors import ConfigError, PipelineError, RejectedError, TransientError
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.errors import (
    CONFIG_CODES,
    MEANING_BY_CLASS,
    TRANSIENT_CODES,
    StoreFullError,
    translate,
    translated,
)

PASSWORD = "hunter" + "2"  # joined here, so that a source line in a traceback does not count

LIBRARY_CLASSES = [
    found
    for _, found in inspect.getmembers(library, inspect.isclass)
    if issubclass(found, BaseException) and found.__module__ == library.__name__
]


@pytest.mark.parametrize("error_class", LIBRARY_CLASSES, ids=lambda found: found.__name__)
def test_every_library_exception_has_a_meaning(error_class: type[BaseException]) -> None:
    assert error_class in MEANING_BY_CLASS
    error = error_class() if error_class is library.StreamClosedError else error_class("x")
    with pytest.raises(PipelineError) as raised, translated("chdb://memory"):
        raise error
    assert type(raised.value) is MEANING_BY_CLASS[error_class]


def test_library_exceptions_are_found() -> None:
    assert len(LIBRARY_CLASSES) >= 14


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (library.DatabaseError("x", code=47), RejectedError),
        (library.DatabaseError("x", code=16), RejectedError),
        (library.DatabaseError("x", code=53), RejectedError),
        (library.DatabaseError("x", code=252), TransientError),
        (library.DatabaseError("x", code=60), ConfigError),
        (library.DatabaseError("x", code=516), ConfigError),
        (library.DatabaseError("HTTP driver received HTTP status 502"), TransientError),
        (library.OperationalError("x", code=53), TransientError),
        (library.StreamFailureError("x", code=47), RejectedError),
        (HTTPError("x"), TransientError),
        (ConnectionResetError("x"), TransientError),
        (OSError(28, "No space left on device"), StoreFullError),
        (library.DatabaseError("Cannot reserve 1.00 MiB", code=243), StoreFullError),
        (
            library.DatabaseError("filesystem error: in create_directories: No space left on device", code=1001),
            StoreFullError,
        ),
        (library.DatabaseError("can't parse 'No space left on device'", code=27), RejectedError),
        (ModuleNotFoundError("chdb"), ConfigError),
        (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "x"), RejectedError),
        (struct.error("x"), RejectedError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value)[:60],
)
def test_error_code_takes_precedence_over_class(error: BaseException, expected: type[PipelineError]) -> None:
    assert type(translate(error, "http://host:8123/db")) is expected


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            library.DatabaseError("HTTP driver received HTTP status 404, server response: <html>nginx</html>"),
            "answers with HTTP status 404, which is not ClickHouse's: check host, port and proxy",
        ),
        (
            library.DatabaseError("Code: 243. DB::Exception: Cannot reserve 1.00 MiB. (NOT_ENOUGH_SPACE)", code=243),
            "the disk of the store is full: free some space",
        ),
        (
            library.DatabaseError("Code: 47. DB::Exception: Unknown identifier x. (UNKNOWN_IDENTIFIER)", code=47),
            "Unknown identifier x.",
        ),
    ],
    ids=["another-program", "full-disk", "a-bug"],
)
def test_error_is_reported_without_text_of_the_library(error: BaseException, shown: str) -> None:
    assert str(translate(error, "http://host:8123/db")) == f"http://host:8123/db: {shown}"


def test_error_codes_are_disjoint() -> None:
    assert not TRANSIENT_CODES.keys() & CONFIG_CODES.keys()


def test_own_errors_pass_unchanged() -> None:
    with pytest.raises(RejectedError, match=r"^mine$"), translated("chdb://memory"):
        raise RejectedError("mine")


def test_message_is_one_sanitized_bounded_line() -> None:
    shown = str(translate(library.DataError("\x1b[2J\nrow " + "x" * 5000), "chdb://memory"))
    assert shown.startswith(r"chdb://memory: \x1b[2J row x")
    assert len(shown) < 700


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("", "unknown form"),
        ("mysql://host/db", "unknown form"),
        ("http:///db", "unknown form"),
        ("chdb:relative/folder", "absolute folder"),
        ("chdb://relative/folder", "absolute folder"),
        ("chdb:///", "absolute folder"),
        ("chdb:///tmp/x?readonly=1", "unknown option readonly"),
        ("http://u:secretpw@host:port/db", "can't be read"),
        ("http://u:secret/pw@host:8123/db", "can't be read"),
        ("http://u:1/secretpw@host:8123/db", "an @ after the host"),
        ("http://u:secretpw@[::1/db", "can't be read"),
        ("http://u:secretpw@host/db?nope=1", "unknown option 'nope'"),
        ("http://u:secretpw@host/db?connect_timeout=soon", "number of seconds"),
        ("http://u:secretpw@host/db?verify=maybe", "true or false"),
    ],
)
def test_malformed_dsn_is_refused_without_showing_the_password(dsn: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        connect(dsn)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("scheme", ["http", "https", "clickhouse"])
def test_unreachable_server_is_transient_and_hides_the_password(scheme: str) -> None:
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:9") as raised:
        connect(f"{scheme}://user:{PASSWORD}%40@127.0.0.1:9/db")
    shown = "".join(traceback.format_exception(raised.value))
    assert PASSWORD not in shown
    assert "refused" in str(raised.value)


def test_missing_chdb_package_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb", None)
    for module in ("clickhouse_connect.driver._chdbclient", "clickhouse_connect.driver._backend.chdb_backend"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ConfigError, match=r"epicenter\[local\]") as raised:
        connect("chdb://memory")
    assert len(raised.value.problems) == 1
