"""One name for each node, where some sources write `gpu-a-12` and others `gpu-a-12.cluster`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_KEPT_NAMES: Final = 65_536
_ADDRESS: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}", re.ASCII)


class HostNames(msgspec.Struct):
    """The first name of each node, by `cluster/short name`; nodes above the maximum keep the names of their lines."""

    names: dict[str, str] = {}

    def name_of(self, cluster: str, node: str) -> str:
        """The first name of the node, if one of both is the other without its domain, or the address in AWS's name."""
        if f"{cluster}/{_aws_name(node)}" in self.names:
            node = _aws_name(node)
        short = short_host(node)
        key = f"{cluster}/{short}"
        known = self.names.get(key)
        if known is None:
            if len(self.names) < MAX_KEPT_NAMES:
                self.names[key] = node
            return node
        return known if short in (node, known) else node

    def node_at(self, cluster: str, address: str) -> str:
        """The first name of the node whose AWS name has this address; empty if there is none."""
        return self.names.get(f"{cluster}/{_aws_name(address)}", "") if is_address(address) else ""


def is_address(node: str) -> bool:
    """Whether the node is known by its IPv4 address."""
    return _ADDRESS.fullmatch(node) is not None


def _aws_name(node: str) -> str:
    """`ip-10-0-3-17` for `10.0.3.17`, as AWS names its hosts (EC2 user guide, "instance hostnames"); else the node."""
    return f"ip-{node.replace('.', '-')}" if is_address(node) else node


def short_host(node: str) -> str:
    """The name without its domain; an address stays whole."""
    short = node.partition(".")[0]
    return node if short.isdigit() else short
