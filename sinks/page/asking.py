"""How the page reaches the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from sinks.clickhouse.client import Client

Answer = TypeVar("Answer")


class Ask(Protocol):
    """Put a question to the store, on a thread that may block; errors are those of the client."""

    def __call__(self, question: Callable[[Client], Answer], /) -> Awaitable[Answer]:
        """What `question` answers."""
