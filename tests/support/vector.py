"""Vector's configuration without Vector: its variables are substituted, and its remap programs run in the real VRL."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import yaml
from vrl_python import VRLRuntime

_VARIABLE = re.compile(r"\$\$|\$\{([\w.]+)(?::-([^}]*))?\}|\$([\w.]+)")
"""As in Vector's src/config/vars.rs: `$$`, `${NAME}`, `${NAME:-default}`, `$NAME`."""


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text as Vector reads it, before it is parsed."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1] or found[3]) or found[2] or ""

    return _VARIABLE.sub(value, text)


def configuration(text: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """A file of Vector, parsed."""
    return dict(yaml.safe_load(with_variables(text, variables)))


def remapped(program: str, event: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """The result of a remap transform for an event; raises VRL's error when it does not compile or aborts."""
    with patch.dict(os.environ, variables):
        return dict(VRLRuntime(timezone="UTC").execute(program, dict(event)).processed_event)
