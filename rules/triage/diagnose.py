"""The questions that a person would go through for a hang, a heartbeat time-out, a silent death or an exit code."""

from __future__ import annotations

import re
from typing import Final

from rules.triage.document import Check
from rules.triage.projection import expected_step
from rules.triage.story import Finding, Story

EXIT_CODES: Final = {
    "1": "an ordinary error: the program's own output says which",
    "124": "timeout(1) ended it: the stage took longer than it may",
    "125": "the container engine itself failed",
    "126": "the command could not be executed",
    "127": "the command was not found",
    "130": "SIGINT: Ctrl-C, or scancel with that signal",
    "132": "SIGILL: built for another processor",
    "134": "SIGABRT: an assertion, an abort() or the collective watchdog; a core file is likely",
    "135": "SIGBUS: /dev/shm full, or a mapped file that shrank",
    "136": "SIGFPE: an arithmetic error in native code",
    "137": "SIGKILL: the out-of-memory killer, a container limit, or somebody outside",
    "139": "SIGSEGV: a crash in native code; a core file is likely in the job's folder",
    "143": "SIGTERM: cancelled, preempted, or ended because another process failed",
}
_TASK = re.compile(r"task:(\d+)")
_DEATH_SIGNS: Final = (
    "oom-host",
    "host-oom-kill",
    "cgroup-oom-kill",
    "slurm-oom",
    "k8s-oomkilled",
    "unknown-death",
    "sigkill",
)
_BEFORE_DEATH: Final = ("traceback", "nccl", "sig", "xid", "oom", "python-exception", "segfault")
_REAL_DEATH: Final = "a real death: the earlier error is the cause"
_FALSE_ALARM: Final = "most likely a false alarm: nothing shows a death"
_NO_STREAM: Final = "the log does not tell"


def checks(story: Story, status: str, primary: str | None, now_ns: int | None, job_state: str) -> list[Check]:
    """The diagnosis that fits the job, question by question; exit codes always."""
    found: list[Check] = []
    if status == "hanging" or primary == "hang":
        found += hang_checks(story, now_ns)
    if heartbeat := story.findings.get("heartbeat-timeout"):
        found += heartbeat_checks(story, heartbeat)
    if status == "unknown-death" or primary == "unknown-death":
        found += death_checks(story, job_state)
    return [*found, *exit_code_checks(story)]


def hang_checks(story: Story, now_ns: int | None) -> list[Check]:
    """A hang is a gap in steps. A line that is still written says nothing against it."""
    steps, expected = story.steps, expected_step(story, now_ns)
    gap = f"the last step is {steps.last}, by now it should be {expected}" if expected is not None else _NO_STREAM
    behind = steps.ranks_behind
    if behind:
        who = f"rank {', '.join(map(str, behind[:8]))} had not finished the last step: look there first"
    elif len(steps.newest_by_rank) > 1:
        who = f"all {len(steps.newest_by_rank)} ranks that print steps stopped at the same one: a collective deadlock"
    else:
        who = "one stream only prints steps, so the log can't tell; take stacks of all ranks"
    errors = [finding.failure_class for finding in story.failures() if finding.severity in ("error", "critical")]
    return [
        Check("How far behind is the job?", gap),
        Check("Did all ranks stop together?", who),
        Check("Does anything fail before it?", ", ".join(errors) or "no: nothing in the log fails"),
        Check("Would heartbeats find it?", "no: in a hang every process is alive; leave heartbeat time-outs alone"),
    ]


def heartbeat_checks(story: Story, heartbeat: Finding) -> list[Check]:
    """Whether the accused tasks were really dead: often they were not."""
    accused = sorted({int(task) for signal in heartbeat.signals for task in _TASK.findall(signal.text)})
    alive = _spoke_of_itself(story, accused)
    earlier = _earlier_errors(story, heartbeat, accused)
    stepping = [task for task in accused if task in story.steps.newest_by_rank]
    real = bool(earlier) and not alive
    return [
        Check("Which tasks are accused?", ", ".join(map(str, accused)) or _NO_STREAM),
        Check(
            "Did an accused task report the error itself?",
            f"yes, {', '.join(map(str, alive))}: it was alive" if alive else "no line of theirs says so",
        ),
        Check("Did an accused task fail earlier?", "; ".join(earlier) or "no error of theirs comes before it"),
        Check(
            "Did an accused task still make steps?",
            f"yes, {', '.join(map(str, stepping))} printed steps" if stepping else "they print no steps of their own",
        ),
        Check("Real death or false alarm?", _REAL_DEATH if real else _FALSE_ALARM),
    ]


def death_checks(story: Story, job_state: str) -> list[Check]:
    """The ladder for a job that ended without a word."""
    signs = [name for name in _DEATH_SIGNS if name in story.findings]
    traces = ", ".join(signs) or "none in this log; ask the node's kernel log"
    last = story.tail[-1][:200] if story.tail else "the log is empty"
    end = f"yes, in the middle of a line: {last}" if story.is_cut_off else f"no, it ends with: {last}"
    return [
        Check("Is there a trace of an out-of-memory kill?", traces),
        Check("Is the log cut off?", end),
        Check("What does the scheduler say?", job_state or "not known here: pass --job-state (scontrol show job <id>)"),
    ]


def exit_code_checks(story: Story) -> list[Check]:
    """What each exit code that the log tells of means."""
    codes: dict[str, str] = {}
    for finding in story.findings.values():
        for signal in finding.signals:
            code = signal.fields.get("exit_code", "").lstrip("-")
            if code:
                where = f" on {signal.node}" if signal.node else ""
                codes.setdefault(_above_128(signal.fields["exit_code"]), where)
    return [
        Check(f"What does exit code {code}{where} mean?", EXIT_CODES[code])
        for code, where in sorted(codes.items())
        if code in EXIT_CODES
    ]


def _above_128(code: str) -> str:
    """Python says -9 where a shell says 137."""
    return str(128 + int(code[1:])) if code[:1] == "-" and code[1:].isdigit() else code


def _spoke_of_itself(story: Story, accused: list[int]) -> list[int]:
    fact, finding = story.facts.get("job.coordinator_reported"), story.findings.get("jax-coordination-error")
    spoke = set(finding.ranks if finding else ())
    if fact and fact.newest.event.rank is not None:
        spoke.add(fact.newest.event.rank)
    return [task for task in accused if task in spoke]


def _earlier_errors(story: Story, heartbeat: Finding, accused: list[int]) -> list[str]:
    reported_ns = heartbeat.first.event_time_ns
    line = heartbeat.first.position.offset if heartbeat.first.position else 0
    return [
        f"{signal.failure_class} on task {signal.rank} at line {signal.position.offset if signal.position else '?'}"
        for finding in story.failures()
        if finding.failure_class not in ("heartbeat-timeout", "jax-coordination-error")
        for signal in finding.signals[:1]
        if signal.rank in accused
        and (signal.event_time_ns, signal.position.offset if signal.position else 0) < (reported_ns, line)
    ]
