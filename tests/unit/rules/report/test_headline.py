"""The title of one failure: what its line says, where it happened, and whom the others wait for."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from epicenter.rules.model.ranges import rank_list
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.ruleset import Rule
from epicenter.rules.report.headline import MAX_HEADLINE_LENGTH, duration, headline
from epicenter.rules.report.traceback import error_of, frame_of
from tests.support.logs import the_rules
from tests.support.signals import a_signal, signals_of

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/job/train.py", line 88, in <module>',
    '  File "/srv/job/data.py", line 55, in collate',
    '  File "/opt/env/lib/python3.11/site-packages/torch/utils/data/fetch.py", line 9, in fetch',
    "KeyError: 'input_ids'",
)


def a_title(rule_id: str, **fields: str) -> str:
    signal = structs.replace(a_signal("any", 0, "gpu-a-12"), fields=fields)
    return headline(signal, the_rules().by_id[rule_id].spec)


def test_headline_has_the_exception_its_frame_the_rank_and_the_node() -> None:
    signal = a_signal("python-exception", 0, "gpu-a-12", "A", rank=3)
    signal = structs.replace(signal, text=TRACEBACK[-1], block=TRACEBACK)
    title = headline(signal, the_rules().by_id["python.exception_line"].spec)
    assert title == "KeyError 'input_ids' at data.py:55, rank 3 on gpu-a-12"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[rank3]: torch._dynamo.exc.Unsupported: list iterator", "Unsupported: list iterator"),
        ("ValueError: bad shape (4, 8)", "ValueError: bad shape (4, 8)"),
        ("AssertionError", "AssertionError"),
        ("Traceback (most recent call last):", ""),
        ("all went well", ""),
    ],
)
def test_error_is_the_exception_with_its_message(text: str, expected: str) -> None:
    assert error_of(structs.replace(a_signal("any", 0), text=text)) == expected


def test_frame_is_that_of_the_first_exception_in_a_chain() -> None:
    second = ('  File "/srv/job/retry.py", line 7, in again', "RuntimeError: gave up")
    signal = structs.replace(a_signal("any", 0), text=TRACEBACK[-1], block=(*TRACEBACK, *second))
    assert frame_of(signal) == "data.py:55"


def test_frame_is_unknown_without_a_frame_of_the_job() -> None:
    signal = structs.replace(a_signal("any", 0), text=TRACEBACK[-1], block=TRACEBACK[3:])
    assert frame_of(signal) == ""


def test_headline_leaves_out_a_part_whose_field_is_unknown() -> None:
    rule = "container.pull_failed"
    assert a_title(rule, image="team/llm:v2", why="not found").startswith(
        "Container image pull failed: team/llm:v2: not"
    )
    assert a_title(rule, image="", why="not found") == "Container image pull failed: not found on gpu-a-12"


def test_headline_without_its_fields_is_the_rule_s_title() -> None:
    assert a_title("nic.link_down") == "Network link down on gpu-a-12"
    assert a_title("nic.link_down", link="") == "Network link down on gpu-a-12"
    assert headline(a_signal("any", 0), None) == "any on n1"


def test_headline_does_not_fill_in_braces_of_the_log() -> None:
    assert a_title("nic.link_down", link="{node}[{x}]") == "Network link {node}[{x}] down on gpu-a-12"


def test_headline_is_one_bounded_line() -> None:
    title = a_title("kernel.panic", reason="no\nway\tback " + "x" * 9999)
    assert "\n" not in title
    assert len(title) <= MAX_HEADLINE_LENGTH
    assert title.endswith("… on gpu-a-12")


def test_address_of_a_network_card_is_no_gpu() -> None:
    signal = structs.replace(a_signal("nic-link-down", 0), gpu="0000:4d:00")
    assert "GPU" not in headline(signal, the_rules().by_id["nic.link_down"].spec)
    assert headline(signal, the_rules().by_id["nvidia.fallen_off_bus"].spec).endswith(", GPU 0000:4d:00")


def test_gpu_has_its_index_where_the_line_has_it() -> None:
    signal = structs.replace(a_signal("xid-119", 0), gpu="0000:43:00", fields={"code": "119", "gpu_index": "4"})
    title = headline(signal, the_rules().by_id["nvidia.xid_119"].spec)
    assert title == "GPU firmware stopped responding (Xid 119) on n1, GPU 4 (0000:43:00)"


@pytest.mark.parametrize(
    ("rule", "fields", "expected"),
    [
        ("data.loader_timeout", {"waited_s": "1800"}, "Data loader timed out after 30 min"),
        ("nic.tx_timeout", {"link": "eth0", "ms": "5216"}, "Network card eth0 stopped sending, 5.22 s"),
        ("nccl.gpu_memory", {"bytes": "4194304"}, "NCCL ran out of GPU memory: 4 MiB wanted"),
        ("memory.oom_killed_process", {"comm": "a", "pid": "7", "anon_rss_kb": "66912340"}, "which held 63.8 GiB"),
        ("c10d.lagging_ranks", {"lagging_ranks": "3, 4, 5, 9"}, "Timeout report names lagging ranks 3–5,9"),
    ],
)
def test_numbers_with_a_unit_are_words(rule: str, fields: dict[str, str], expected: str) -> None:
    assert expected in a_title(rule, **fields)


def test_durations_and_ranks_are_short() -> None:
    assert [duration(seconds) for seconds in (0.45, 6, 119, 605, 9000)] == ["450 ms", "6 s", "119 s", "10 min", "2.5 h"]
    assert [rank_list(ranks) for ranks in ([3], [0, 1, 2], [0, 2])] == ["rank 3", "ranks 0–2", "ranks 0,2"]


def _differs_by_instance(rule: Rule) -> bool:
    """Whether an example's line gives the rule a headline that its title lacks."""
    found = [_signal_of(rule, text) for text in rule.spec.examples.matches] if rule.spec.examples else []
    return any(headline(signal, rule.spec, with_place=False) != rule.spec.title for signal in found if signal)


def _signal_of(rule: Rule, text: str) -> Signal | None:
    found = next(filter(None, (pattern.search(text.encode()) for pattern in rule.patterns)), None)
    return structs.replace(a_signal("any", 0), text=text, fields=rule.fields_in(found)) if found else None


NONE = re.compile(r"\bNone\b")
IN_LATER_LINES = {
    *("horovod.failed", "k8s.oomkilled", "kernel.oops_tail", "machine.restart", "mpi.abort", "ray.oom_exit_type")
}
"""Rules whose examples, which are single lines, lack the fields."""

PLACES = {"pci", "node", "job", "rank", "pod"}


def test_every_failure_with_fields_in_its_line_has_a_headline() -> None:
    """Fields that only say where it happened are in the place that follows every title."""
    failures = [rule for rule in the_rules().rules if rule.spec.role in ("root", "cascade", "confirmation", "teardown")]
    with_fields = [
        rule
        for rule in failures
        if {name for pattern in (*rule.patterns, *rule.extract) for name in pattern.groupindex} - PLACES
    ]
    assert [rule.spec.id for rule in with_fields if not rule.spec.headline] == []
    assert {rule.spec.id for rule in with_fields if not _differs_by_instance(rule)} == IN_LATER_LINES


def test_no_headline_of_an_example_has_an_empty_field() -> None:
    for rule in the_rules().rules:
        for text in rule.spec.examples.matches if rule.spec.headline and rule.spec.examples else ():
            for signal in filter(None, [_signal_of(rule, text)]):
                title = headline(signal, rule.spec)
                assert not NONE.search(title)
                assert "  " not in title
                assert not title.endswith((":", ",", " "))


def test_headline_of_a_real_line() -> None:
    (signal,) = signals_of("KeyError: 'input_ids'", node="gpu-a-12", rank=3)
    assert headline(signal, the_rules().by_id[signal.rule].spec) == "KeyError 'input_ids', rank 3 on gpu-a-12"
