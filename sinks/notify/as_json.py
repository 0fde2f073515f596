"""Values as JSON, even with text that UTF-8 can't encode."""

from __future__ import annotations

from typing import Any

import msgspec


def json_bytes(value: object) -> bytes:
    """UTF-8 JSON; a lone surrogate, which UTF-8 can't encode, becomes `\\ud800`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value)))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
    return value
