"""The bundled rules match their examples, and their classes are terms of the field."""

from __future__ import annotations

import pytest

from epicenter.rules.detect.signal import pci_address
from epicenter.rules.packs.ruleset import Rule
from epicenter.rules.packs.spec import is_named
from epicenter.stream.rule_tools.examples import AllPatterns, example_failures
from tests.support.logs import a_scanner, batch, iso, the_rules

RULES = [pytest.param(rule, id=rule.spec.id) for rule in the_rules().rules]


def test_every_example_matches_or_does_not_as_declared() -> None:
    """With Hyperscan; `make lint` also runs them with `re`, which takes ten times as long."""
    assert example_failures(the_rules(), AllPatterns(the_rules())) == []


@pytest.mark.parametrize("rule", RULES)
def test_the_waiting_time_is_a_field_of_the_pattern(rule: Rule) -> None:
    if rule.spec.waited and rule.spec.waited.field:
        assert any(rule.spec.waited.field in pattern.groupindex for pattern in (*rule.patterns, *rule.extract))


def test_no_next_step_is_the_rest_of_one_that_yaml_split_at_a_comma() -> None:
    steps = [(rule.spec.id, step) for rule in the_rules().all_rules for step in rule.spec.next_steps]
    assert [found for found in steps if found[1][0].islower()] == []


def test_no_edge_explains_a_class_by_itself() -> None:
    assert [edge for edge in the_rules().edges for name in edge.effect if is_named(name, edge.cause)] == []


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        ("NVRM: Xid (PCI:0008:06:00 GPU-I:02): 79, GPU has fallen off the bus.", "0008:06:00"),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", "0000:03:00"),
        ("NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.", "0000:9a:00"),
        ("NVRM: GPU at 00000000:05:00.0 has fallen off the bus.", "0000:05:00"),
        (
            "NVRM: The NVIDIA GPU 0000:9a:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands.",
            "0000:9a:00",
        ),
    ],
    ids=["mig", "very-old-driver", "short", "old-short", "long"],
)
def test_the_gpu_is_read_from_a_kernel_line(line: str, gpu: str) -> None:
    (found,) = a_scanner().scan(batch([f"{iso(0)} n1 kernel: {line}".encode()])).matches
    assert pci_address(found.fields["pci"]) == gpu
