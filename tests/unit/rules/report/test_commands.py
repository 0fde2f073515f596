"""Commands of an incident, and the commands in its next steps, filled in and safe to paste."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from epicenter.rules.correlate.state import IncidentState
from epicenter.rules.model.incident import Command
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.steps import step_faults
from epicenter.rules.report.commands import MAX_JOBS, commands_of
from epicenter.rules.report.steps import filled_steps
from tests.support.logs import the_rules
from tests.support.signals import a_signal

HOSTILE = (
    "--all",
    "ALL",
    "a;reboot",
    "$(reboot)",
    "a`reboot`",
    "a'b",
    'a"b',
    "a\nb",
    "a b",
    "-rf",
    "a,b",
    "n[0-9]",
    "\x1b[2J",
    "a\u202eb",
    "",
)


def a_state(signal: Signal, *jobs: str, status: str = "open") -> IncidentState:
    state = IncidentState("5f2b8c1d9e3a4f60", "default", status)
    state.add(signal, set(jobs))
    return state


def texts(signal: Signal, action: str, *jobs: str, verdict: str = "", status: str = "open") -> list[str]:
    return [command.text for command in commands_of(a_state(signal, *jobs, status=status), signal, action, verdict)]


def test_culprit_node_of_a_slurm_job_is_drained() -> None:
    signal = a_signal("xid-79", 0, "node0003", "7801")
    drain, account = commands_of(a_state(signal, "7801"), signal, "drain-node", "")
    assert drain == Command(
        "Drain node0003", "slurm", 'scontrol update nodename=node0003 state=drain reason="epicenter: xid-79"'
    )
    assert account.text == "sacct -j 7801 -o JobID,State,ExitCode,Reason,NodeList"


def test_culprit_node_of_a_pod_is_cordoned_and_no_slurm_job_invented() -> None:
    signal = a_signal("xid-79", 0, "node0003", "7801", fields={"pod": "llama-worker-3"})
    assert texts(signal, "drain-node", "7801") == [
        "kubectl cordon node0003",
        "kubectl get events --all-namespaces --field-selector involvedObject.name=llama-worker-3",
    ]


def test_node_commands_come_for_both_schedulers_where_the_logs_name_none() -> None:
    signal = a_signal("xid-79", 0, "node0003")
    found = commands_of(a_state(signal), signal, "replace-hardware", "")
    assert [command.scheduler for command in found] == ["slurm", "kubernetes"]


@pytest.mark.parametrize("action", ["debug-app", "change-config", "fix-memory", "none", "investigate-network"])
def test_node_stays_in_service_when_the_action_is_not_about_it(action: str) -> None:
    assert not any(
        "node0003" in text for text in texts(a_signal("python-exception", 0, "node0003", "7801"), action, "7801")
    )


def test_unknown_node_gets_no_command() -> None:
    assert texts(a_signal("xid-79", 0, ""), "drain-node") == []


def test_cleared_failure_takes_no_node_out_of_service() -> None:
    signal = a_signal("xid-79", 0, "node0003")
    state = a_state(signal)
    state.clear(["xid-79"], a_signal("job-fact", 1, "node0003"))
    assert commands_of(state, signal, "drain-node", "") == ()


def test_job_is_cancelled_only_while_it_hangs() -> None:
    signal = a_signal("hang", 0, "", "7801", fields={"verdict": "hung"})
    assert texts(signal, "none", "7801", verdict="hung")[0] == "scancel 7801"
    for verdict, status in (("hung", "resolved"), ("straggler", "open"), ("", "open")):
        assert "scancel 7801" not in texts(signal, "none", "7801", verdict=verdict, status=status)


def test_job_without_a_slurm_id_gets_no_slurm_command() -> None:
    assert texts(a_signal("hang", 0, "", "train-llama"), "none", "train-llama", verdict="hung") == []


def test_jobs_of_a_command_are_bounded() -> None:
    jobs = [str(7800 + number) for number in range(99)]
    signal = a_signal("nfs-server-not-responding", 0, "", jobs[0])
    assert texts(signal, "fix-storage", *jobs)[0].split()[2].count(",") == MAX_JOBS - 1


@given(st.text(max_size=40) | st.sampled_from(HOSTILE), st.text(max_size=20), st.text(max_size=40))
@example("ALL", "7801\nreboot", 'x"; reboot; "')
def test_no_name_breaks_out_of_a_command(node: str, job: str, failure_class: str) -> None:
    signal = a_signal(failure_class, 0, node, job, fields={"pod": node, "verdict": "hung"})
    for action in ("drain-node", "investigate-node"):
        for text in texts(signal, action, job, verdict="hung"):
            assert text.isprintable() and text.isascii()
            assert not set(text) & set(";&|$`\\<>()*?[]{}#!~'") and text.count('"') in (0, 2)
            assert not any(word in text.split() for word in (*HOSTILE[:-1], "all"))


STEP = "Read `smartctl -a /dev/{device} {path}` on `{node}`; {device} outside of a command stays."


def test_steps_name_the_node_job_gpu_and_fields_of_this_failure() -> None:
    signal = structs.replace(
        a_signal("xid-79", 0, "node0003", "7801"), gpu="0000:9a:00", fields={"path": "/mnt/my data"}
    )
    steps = filled_steps(("`ssh {node} nvidia-smi -q -i {gpu}`", "`sacct -j {job}`", "`ls {path}`"), signal)
    assert steps == ("`ssh node0003 nvidia-smi -q -i 0000:9a:00.0`", "`sacct -j 7801`", "`ls '/mnt/my data'`")


def test_a_log_s_name_is_no_job_in_a_step() -> None:
    assert filled_steps(("`sacct -j {job}`",), a_signal("disk-full", 0, "n1", "log:train")) == ("`sacct -j JOB`",)


def test_unknown_values_stay_in_capitals() -> None:
    assert filled_steps((STEP,), a_signal("disk-full", 0, "")) == (
        "Read `smartctl -a /dev/DEVICE PATH` on `NODE`; {device} outside of a command stays.",
    )


@given(st.text(max_size=60) | st.sampled_from(HOSTILE))
@example("'; reboot; '")
def test_no_field_breaks_out_of_a_step(value: str) -> None:
    signal = a_signal("disk-full", 0, value, fields={"path": value, "device": value})
    (step,) = filled_steps((STEP,), signal)
    _, command, _, node, _ = step.split("`")
    words = shlex.split(command)
    assert words[:2] == ["smartctl", "-a"] and len(words) == 4
    assert words[3] in (value, "PATH") and len(shlex.split(node)) == 1


@pytest.mark.parametrize("value", HOSTILE)
def test_shell_reads_a_filled_field_as_one_argument(value: str) -> None:
    (step,) = filled_steps(("`printf '%s|' {path}`",), a_signal("disk-full", 0, "n1", fields={"path": value}))
    shown = subprocess.run(["sh", "-c", step.strip("`")], capture_output=True, text=True, check=True).stdout
    assert shown in (f"{value}|", "PATH|")


@pytest.mark.parametrize("command", ['"{node}"', "'{node}'", "\\{node}", "${node}", 'ssh n1 "ls {node}'])
def test_placeholder_within_quotes_is_refused(command: str) -> None:
    spec = the_rules().by_id["nvidia.xid_79"].spec
    (fault,) = step_faults(spec, (f"Run `{command}`.",))
    assert "write it bare" in fault


def test_unknown_placeholder_is_refused_with_what_to_write() -> None:
    spec = the_rules().by_id["nvidia.xid_79"].spec
    (fault,) = step_faults(spec, ("Run `nvidia-smi -i {card}`.",))
    assert fault.startswith("{card}: unknown in the command 'nvidia-smi -i {card}': write one of ") and "gpu" in fault


def test_catalogue_has_no_placeholder_that_stays_empty() -> None:
    assert [fault for rule in the_rules().all_rules for fault in step_faults(rule.spec, rule.spec.next_steps)] == []
