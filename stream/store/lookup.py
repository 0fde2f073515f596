"""Store queries of the commands: through the page of a running epicenter that has it open, else directly."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from epicenter.rules.errors import ConfigError, InputError, TransientError
from epicenter.sinks.operator_actions import RefusedError
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.settings import Settings

if TYPE_CHECKING:
    from epicenter.sinks.clickhouse.client import Client

PAGE_TIMEOUT_S: Final = 5.0
MAX_ID_LENGTH: Final = 64
JSON: Final = "application/json"
Result = TypeVar("Result")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def checked_id(text: str) -> str:
    """An id, the start of one, or `newest`, as a part of an address.

    Raises:
        InputError: it has other characters than ids have.
    """
    if not (text.isascii() and text.isalnum() and len(text) <= MAX_ID_LENGTH):
        raise InputError(f"{sanitize(text[:MAX_ID_LENGTH])}: not an id: ids have only letters and digits")
    return text


def from_page(settings: Settings, path: str) -> Any:
    """The answer of a running epicenter with the same data folder; None if none is running.

    Raises:
        InputError: it has nothing at this path.
    """
    note = settings.data_dir / "page.url"
    if settings.store or not note.exists():
        return None
    try:
        with _DIRECT.open(_request(settings, note.read_text() + path), timeout=PAGE_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        _raise_wrong_token(error)
        if error.code == HTTPStatus.NOT_FOUND and (reason := _reason(error)):
            raise InputError(reason) from error
        return None
    except (OSError, ValueError):
        return None


def to_page(settings: Settings, path: str, form: object) -> Any:
    """The answer of a running epicenter with the same data folder to a form; None if none is running.

    Raises:
        RefusedError: it refuses the form, with the reason.
        TransientError: it can't write at the moment.
    """
    note = settings.data_dir / "page.url"
    if settings.store or not note.exists():
        return None
    try:
        request = _request(settings, note.read_text() + path, orjson.dumps(form))
        with _DIRECT.open(request, timeout=PAGE_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        _raise_wrong_token(error)
        _raise_refusal(error)
        return None
    except (OSError, ValueError):
        return None


def _request(settings: Settings, url: str, form: bytes | None = None) -> urllib.request.Request:
    headers = {"Content-Type": JSON} if form is not None else {}
    if token := settings.page_token.get_secret_value():
        headers["Authorization"] = f"Bearer {token}"
    return urllib.request.Request(url, form, headers)


def _raise_wrong_token(error: urllib.error.HTTPError) -> None:
    """Raise an error that names the setting if the page requires another token."""
    if error.code == 401 and error.headers.get("WWW-Authenticate") == "Bearer":
        raise ConfigError(
            ["page_token: the page of the running epicenter refuses it: set the token that it was started with"]
        )


def _raise_refusal(error: urllib.error.HTTPError) -> None:
    """Raise the reason that the page gives, if it gives one."""
    if reason := _reason(error):
        raise TransientError(reason) if error.code == 503 else RefusedError(reason, error.code)


def _reason(error: urllib.error.HTTPError) -> str:
    """Why the page refuses; nothing if another program has its port by now and answers otherwise."""
    try:
        return str(orjson.loads(error.read())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def from_store(settings: Settings, query: Callable[[Client], Result], is_read_only: bool = False) -> Result:
    """The result of `query` on the store, after a migration unless `is_read_only`.

    Raises:
        InputError: there is no embedded store yet.
        ConfigError: `is_read_only`, and the tables are of an older epicenter.
        TransientError: the store is unreachable.
    """
    if not settings.store and not Path(settings.data_dir, "store").exists():
        raise InputError(
            f"{settings.data_dir}: no store here yet: start `epicenter run`, or give --store or --data-dir"
        )
    with _opened(settings, is_read_only) as client:
        return query(client)


@contextmanager
def _opened(settings: Settings, is_read_only: bool) -> Iterator[Client]:
    from epicenter.sinks.clickhouse.client import connect
    from epicenter.sinks.clickhouse.errors import StoreDamagedError, StoreInUseError
    from epicenter.sinks.clickhouse.migrate import migrate, plan

    client = None
    try:
        client = connect(settings.store_dsn)
        if not is_read_only:
            migrate(client)
        elif plan(client):
            raise ConfigError([f"{client.address}: its tables are of an older version: run `epicenter migrate`"])
    except (StoreInUseError, StoreDamagedError):
        raise
    except TransientError as error:
        raise TransientError(f"store is unreachable: {error}") from error
    else:
        yield client
    finally:
        if client is not None:
            client.close()
