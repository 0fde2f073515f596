"""What is matched when we are behind is never more than what all rules together say."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.batch import Batch
from rules.model import Match
from rules.ruleset import RuleSet
from stream.put_off import critical_first
from stream.scan import BatchScanner
from tests.support.logs import at, kernel, the_rules

SXID = "nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 20034, "
SWITCH_LINES = (
    f"{SXID}Fatal, Link 14 LTSSM Fault Up (First)",
    f"{SXID}Severity 1 Engine instance 14 Sub-engine instance 00",
    f"{SXID}Data {{0x00000100, 0x00000100, 0x00000000, 0x00000000}}",
)


def found(rules: RuleSet, lines: Sequence[bytes], nodes: Sequence[str]) -> dict[str, Match]:
    count = len(lines)
    keys = [node.encode() for node in nodes]
    batch = Batch("raw/0", values=list(lines), keys=keys, received_ns=[at(9)] * count, offsets=list(range(count)))
    return {match.match_id: match for match in BatchScanner(rules, "default").scan(batch).matches}


def test_a_line_that_a_finer_rule_takes_is_no_failure_of_its_fallback() -> None:
    lines = [kernel("n1", second, text) for second, text in enumerate(SWITCH_LINES)]
    first = found(critical_first(the_rules()), lines, ["n1"] * len(lines))
    assert [match.rule for match in first.values()] == ["nvswitch.sxid_fatal_20034"]
    assert first.keys() <= found(the_rules(), lines, ["n1"] * len(lines)).keys()


def test_critical_rules_alone_say_of_no_example_more_than_all_rules() -> None:
    examples = [rule.spec.examples for rule in the_rules().rules if rule.spec.examples]
    told = [text for one in examples for text in (*one.matches, *one.near_misses)]
    lines = [str(text).encode() for text in told]
    nodes = [f"n{number}" for number in range(len(lines))]
    first, all_rules = found(critical_first(the_rules()), lines, nodes), found(the_rules(), lines, nodes)
    assert len(first) > 100
    assert {match.event.text: match.rule for name, match in first.items() if name not in all_rules} == {}
