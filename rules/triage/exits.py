"""What exit codes mean, and which node ended first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from epicenter.rules.triage.document import Check
from epicenter.rules.triage.story import Finding, NodeExit, Story

EXIT_CODES: Final = {
    "1": "an ordinary error: see the program's output",
    "124": "timeout(1) ended it: the stage exceeded its time limit",
    "125": "the container engine itself failed",
    "126": "the command could not be executed",
    "127": "the command was not found",
    "130": "SIGINT: Ctrl-C, or scancel with that signal",
    "132": "SIGILL: built for another processor",
    "134": "SIGABRT: an assertion, an abort() or the collective watchdog; a core file is likely",
    "135": "SIGBUS: /dev/shm full, or a mapped file that shrank",
    "136": "SIGFPE: an arithmetic error in native code",
    "137": "SIGKILL: the out-of-memory killer, a container limit, or a kill from outside",
    "139": "SIGSEGV: a crash in native code; a core file is likely in the job's folder",
    "143": "SIGTERM: cancelled, preempted, or ended because another process failed",
    "255": "ssh lost its connection, or the program returned -1",
}
_REGULAR: Final = ("0", "143")
_SHOWN: Final = 8


def exit_checks(story: Story, failures: Sequence[Finding]) -> list[Check]:
    """How each node ended, and the meaning of each exit code in the log."""
    return [*_node_checks(story, failures), *_code_checks(story, failures)]


def _code_checks(story: Story, failures: Sequence[Finding]) -> list[Check]:
    nodes_by_code: dict[str, set[str]] = {}
    for code, node in _codes(story, failures):
        nodes_by_code.setdefault(_above_128(code), set()).update({node} if node else ())
    return [
        Check(f"What does exit code {code}{_where(nodes)} mean?", EXIT_CODES[code])
        for code, nodes in sorted(nodes_by_code.items())
        if code in EXIT_CODES
    ]


def _codes(story: Story, failures: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    yield story.fact("job.status", "exit_code"), ""
    yield story.fact("job.stage", "exit_code"), ""
    yield from ((exit_.code, exit_.node) for exit_ in story.node_exits.values())
    for finding in failures:
        for signal in finding.signals:
            yield signal.fields.get("exit_code", ""), signal.node if signal.fields.get("node") else ""


def _node_checks(story: Story, failures: Sequence[Finding]) -> list[Check]:
    exits = list(story.node_exits.values())
    failed = [exit_ for exit_ in exits if exit_.code not in _REGULAR]
    if not exits:
        return []
    if not failed and all(exit_.code == "143" for exit_ in exits):
        return [Check("Did a node end by itself?", f"no: all {len(exits)} nodes ended with 143, a clean cancellation")]
    if not failed:
        return []
    first = failed[0]
    checks = [Check("Which node ended first?", f"{first.node} with {first.code}, at line {first.line}{_rest(exits)}")]
    return [*checks, *(Check(f"What did {exit_.node} print?", _printed(failures, exit_)) for exit_ in failed[:_SHOWN])]


def _rest(exits: list[NodeExit]) -> str:
    ended = sum(exit_.code == "143" for exit_ in exits)
    return f"; {ended} {'node' if ended == 1 else 'nodes'} ended with 143" if ended else ""


def _printed(failures: Sequence[Finding], exit_: NodeExit) -> str:
    """The failures in the lines of the node's task."""
    lines = [
        f"{finding.failure_class} at line {signal.position.offset if signal.position else '?'}"
        for finding in failures
        if finding.failure_class != "node-fail" and (signal := finding.by_rank.get(exit_.task)) is not None
    ]
    return ", ".join(lines[:_SHOWN]) or "nothing that a rule matches: read its task's lines before that line"


def _where(nodes: set[str]) -> str:
    names = sorted(nodes)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" on {', '.join(names[:_SHOWN])}{more}" if names else ""


def _above_128(code: str) -> str:
    """Python reports -9 for a shell's 137."""
    return str(128 + int(code[1:])) if code[:1] == "-" and code[1:].isdigit() else code
