"""What commands read from the store: through the page of a running epicenter that holds it, else by themselves."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from rules.errors import InputError, TransientError
from stream.settings import Settings

if TYPE_CHECKING:
    from sinks.clickhouse.client import Client

PAGE_TIMEOUT_S: Final = 5.0
Result = TypeVar("Result")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def from_page(settings: Settings, path: str) -> Any:
    """What a running epicenter with the same folder answers; None when none is running."""
    note = settings.data_dir / "page.url"
    if settings.store or not note.exists():
        return None
    try:
        with _DIRECT.open(note.read_text() + path, timeout=PAGE_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        return {} if error.code == 404 else None
    except (OSError, ValueError):
        return None


def from_store(settings: Settings, ask: Callable[[Client], Result]) -> Result:
    """What `ask` finds in the store, its tables brought up to date.

    Raises:
        InputError: there is no embedded store yet.
        TransientError: the store is away.
    """
    if not settings.store and not Path(settings.data_dir, "store").exists():
        raise InputError(
            f"{settings.data_dir}: no store here yet: start `epicenter run`, or give --store or --data-dir"
        )
    with _opened(settings) as client:
        return ask(client)


@contextmanager
def _opened(settings: Settings) -> Iterator[Client]:
    from sinks.clickhouse.client import StoreInUseError, connect
    from sinks.clickhouse.migrate import migrate

    client = None
    try:
        client = connect(settings.store_dsn)
        migrate(client)
    except StoreInUseError:
        raise
    except TransientError as error:
        raise TransientError(f"store is away: {error}") from error
    else:
        yield client
    finally:
        if client is not None:
            client.close()
