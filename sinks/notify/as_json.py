"""Values to JSON, whatever text stands in them."""

from __future__ import annotations

from typing import Any

import msgspec


def json_bytes(value: object) -> bytes:
    """UTF-8 JSON; half a surrogate pair, which UTF-8 can't say, is written out as `\\ud800`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sayable(msgspec.to_builtins(value)))


def _sayable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_sayable(key): _sayable(item) for key, item in value.items()}
        case list() | tuple():
            return [_sayable(item) for item in value]
    return value
