"""What JAX prints when a task is lost or XLA fails. Source: jaxlib 0.8; the worker catalogue."""

from __future__ import annotations

from epicenter.ingest.simulate.headers import absl, spread, utc_time
from epicenter.ingest.simulate.model import MS, US, Text, Timed

_THREAD = 1_570


def heartbeat_lost(task: int, silent_task: int, at_ns: int) -> list[Timed]:
    """One surviving task ends because `silent_task` sent no heartbeat; the leader, task 0, says so first."""
    status = "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    rest = [
        f"/job:jax_worker/replica:0/task:{silent_task}",
        "The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption,"
        " eviction) to debug further.",
    ]
    relayed = f"Use error polling to propagate the following error to all tasks: {status}"
    leader: list[Text] = (
        [absl("E", _THREAD + task, "coordination_service.cc:1407", relayed), *rest] if task == 0 else []
    )
    return spread(at_ns, leader) + polled(task, at_ns + 3 * MS, status, rest)


def polled(task: int, at_ns: int, status: str, rest: list[str]) -> list[Timed]:
    """A task learns an error of another one from the coordination service, and ends itself."""
    service = "tensorflow.CoordinationService"
    ending = [*rest, "", f"RPC: /{service}/PollForError [type.googleapis.com/{service}Error='']"]
    fatal = (
        "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates"
        " that another task died; see the other task logs for more details. Disable Python buffering, i.e. `python -u`,"
        f" to be sure to see all the previous output. absl::Status: {status}"
    )
    noticed = "Polled an error from coordination service (this can be an error from this or another task)."
    thread = _THREAD + task
    first: Timed = (at_ns, absl("E", thread, "coordination_service_agent.cc:332", noticed))
    return [first, *spread(at_ns + 185 * US, [absl("F", thread, "client.h:77", fatal), *ending])]


def terminated(task: int, at_ns: int) -> list[Timed]:
    """A task gets SIGTERM from outside."""

    def render(clock_ns: int) -> str:
        text = f"SIGTERM caught at {utc_time(clock_ns)}+00:00"
        return absl("W", _THREAD + task, "preemption_notifier.cc:89", text)(clock_ns)

    return [(at_ns, render)]


def leader_lost(task: int, at_ns: int) -> list[Timed]:
    """A task ends because the leader does not answer."""
    status = (
        "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted"
        " unexpectedly or this task is experiencing network issues. Check earlier logs from 1) this task, 2) the leader"
        " (usually slice 0 task 0), and 3) the network to debug further."
    )
    return polled(task, at_ns, status, [])


def xla_error(error: str) -> list[str]:
    """A JAX error with its traceback, as the main thread prints it."""
    return [
        "Traceback (most recent call last):",
        '  File "/deps/MaxText/train.py", line 612, in <module>',
        "    app.run(main)",
        '  File "/deps/MaxText/train.py", line 471, in train_loop',
        "    state, metrics = p_train_step(state, example_batch, nextrng)",
        *f"jax.errors.JaxRuntimeError: {error}".split("\n"),
    ]
