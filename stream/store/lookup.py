"""Store queries of the commands: through the page of a running epicenter that has it open, else directly."""

from __future__ import annotations

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
from epicenter.stream.store.running_page import PageAnswer, query_page

if TYPE_CHECKING:
    from epicenter.sinks.clickhouse.client import Client

MAX_ID_LENGTH: Final = 64
Result = TypeVar("Result")


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
    answer = query_page(settings, path)
    if answer is None or answer.status == HTTPStatus.OK:
        return answer and orjson.loads(answer.body)
    _raise_wrong_token(answer)
    if answer.status == HTTPStatus.NOT_FOUND and (reason := _reason(answer)):
        raise InputError(reason)
    return None


def to_page(settings: Settings, path: str, form: object) -> Any:
    """The answer of a running epicenter with the same data folder to a form; None if none is running.

    Raises:
        RefusedError: it refuses the form, with the reason.
        TransientError: it can't write at the moment.
    """
    answer = query_page(settings, path, orjson.dumps(form))
    if answer is None or answer.status in (HTTPStatus.OK, HTTPStatus.CREATED):
        return answer and orjson.loads(answer.body)
    _raise_wrong_token(answer)
    if reason := _reason(answer):
        is_away = answer.status == HTTPStatus.SERVICE_UNAVAILABLE
        raise TransientError(reason) if is_away else RefusedError(reason, answer.status)
    return None


def _raise_wrong_token(answer: PageAnswer) -> None:
    """Raise an error that names the setting if the page requires another token."""
    if answer.status == HTTPStatus.UNAUTHORIZED and answer.headers.get("WWW-Authenticate") == "Bearer":
        raise ConfigError(
            ["page_token: the page of the running epicenter refuses it: set the token that it was started with"]
        )


def _reason(answer: PageAnswer) -> str:
    """Why the page refuses, if it gives a reason."""
    try:
        return str(orjson.loads(answer.body)["error"])
    except (ValueError, KeyError, TypeError):
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
