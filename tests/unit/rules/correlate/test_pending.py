"""Which errors a job may survive, and which ended their process."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.rules.cause.exceptions import is_uncaught
from epicenter.rules.correlate.pending import delays_a_start, is_of_a_node, is_soft
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.model.records import Position
from epicenter.rules.model.signals import Signal
from tests.support.logs import a_scanner, batch, iso, journald, the_rules, vector
from tests.support.signals import a_signal


@pytest.mark.parametrize(
    ("failure_class", "expected"),
    [
        pytest.param("oom-gpu", True, id="cuda"),
        pytest.param("cublas-error", True, id="cuda-library"),
        pytest.param("oom-host", True, id="memory"),
        pytest.param("shm-exhausted", True, id="shared-memory"),
        pytest.param("inference-overload", True, id="serving"),
        pytest.param("import-error", True, id="import"),
        pytest.param("subprocess-fail", True, id="subprocess"),
        pytest.param("cuda-illegal-access", False, id="ends-its-process"),
        pytest.param("cuda-device-assert", False, id="assert-ends-its-process"),
        pytest.param("slurm-exit-nonzero", False, id="exit-status"),
        pytest.param("elastic-worker-failed", False, id="worker-failed"),
        pytest.param("nccl-timeout", False, id="watchdog"),
        pytest.param("page-alloc-fail", False, id="latent"),
    ],
)
def test_an_error_of_a_program_is_soft_if_its_process_may_live_on(failure_class: str, expected: bool) -> None:
    assert is_soft(a_signal(failure_class, 5, job="A")) is expected
    assert not is_soft(a_signal(failure_class, 5, job="A", severity="critical"))
    assert not is_soft(a_signal(failure_class, 5, job="A", source="scheduler"))


WARNED = "2026-03-02 09:00:05,113 WARNING reader.py:40 -- read timed out"


@pytest.mark.parametrize(
    ("failure_class", "text", "expected"),
    [
        pytest.param("storage-timeout", WARNED, True, id="warning"),
        pytest.param("storage-timeout", WARNED.replace("WARNING", "ERROR"), False, id="error"),
        pytest.param("ray-worker-died", WARNED, False, id="warning-of-an-ended-process"),
        pytest.param("nccl-error", "connect failed, attempt 1/3", True, id="first-of-three-attempts"),
        pytest.param("nccl-error", "connect failed, attempt 3/3", False, id="last-of-three-attempts"),
        pytest.param("nccl-error", "connect failed (retry 2 of 5)", True, id="retry-with-words"),
        pytest.param("nccl-error", "connect failed, Retry #5 of 5", False, id="last-retry-with-words"),
        pytest.param("nccl-error", "connect failed, retrying in 5 s", True, id="retrying"),
        pytest.param("nccl-error", "connect failed, will retry", True, id="will-retry"),
        pytest.param("nccl-error", "connect failed, no retries left", False, id="no-retry"),
        pytest.param("nccl-error", "entry 1/3 failed", False, id="another-fraction"),
        pytest.param("xid-79", "NVRM: Xid (PCI:0000:9a:00): 79", True, id="kernel-s-text-about-a-gpu"),
        pytest.param("mce-uncorrected", "mce: [Hardware Error]", True, id="kernel-s-text-about-a-machine"),
        pytest.param("segfault", "python3[7]: segfault at 0", True, id="kernel-s-text-about-a-process"),
        pytest.param("unknown-death", "train.sh: line 3: 41 Killed  tar xf data.tar", True, id="killed"),
    ],
)
def test_a_severe_error_in_a_job_s_log_is_soft_if_its_program_continues_or_only_a_kernel_finds_it(
    failure_class: str, text: str, expected: bool
) -> None:
    def is_soft_in(job: str, position: Position | None = Position("n1.log", 1)) -> bool:  # noqa: B008
        return is_soft(a_signal(failure_class, 5, "n1", job, text=text, severity="critical", position=position))

    assert is_soft_in("A") is expected
    assert not is_soft_in("")
    assert not is_soft_in("A", position=None)


@pytest.mark.parametrize(
    ("failure_class", "expected"),
    [
        pytest.param("disk-full", True, id="storage"),
        pytest.param("fs-readonly", True, id="file-system"),
        pytest.param("auth-expired", False, id="environment"),
    ],
)
def test_an_error_that_lasts_is_soft_only_if_it_is_one_of_storage(failure_class: str, expected: bool) -> None:
    assert is_soft(a_signal(failure_class, 5, "n1", "A")) is expected


PULL = 'Failed to pull image "registry.local/llm:1": rpc error: code = '


@pytest.mark.parametrize(
    ("failure_class", "text", "expected"),
    [
        pytest.param("k8s-image-pull", f"{PULL}Unavailable desc = connection refused", True, id="registry-is-away"),
        pytest.param("k8s-image-pull", f"{PULL}Unknown desc = toomanyrequests: rate limit", True, id="rate-limit"),
        pytest.param("k8s-image-pull", f"{PULL}NotFound desc = manifest unknown", False, id="no-such-image"),
        pytest.param("k8s-image-pull", f"{PULL}Unknown desc = 401 Unauthorized", False, id="credentials"),
        pytest.param("k8s-image-pull", f"{PULL}Unknown desc = pull access denied", False, id="denied"),
        pytest.param("k8s-image-pull", "Error: InvalidImageName", False, id="invalid-name"),
        pytest.param("k8s-image-pull", "Error: ErrImageNeverPull", False, id="never-pulled"),
        pytest.param("k8s-unschedulable", "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.", True, id="full"),
        pytest.param("container-runtime-fail", "Failed to create pod sandbox", True, id="sandbox"),
        pytest.param("storage-timeout", "Unable to attach or mount volumes: timed out", True, id="volume"),
        pytest.param("k8s-evicted", "The node was low on resource: memory.", False, id="eviction"),
        pytest.param("k8s-node-notready", "Node is not ready", False, id="node"),
    ],
)
def test_what_kubernetes_tries_again_before_a_pod_starts_is_soft(failure_class: str, text: str, expected: bool) -> None:
    def a_delay(source: str) -> Signal:
        return a_signal(failure_class, 5, "n1", "A", text=text, source=source)

    assert (is_soft(a_delay("kubernetes")), delays_a_start(a_delay("kubernetes"))) == (expected, expected)
    assert not delays_a_start(a_delay("worker"))


def signals_in(*values: bytes) -> list[Signal]:
    return [signal_of(the_rules(), match) for match in a_scanner().scan(batch(values)).matches]


LOST_CARRIER = "ibp28s0: Lost carrier"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(f"{iso(5)} n1 systemd-networkd[811]: {LOST_CARRIER}".encode(), True, id="syslog"),
        pytest.param(
            journald("n1", 5, LOST_CARRIER, "stdout").replace(b'"python"', b'"systemd-networkd"'), True, id="journal"
        ),
        pytest.param(vector("n1", 5, "mlx5_4 port 1 down since 2026-03-02T09:00:05Z"), True, id="pod-without-a-job"),
        pytest.param(vector("n1", 5, "mlx5_4 port 1 down since 2026-03-02T09:00:05Z", "A"), False, id="pod-of-a-job"),
    ],
)
def test_a_link_that_a_program_of_the_node_reports_lost_is_of_the_node(value: bytes, expected: bool) -> None:
    (signal,) = signals_in(value)
    assert (signal.failure_class, is_of_a_node(signal), is_soft(signal)) == ("ib-link-down", expected, expected)


@pytest.mark.parametrize(
    ("failure_class", "more", "expected"),
    [
        pytest.param("xid-13", {"source": "kernel"}, True, id="kernel"),
        pytest.param("nic-link-down", {"source": "any", "job": "A"}, False, id="job"),
        pytest.param("oom-gpu", {"source": "any"}, False, id="another-family"),
    ],
)
def test_what_the_kernel_reports_is_of_the_node(failure_class: str, more: dict[str, Any], expected: bool) -> None:
    assert is_of_a_node(a_signal(failure_class, 5, **more)) is expected


def traceback(*frames: str, last: str = "ValueError: token 70000 is out of range", rank: str = "") -> Signal:
    """The signal of a traceback that a rank of job A prints, with code below each frame."""
    code = [f"  File {frame}\n    step(batch)" for frame in frames]
    lines = "\n".join(["Traceback (most recent call last):", *code, last, "shutting down"]).split("\n")
    (signal,) = signals_in(*(vector("n1", 5 + n / 1000, f"{rank}{line}", "A") for n, line in enumerate(lines)))
    return signal


MODULE, RUNPY = '"/w/train.py", line 90, in <module>', '"<frozen runpy>", line 198, in _run_module_as_main'
MAIN, LOADER = '"/w/train.py", line 60, in main', '"/w/data.py", line 17, in fetch'
ANSWER, RELATIVE = '"<string>", line 4, in <module>', '"solution.py", line 4, in <module>'
ANSWER_FILE, IN_RAY = (f'"/tmp/{path}.py", line 4, in <module>' for path in ("run_7/main", "ray/session_1/train"))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
MISSING = "ModuleNotFoundError: No module named 'fused_kernels'"


@pytest.mark.parametrize(
    ("signal", "failure_class", "expected"),
    [
        pytest.param(traceback(MODULE, MAIN, LOADER), "python-exception", True, id="module"),
        pytest.param(traceback(RUNPY, MAIN), "python-exception", True, id="runpy"),
        pytest.param(traceback(LOADER), "python-exception", False, id="function"),
        pytest.param(traceback(MAIN, MODULE), "python-exception", False, id="module-that-a-function-imports"),
        pytest.param(traceback(LOADER, rank="[rank3]: "), "python-exception", True, id="function-of-a-rank-that-ended"),
        pytest.param(traceback(LOADER, rank=" 3: [rank3]: "), "python-exception", True, id="behind-a-label"),
        pytest.param(traceback(LOADER, last=OOM, rank="[rank3]: "), "oom-gpu", True, id="another-class-of-a-rank"),
        pytest.param(traceback(ANSWER), "python-exception", False, id="code-of-an-answer"),
        pytest.param(traceback(ANSWER_FILE), "python-exception", False, id="file-of-an-answer"),
        pytest.param(traceback(IN_RAY), "python-exception", True, id="program-that-ray-unpacks"),
        pytest.param(traceback(RELATIVE, MAIN), "python-exception", False, id="relative-path"),
        pytest.param(traceback(MODULE, MAIN, last=OOM), "oom-gpu", True, id="another-class"),
        pytest.param(traceback(LOADER, last=OOM), "oom-gpu", False, id="another-class-in-a-function"),
        pytest.param(traceback(MODULE, last=MISSING), "import-error", False, id="import-that-its-module-may-catch"),
        pytest.param(traceback(MODULE, LOADER, last=MISSING), "import-error", True, id="import-of-a-module"),
    ],
)
def test_an_exception_is_uncaught_if_its_traceback_begins_at_the_module(
    signal: Signal, failure_class: str, expected: bool
) -> None:
    assert (signal.failure_class, is_uncaught(signal)) == (failure_class, expected)


def test_an_exception_without_its_traceback_may_be_caught() -> None:
    (signal,) = signals_in(vector("n1", 5, "ValueError: token 70000 is out of range", "A"))
    assert not is_uncaught(signal)
