"""Names that sites give to nodes, as far as they differ from names of other things."""

from __future__ import annotations

import re
from typing import Final

DOMAIN: Final = re.compile(r"(?:\.[a-z][a-z0-9-]{0,62}){1,9}$", re.IGNORECASE | re.ASCII)
NODE: Final = re.compile(
    r"(?:(?:node|nid|host|dgx|hgx|compute|cn|(?:gb|[abh])\d00|mi\d{3}x?)(?:[-_]?[a-z]{1,2})?"
    r"(?:[-_]?\d{1,6}){1,3}|gpu(?:[-_]?[a-z]{1,2}[-_]?\d{1,6}|[-_]?\d{2,6})(?:-\d{1,6})?|ip(?:-\d{1,3}){4})$",
    re.IGNORECASE | re.ASCII,
)
_RACK_AND_NUMBER: Final = re.compile(r"r\d{1,4}[-_]?(?:n|u|s|c|gpu)\d{1,4}$", re.IGNORECASE | re.ASCII)
"""`r12n04`, `r3-u17`."""


def is_node_name(name: str) -> bool:
    """Whether a name, with or without its domain, is that of a node."""
    short = DOMAIN.sub("", name)
    return bool(NODE.match(short) or _RACK_AND_NUMBER.match(short))
