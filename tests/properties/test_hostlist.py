"""A host list keeps its meaning when it is compressed and expanded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.placement.hostlist import compress, expand

HOSTS = st.from_regex(r"[a-z]{1,4}(-[a-z]{1,3})?[0-9]{0,4}", fullmatch=True)


@given(st.sets(HOSTS, max_size=40))
def test_a_compressed_host_list_expands_to_the_same_hosts(hosts: set[str]) -> None:
    assert set(expand(compress(hosts))) == hosts


@given(st.text(alphabet="ab01[],-", max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        hosts = expand(text)
    except ValueError:
        return
    assert set(expand(compress(hosts))) == set(hosts)


@given(st.sets(HOSTS, max_size=20))
def test_the_order_of_hosts_changes_nothing(hosts: set[str]) -> None:
    assert compress(sorted(hosts)) == compress(sorted(hosts, reverse=True))
