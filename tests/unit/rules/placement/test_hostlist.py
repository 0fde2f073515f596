"""Lists of hosts in Slurm's notation."""

from __future__ import annotations

import pytest

from epicenter.rules.placement.hostlist import compress, expand


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("node[0001,0003-0005]", ["node0001", "node0003", "node0004", "node0005"]),
        ("a1,b[08-10],c", ["a1", "b08", "b09", "b10", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[1-2]-ib", ["gpu1-ib", "gpu2-ib"]),
        ("n[9-11], m", ["n9", "n10", "n11", "m"]),
        ("n1,n1", ["n1"]),
        ("", []),
    ],
)
def test_a_list_names_hosts(text: str, hosts: list[str]) -> None:
    assert list(expand(text)) == hosts


@pytest.mark.parametrize("text", ["n[1", "n1]", "n[2-1]", "n[a-b]", "n[]", "n[1-99999999]", "n[[1]]", "n]1["])
def test_an_invalid_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="n"):
        expand(text)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["n2", "n1"], "n[1-2]"),
        (["node0001", "node0003", "node0002", "node0007"], "node[0001-0003,0007]"),
        (["n9", "n10"], "n10,n9"),
        (["login"], "login"),
        ([], ""),
    ],
)
def test_hosts_make_a_short_list(hosts: list[str], text: str) -> None:
    assert compress(hosts) == text
