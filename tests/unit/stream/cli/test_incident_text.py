"""Incidents on a terminal of 80 and of 160 columns: golden screens, nothing broken within a word, nothing raw."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from epicenter.rules.model.incident import ChainLink, Command, Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.cli.text.incident_list import incident_rows, piped_line
from epicenter.stream.cli.text.layout import Line, print_hanging
from epicenter.stream.cli.text.summary import incident_summary
from tests.unit.sinks.clickhouse.test_rows import an_incident

GOLDEN = Path(__file__).parent / "golden"
AT = "2026-03-02T09:00:{:02d}.500000000Z"
DRAIN = Command("Drain n1", "slurm", f"scontrol update nodename=n1 state=drain reason='{'GPU off the bus ' * 6}'")


def link(second: int, node: str, failure_class: str, role: str, text: str) -> ChainLink:
    return ChainLink(AT.format(second), AT.format(second), node, None, failure_class, role, text)


def a_long_incident() -> Incident:
    """Every section full: repeats, a long command, more reasons, steps and classes than fit."""
    chain = (
        link(1, "n1", "xid-79", "root", "NVRM: Xid (PCI:0000:3b:00): 79, pid=48213, GPU has fallen off the bus. " * 3),
        *(link(9, f"n{number}", "nccl-timeout", "cascade", f"rank {number} timed out") for number in range(2, 17)),
        *(link(20 + number, "n2", f"class-{number}", "teardown", f"line {number}") for number in range(6)),
    )
    incident = an_incident()
    reasons = tuple(f"reason {number} has words that fill more than one row of a narrow screen" for number in range(6))
    return replace(
        incident,
        root_cause=replace(incident.root_cause, failure_class="xid-79", node="n1", confidence=0.95, reasons=reasons),
        chain=chain,
        commands=(DRAIN,),
        next_steps=tuple(f"Step {number}: run `nvidia-smi --query --id={number}` and compare" for number in range(6)),
    )


def a_hostile_incident() -> Incident:
    """Escapes, markup, wide characters, and little else."""
    hostile = "\x1b[2J[bold]x[/] \u202e 故障故障故障 " * 6
    guess = replace(an_incident().root_cause, confidence=0.4, reasons=(hostile,))
    return replace(an_incident(), title=hostile, root_cause=guess, chain=(link(1, hostile, "x", "root", hostile),))


INCIDENTS = {"short": an_incident(), "long": a_long_incident(), "hostile": a_hostile_incident()}


def screen(lines: object, columns: int) -> str:
    shown = io.StringIO()
    console = Console(
        file=shown, force_terminal=True, width=columns, no_color=True, highlight=False, emoji=False, soft_wrap=True
    )
    console._color_system = None
    print_hanging(console, lines)  # type: ignore[arg-type]
    return shown.getvalue()


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", INCIDENTS)
def test_summary_is_the_golden_screen(name: str, columns: int, request: pytest.FixtureRequest) -> None:
    shown, golden = screen(incident_summary(INCIDENTS[name]), columns), GOLDEN / f"{name}-{columns}.txt"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown, "utf-8")
    assert shown == golden.read_text("utf-8")
    assert len(shown.splitlines()) <= 40
    assert all(character.isprintable() for character in shown.replace("\n", ""))


def test_only_a_command_runs_over_the_right_edge() -> None:
    wide = [row for row in screen(incident_summary(a_long_incident()), 80).splitlines() if cell_len(row) > 80]
    assert [row.strip() for row in wide] == [DRAIN.text]


def test_repeats_collapse_with_the_nodes_they_are_on() -> None:
    assert "(and 14 more like it on n3 … n16)" in screen(incident_summary(a_long_incident()), 160)


def test_a_pipe_gets_whole_lines() -> None:
    shown = io.StringIO()
    print_hanging(Console(file=shown, soft_wrap=True), [Line("  ", "word " * 60)])
    assert shown.getvalue().count("\n") == 1


def test_list_has_a_header_age_reach_and_who_acknowledged() -> None:
    incident = replace(an_incident(), first_seen=AT.format(0))
    now_ns = (1_772_442_000 + 3 * 3600) * NS_PER_S
    shown = screen(incident_rows([incident], {incident.incident_id: "acknowledged by ada"}, now_ns), 160)
    head, *rows = shown.splitlines()
    assert head.split()[:4] == ["ID", "SEVERITY", "STATUS", "BEGAN"]
    assert "acknowledged by ada" in " ".join(rows) and " ago " in rows[0] and incident.incident_id[:8] in rows[0]


def test_piped_line_ends_with_what_operators_did() -> None:
    assert piped_line(an_incident(), "silenced by bob").endswith("  silenced by bob")
    assert piped_line(an_incident(), "").endswith(")")
