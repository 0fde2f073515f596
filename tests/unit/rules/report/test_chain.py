"""The cascade: a cause before its effects, the interval of a back-dated onset, noise that is no consequence."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epicenter.rules.cause.ranking import Candidate, rank
from epicenter.rules.model.incident import ChainLink
from epicenter.rules.model.signals import CLOCK_SKEW_NS, Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.report.chain import chain_of, is_dated_back, link_of
from tests.support.logs import the_rules
from tests.support.signals import a_signal

CLASSES = ("xid-79", "gpu-fallen-off-bus", "nccl-timeout", "nic-link-down", "python-exception", "host-oom-kill", "hang")
SKEW_S = CLOCK_SKEW_NS // NS_PER_S


def ranked(*signals: Signal) -> list[Candidate]:
    rules = the_rules()
    return rank(list(signals), rules.edges_between, lambda signal: {"A"}, rules.cause_model, None, rules.topology)


def links(*signals: Signal) -> list[ChainLink]:
    candidates = ranked(*signals)
    chain = chain_of(candidates, candidates[0].signal)
    return [link_of(link, candidates[0], is_dated_back(link.signal, the_rules())) for link in chain]


DRAWN = st.tuples(st.sampled_from(CLASSES), st.integers(0, 3 * SKEW_S), st.sampled_from(["n1", "n2"]))


@settings(deadline=None)
@given(st.lists(DRAWN, min_size=1))
def test_explained_link_is_never_before_its_explainer(drawn: list[tuple[str, int, str]]) -> None:
    signals = {(name, node): a_signal(name, second, node, "A") for name, second, node in drawn}
    candidates = ranked(*signals.values())
    chain = chain_of(candidates, candidates[0].signal)
    order = {(link.signal.failure_class, link.signal.node): number for number, link in enumerate(chain)}
    assert len(order) == len(chain)
    for link in chain:
        why = link.explained_by
        if why and (why.failure_class, why.node) in order and not _explain_each_other(link, chain):
            assert order[why.failure_class, why.node] < order[link.signal.failure_class, link.signal.node]


def _explain_each_other(link: Candidate, chain: list[Candidate]) -> bool:
    by_place = {(other.signal.failure_class, other.signal.node): other for other in chain}
    seen: list[Candidate] = []
    cause: Candidate | None = link
    while cause and cause not in seen:
        seen.append(cause)
        cause = (
            by_place.get((cause.explained_by.failure_class, cause.explained_by.node)) if cause.explained_by else None
        )
    return cause is not None


def test_cause_is_first_although_its_clock_is_behind() -> None:
    found = links(a_signal("gpu-fallen-off-bus", 10, "n1", "A"), a_signal("xid-79", 10.001, "n1", "A", role="root"))
    assert [link.failure_class for link in found] == ["xid-79", "gpu-fallen-off-bus"]


def test_onset_after_a_wait_lies_between_its_start_and_the_line() -> None:
    timeout = a_signal("nccl-timeout", 700, "n1", "A", onset=100, rule="nccl.watchdog_timeout")
    (link,) = links(timeout)
    assert (link.onset_earliest, link.onset_latest) == (link.onset, link.event_time)
    (exact,) = links(a_signal("xid-79", 700, "n1", "A", rule="nvidia.xid_79"))
    assert (exact.onset_earliest, exact.onset_latest) == ("", "")


def test_unrelated_noise_before_the_root_is_no_consequence() -> None:
    noise = a_signal("disk-full", 1, "n9", "A", severity="warning", role="cascade")
    root = a_signal("xid-79", 60, "n1", "A", role="root", severity="critical", source="kernel")
    assert [(link.failure_class, link.role) for link in links(noise, root)] == [
        ("disk-full", "context"),
        ("xid-79", "root"),
    ]
