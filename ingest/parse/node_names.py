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

_OF_A_POOL: Final = re.compile(
    r"(?:gke-[a-z0-9-]+|(?:[a-z0-9]+-){0,3}(?:pool(?:-\d{1,3})?(?:-[0-9a-f]{6,8})?"
    r"|(?:[abh]\d00|gb\d00|a[234](?:mega|ultra|high|[ugx])?|p[456](?:de?|en?)?)(?=-[a-z]*\d)))"
    r"-(?!run|eval|exp|test|train|job|logs?$|main|v\d)[a-z0-9]{4,6}$",
    re.ASCII,
)
"""`gke-train-h100-pool-3f2a91bc-9xm2`, `h100-pool-22lj`, `a3mega-65wq`: a pool of machines, then random characters."""


def is_node_name(name: str) -> bool:
    """Whether a name, with or without its domain, is that of a node."""
    short = DOMAIN.sub("", name)
    return bool(NODE.match(short) or _RACK_AND_NUMBER.match(short) or _OF_A_POOL.match(short))
