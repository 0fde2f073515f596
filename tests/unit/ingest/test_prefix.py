"""Prefixes are removed, however they nest."""

from __future__ import annotations

from typing import Any

import pytest

from epicenter.ingest.parse.prefix import Peeled, peel

BODY = "Traceback (most recent call last):"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, GPU has fallen off the bus."


def facts(peeled: Peeled) -> dict[str, Any]:
    """The facts in the prefixes, without those that are missing."""
    names = ("host", "rank", "task", "is_kernel", "speaker", "pod", "container")
    found = {name: getattr(peeled, name) for name in names}
    return {name: value for name, value in found.items() if value not in ("", None) and value is not False}


LAUNCHERS = [
    pytest.param("", {}, id="none"),
    pytest.param("[rank12]: ", {"rank": 12, "speaker": "rank12"}, id="excepthook"),
    pytest.param("[rank12]:", {"rank": 12, "speaker": "rank12"}, id="c10"),
    pytest.param("[rank 12] ", {"rank": 12, "speaker": "rank 12"}, id="site-s-rank"),
    pytest.param(
        "[rank 12] (EngineCore_DP0 pid=4120) ",
        {"rank": 12, "speaker": "rank 12 EngineCore_DP0 pid=4120"},
        id="site-s-and-vllm",
    ),
    pytest.param("[rank 12] [rank12]: ", {"rank": 12, "speaker": "rank 12 rank12"}, id="site-s-and-excepthook"),
    pytest.param("[rank12]: [rank12]: ", {"rank": 12, "speaker": "rank12"}, id="doubled"),
    pytest.param(" 3: ", {"task": 3, "speaker": "3"}, id="srun-label"),
    pytest.param("[2026-03-02 09:00:05] 3: ", {"task": 3, "speaker": "3"}, id="ts-in-brackets-and-srun-label"),
    pytest.param("P1  12: ", {"task": 12, "speaker": "12"}, id="srun-label-of-a-heterogeneous-job"),
    pytest.param("[0]:", {"rank": 0, "speaker": "0"}, id="bare-rank"),
    pytest.param("[1,7]<stderr>: ", {"rank": 7, "speaker": "1,7 stderr"}, id="open-mpi"),
    pytest.param("[7]<stdout>:", {"rank": 7, "speaker": "7 stdout"}, id="horovod"),
    pytest.param(
        "Mon Mar  2 09:00:05 2026[1,7]<stderr>:", {"rank": 7, "speaker": "1,7 stderr"}, id="open-mpi-timestamp"
    ),
    pytest.param(
        "[prterun-n1-4242@1,7]<stdout>: ", {"rank": 7, "speaker": "prterun-n1-4242@1,7 stdout"}, id="open-mpi-5"
    ),
    pytest.param(
        "[prterun-n1-4242@1,7][n2:4250]<stderr>: ",
        {"rank": 7, "host": "n2", "speaker": "prterun-n1-4242@1,7 stderr"},
        id="open-mpi-5-detailed",
    ),
    pytest.param("[default5]:", {"speaker": "default5"}, id="torchrun-tee"),
    pytest.param("[train-0] ", {"speaker": "train-0"}, id="pod-in-brackets"),
    pytest.param("stderr: ", {"speaker": "stderr"}, id="report-of-a-subprocess"),
    pytest.param("> ", {}, id="quoted"),
    pytest.param("> > [rank12]: ", {"rank": 12, "speaker": "rank12"}, id="quoted-twice"),
    pytest.param("[trainer3]: ", {"speaker": "trainer3"}, id="torchrun-role"),
    pytest.param("(pid=4123) ", {"speaker": "pid=4123"}, id="ray-task"),
    pytest.param("(train_fn pid=4123) ", {"speaker": "train_fn pid=4123"}, id="ray-function"),
    pytest.param(
        "(RayTrainWorker pid=4123, ip=10.1.0.9) ", {"speaker": "RayTrainWorker pid=4123, ip=10.1.0.9"}, id="ray-actor"
    ),
    pytest.param(
        "(MapWorker(MapBatches(Embed)) pid=41) ", {"speaker": "MapWorker(MapBatches(Embed)) pid=41"}, id="ray-data"
    ),
    pytest.param(
        "(PolicyWorker[rank=8] pid=41) ",
        {"rank": 8, "speaker": "PolicyWorker[rank=8] pid=41"},
        id="ray-actor-with-rank",
    ),
    pytest.param("(worker1, rank=1, pid=41) ", {"rank": 1, "speaker": "worker1, rank=1, pid=41"}, id="skypilot"),
    pytest.param("(raylet, ip=10.1.0.9) ", {"speaker": "raylet, ip=10.1.0.9"}, id="raylet"),
    pytest.param("(autoscaler +1m2s) ", {"speaker": "autoscaler +1m2s"}, id="ray-autoscaler"),
    pytest.param(
        "(EngineCore_DP0 pid=4) (Worker pid=23, ip=10.1.0.9) ",
        {"speaker": "EngineCore_DP0 pid=4 Worker pid=23, ip=10.1.0.9"},
        id="vllm-around-ray",
    ),
    pytest.param("\x1b[36m(pid=4)\x1b[0m ", {"speaker": "pid=4"}, id="coloured"),
    pytest.param("[Node 3 @ gpu-12] ", {"host": "gpu-12", "speaker": "Node 3 @ gpu-12"}, id="maxtext-slurm"),
    pytest.param("10.1.0.7: ", {"host": "10.1.0.7", "speaker": "10.1.0.7"}, id="deepspeed-address"),
    pytest.param("node07: ", {"host": "node07", "speaker": "node07"}, id="pdsh-host"),
    pytest.param("localhost: ", {"speaker": "localhost"}, id="deepspeed-localhost"),
    pytest.param("[node07:3] ", {"host": "node07", "speaker": "node07:3"}, id="host-and-number"),
    pytest.param(
        "gpu-a1.site: [rank3]: ", {"host": "gpu-a1.site", "rank": 3, "speaker": "gpu-a1.site rank3"}, id="host-rank"
    ),
    pytest.param("    [rank3]: ", {"rank": 3, "speaker": "rank3"}, id="indented"),
    pytest.param(
        "(raylet) [1,7]<stdout>: [rank2]: ", {"rank": 7, "speaker": "raylet 1,7 stdout rank2"}, id="three-deep"
    ),
]

CONTAINERS = [
    pytest.param("2026-03-02T09:00:05.1Z stderr F ", {"speaker": "stderr"}, id="cri"),
    pytest.param("2026-03-02T09:00:05.1Z stdout P ", {"speaker": "stdout"}, id="cri-part"),
    pytest.param(
        "[pod/train-0/pytorch] ",
        {"pod": "train-0", "container": "pytorch", "speaker": "pod/train-0/pytorch"},
        id="kubectl-prefix",
    ),
    pytest.param("2026-03-02T09:00:05.123456789Z ", {}, id="kubectl-timestamps"),
    pytest.param("2026-03-02T09:00:05.1234567Z ", {}, id="github-actions"),
    pytest.param("worker-1  | ", {"speaker": "worker-1"}, id="docker-compose"),
    pytest.param(
        "train.3.kfx5o2z3lcu1b4iv@n7    | ",
        {"host": "n7", "speaker": "train.3.kfx5o2z3lcu1b4iv@n7"},
        id="docker-service",
    ),
    pytest.param(
        "2026-03-02T09:00:05Z stdout F  3: [default5]:[rank12]: ",
        {"rank": 12, "task": 3, "speaker": "stdout 3 default5 rank12"},
        id="four-deep",
    ),
]

SYSLOG = [
    pytest.param("Mar  2 09:00:05 n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="rfc-3164"),
    pytest.param(
        "<30>Mar  2 09:00:05 n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="with-priority"
    ),
    pytest.param(
        "Mar 02 09:00:05.123456 n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="journal-precise"
    ),
    pytest.param(
        "Mon 2026-03-02 09:00:05 UTC n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="journal-full"
    ),
    pytest.param(
        "2026-03-02T09:00:05+0000 n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="journal-iso"
    ),
    pytest.param("1772442005.123456 n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="journal-unix"),
    pytest.param(
        "[ 8005.250000] n1 python[412]: ", {"host": "n1", "speaker": "n1 python[412]"}, id="journal-monotonic"
    ),
    pytest.param("Mar  2 09:00:05 python[412]: ", {"speaker": "python[412]"}, id="without-host"),
    pytest.param(
        "<30>1 2026-03-02T09:00:05Z n1 python 412 - - ", {"host": "n1", "speaker": "n1 python 412"}, id="rfc-5424"
    ),
    pytest.param(
        "2026-03-02T09:00:05Z n1 python 412 - - ", {"host": "n1", "speaker": "n1 python 412"}, id="rfc-5424-bare"
    ),
    pytest.param(
        '<30>1 2026-03-02T09:00:05Z n1 python 412 ID7 [meta@1 seq="9" x="a\\"]b"][o@2 y="1"] ',
        {"host": "n1", "speaker": "n1 python 412"},
        id="rfc-5424-structured",
    ),
    pytest.param("[2026-03-02T09:00:05.123] ", {}, id="slurm-daemon"),
    pytest.param("Mar  2 09:00:05 ", {}, id="moreutils-ts"),
]

KERNEL = [
    pytest.param("[ 8005.250000] ", {}, id="dmesg"),
    pytest.param("[12345678.250000] ", {}, id="dmesg-long-up"),
    pytest.param("[ 8005.250000][ T1234] ", {"speaker": "T1234"}, id="with-task"),
    pytest.param("[ 8005.250000][    C3] ", {"speaker": "C3"}, id="with-cpu"),
    pytest.param("[Mon Mar  2 09:00:05 2026] ", {}, id="dmesg-ctime"),
    pytest.param("2026-03-02T09:00:05,123456+00:00 ", {}, id="dmesg-iso"),
    pytest.param("kern  :err   : [ 8005.250000] ", {}, id="dmesg-decoded"),
    pytest.param("kern  :err   : 2026-03-02T09:00:05,123456+00:00 ", {}, id="dmesg-decoded-iso"),
    pytest.param("[  +0.000123] ", {}, id="dmesg-human"),
    pytest.param("[Mar 2 09:00] ", {}, id="dmesg-human-minute"),
    pytest.param("[ 8005.250000 <    0.000123>] ", {}, id="dmesg-delta"),
    pytest.param("\x1b[32m[ 8005.250000] \x1b[0m\x1b[33m", {}, id="dmesg-coloured"),
    pytest.param("<4>[ 8005.250000] ", {}, id="dmesg-raw-or-pstore"),
    pytest.param("<3>", {}, id="without-printk-time"),
    pytest.param("4,1842,8005250000,-;", {}, id="kmsg"),
    pytest.param("4,1842,8005250000,c,caller=T91;", {}, id="kmsg-with-caller"),
    pytest.param("6.8.0-41,4,1842,8005250000,-,ncfrag=0/33;", {}, id="netconsole"),
    pytest.param("kernel:", {}, id="wall"),
    pytest.param(" kernel:[ 8005.250000] ", {}, id="wall-with-time"),
    pytest.param("[2026-03-02 09:00:05] [ 8005.250000] ", {}, id="serial-console-server"),
    pytest.param("Mar  2 09:00:05 n1 kernel: [ 8005.250000] ", {"host": "n1", "speaker": "n1 kernel"}, id="kern-log"),
    pytest.param("Mar  2 09:00:05 kernel: ", {"speaker": "kernel"}, id="kern-log-without-host"),
    pytest.param("août 25 19:38:03 n1 kernel: ", {"host": "n1", "speaker": "n1 kernel"}, id="kern-log-in-french"),
    pytest.param("Mar  2 09:00:05 s_all@n1 kernel: ", {"host": "n1", "speaker": "s_all@n1 kernel"}, id="syslog-ng"),
    pytest.param("Mar  2 09:00:05 n1 kern.err kernel: ", {"host": "n1", "speaker": "n1 kern.err kernel"}, id="busybox"),
    pytest.param("[ 8005.250000] n1 kernel: ", {"host": "n1", "speaker": "n1 kernel"}, id="journal-monotonic"),
    pytest.param("[ 8005.250000] kernel: ", {}, id="journal-monotonic-without-host"),
    pytest.param("2026-03-02T09:00:05.5+00:00 n1 kernel: ", {"host": "n1", "speaker": "n1 kernel"}, id="rsyslog-iso"),
    pytest.param(
        "<3>1 2026-03-02T09:00:05Z n1 kernel - - - [ 8005.250000] ",
        {"host": "n1", "speaker": "n1 kernel -"},
        id="rfc-5424",
    ),
    pytest.param("2026-03-02T09:00:05Z [ 8005.250000] ", {}, id="in-a-shipper-s-stamp"),
]


@pytest.mark.parametrize(("prefix", "expected"), [*LAUNCHERS, *CONTAINERS, *SYSLOG])
def test_prefixes_of_workers_are_removed(prefix: str, expected: dict[str, Any]) -> None:
    peeled = peel(prefix + BODY)
    assert (peeled.body, facts(peeled)) == (BODY, expected)


@pytest.mark.parametrize(("prefix", "expected"), KERNEL)
def test_prefixes_of_the_kernel_are_removed(prefix: str, expected: dict[str, Any]) -> None:
    peeled = peel(prefix + XID)
    assert (peeled.body, facts(peeled)) == (XID, expected | {"is_kernel": True})


@pytest.mark.parametrize(
    ("line", "body"),
    [
        pytest.param("daemon:info  : [ 8005.250000] systemd[1]: started", "systemd[1]: started", id="dmesg-decoded"),
        pytest.param("<30>[ 8005.250000] systemd[1]: started", "systemd[1]: started", id="dmesg-raw"),
        pytest.param("30,1842,8005250000,-;systemd[1]: started", "systemd[1]: started", id="kmsg"),
        pytest.param("12,1842,8005250000,-;a shell's echo", "a shell's echo", id="kmsg-echo"),
    ],
)
def test_a_program_that_writes_to_the_kernel_log_is_not_the_kernel(line: str, body: str) -> None:
    peeled = peel(line)
    assert (peeled.body, peeled.is_kernel) == (body, False)


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-02 09:00:05,123 INFO trainer started",
        "2026-03-02 09:00:05,123 - INFO - started",
        "2026-03-02 09:00:05.123456: E xla/stream_executor.cc:9] x",
        "[2026-03-02 09:00:05] n1:412:500 [0] transport/net_ib.cc:9 NCCL WARN x",
        "[2026-03-02 09:00:05,123 E 90 91] (raylet) node_manager.cc:30: x",
        "E0302 09:00:05.123456 412 torch/distributed/run.py:9] x",
        "[E302 09:00:05.123456789 ProcessGroupNCCL.cpp:9] [Rank 3] x",
        "n1:412:500 [0] NCCL INFO Using network IB",
        "[1772442005.123456] [n1:412:0] ib_mlx5.c:749 UCX  ERROR x",
        "rank3: no prefix of anybody",
        "12:30 is a time",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal",
        "mlx5_0: failed to open",
        "nvme0n1: I/O error",
        "slurmstepd: error: x",
        "srun: error: node12: task 3: Exited with exit code 1",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:9]",
        "(most recent call last) is no actor",
        "Epoch 3 | loss 2.1",
        "[cuda:0] x",
        "[node07:21333] *** Process received signal ***",
        "[node07:87] Signal: Segmentation fault (11)",
        "[Rank 7] x",
        "[rank 0] step 140 loss=2.3012",
        "  | Traceback (most recent call last):",
        "EL0004: [PID: 4120] 2026-03-02-09:00:53.110.220 Failed to allocate memory.",
    ],
)
def test_text_that_only_looks_like_a_prefix_stays(line: str) -> None:
    assert peel(line) == Peeled(line)


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("2026-03-02T09:00:05Z INFO trainer: started", "INFO trainer: started"),
        ("2026-03-02T09:00:05Z ERROR trainer[3]: failed", "ERROR trainer[3]: failed"),
    ],
)
def test_the_level_after_a_shipper_s_time_is_no_host(line: str, body: str) -> None:
    peeled = peel(line)
    assert (peeled.body, facts(peeled)) == (body, {})


def test_a_site_s_rank_is_in_front_of_lines_that_ray_indents() -> None:
    peeled = peel("[rank 0] \tip: 10.1.0.9")
    assert (peeled.body, peeled.rank) == ("\tip: 10.1.0.9", 0)


@pytest.mark.parametrize("body", ["nvme0: [x] y", "3: x", "(x pid=4) y", "python3[91]: segfault at 0", "usb 1-1: new"])
def test_a_kernel_line_keeps_its_device(body: str) -> None:
    assert peel(f"[ 8005.250000] {body}").body == body


def test_interleaved_ranks_are_different_speakers() -> None:
    lines = [
        "[rank0]: a",
        "[rank1]: b",
        "(W pid=4) c",
        "(W pid=4, ip=10.1.0.9) d",
        "(W pid=5) e",
        "n1: [rank0]: f",
        "g",
    ]
    assert len({peel(line).speaker for line in lines}) == len(lines)


def test_a_speaker_keeps_its_name() -> None:
    lines = ["Mar  2 09:00:05 n1 python[4]: a", "Mar  2 09:00:06 n1 python[4]: b"]
    assert len({peel(line).speaker for line in lines}) == 1


@pytest.mark.parametrize(
    "suffix",
    [
        "",
        " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication.)",
    ],
)
def test_ray_s_note_about_other_processes_is_removed(suffix: str) -> None:
    peeled = peel(f"(W pid=4, ip=10.1.0.9) {BODY}\x1b[32m [repeated 15x across cluster]\x1b[0m{suffix}")
    assert peeled.body == BODY


@pytest.mark.parametrize(
    ("line", "timed"),
    [
        ("[pod/a/b] 2026-03-02T09:00:05Z x", "2026-03-02T09:00:05Z x"),
        ("worker-1  | Mar  2 09:00:05 n1 kernel: x", "Mar  2 09:00:05 n1 kernel: x"),
        ("kern  :err   : [Mon Mar  2 09:00:05 2026] x", "Mon Mar  2 09:00:05 2026] x"),
        ("[rank3]: x", ""),
    ],
)
def test_times_in_prefixes_are_not_lost(line: str, timed: str) -> None:
    assert peel(line).timed == timed


def test_a_piece_of_a_line_overrides_the_line() -> None:
    whole = peel("Mar  2 09:00:05 n1 python[4]: [rank1]: x")
    own = peel("[rank2]: y").within(whole)
    assert (own.body, own.rank, own.host, own.speaker) == ("y", 2, "n1", "rank2")
    bare = peel("y").within(whole)
    assert (bare.rank, bare.host, bare.speaker) == (1, "n1", "n1 python[4] rank1")


def test_colours_within_a_prefix_are_removed() -> None:
    assert peel("a \x1b[1;31mred\x1b[0m #033[32mgreen#033[0m b").body == "a red green b"
    assert peel("\x1b]0;a title\x07a\x1b(B\x1b[K b\x1b[?25l").body == "a b"


def test_nuls_are_removed() -> None:
    assert peel("\0\0\0[rank3]: a\0b") == Peeled("ab", rank=3, speaker="rank3")


def test_nesting_is_bounded() -> None:
    assert len(peel("1: " * 300_000).body) > 800_000


def test_a_line_that_is_all_prefix_is_empty() -> None:
    assert peel("[rank3]: ").body == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Training loss: 2.31", id="two-words-and-a-colon"),
        pytest.param("Epoch 0:  12%|", id="bar"),
        pytest.param("step 5: loss 2.31", id="step"),
    ],
)
def test_text_behind_the_time_of_a_container_names_no_host(text: str) -> None:
    peeled = peel(f"2026-03-02T09:00:05.123456789Z {text}")
    assert (peeled.host, peeled.body) == ("", text)


@pytest.mark.parametrize("time", ["2026-03-02T09:00:05.123456+00:00", "2026-03-02T09:00:05Z", "Mar  2 09:00:05"])
def test_a_number_behind_a_word_is_no_program(time: str) -> None:
    assert peel(f"{time} Epoch 3/10: loss 2.31").host == ""


@pytest.mark.parametrize("text", ["completed step: 7, seconds: 1.002", "global iteration: 7 loss: 2.31"])
def test_words_of_progress_behind_a_time_are_no_host_and_program(text: str) -> None:
    peeled = peel(f"Mar  2 09:00:05 {text}")
    assert (peeled.body, peeled.host) == (text, "")


@pytest.mark.parametrize(
    ("line", "body"),
    [
        pytest.param(BODY, BODY, id="traceback"),
        pytest.param('  File "train.py", line 9, in step', '  File "train.py", line 9, in step', id="frame"),
        pytest.param("    loss.backward()", "    loss.backward()", id="code"),
        pytest.param("torch.AcceleratorError: CUDA error", "torch.AcceleratorError: CUDA error", id="exception"),
        pytest.param(f" 3: [default5]:{BODY}", BODY, id="srun-label-and-torchrun-tee"),
        pytest.param("E0302 09:00:05.110000 7 api.py:874] x", "E0302 09:00:05.110000 7 api.py:874] x", id="glog"),
        pytest.param("n1:881:990 [3] NCCL INFO x", "n1:881:990 [3] NCCL INFO x", id="nccl"),
        pytest.param("2026-03-02 09:00:05,110 INFO x", "2026-03-02 09:00:05,110 INFO x", id="time-of-a-logger"),
    ],
)
def test_the_time_that_a_pipe_adds_is_removed(line: str, body: str) -> None:
    stamped = f"2026-03-02T09:00:05 {line}"
    assert (peel(stamped).body, peel(stamped).timed) == (body, stamped)


@pytest.mark.parametrize(
    "text", ["[INFO] x", "INFO trainer: x", "trainer[ERROR] ValueError: x", "ValueErrors are rare"]
)
def test_the_time_of_a_logging_library_is_part_of_its_line(text: str) -> None:
    assert peel(f"2026-03-02 09:00:05 {text}").body == f"2026-03-02 09:00:05 {text}"


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("a &lt;b&gt; &amp;&amp; &quot;c&quot; &#39;d&#39;", "a <b> && \"c\" 'd'"),
        ("\u2018a\u2019 \u201cb\u201d", "'a' \"b\""),
        ("a\u00a0b\u202fc\u200bd", "a b cd"),
    ],
)
def test_what_tickets_and_chats_make_of_quotes_and_spaces_is_undone(line: str, body: str) -> None:
    assert peel(line).body == body


def test_an_exception_behind_a_host_is_no_program() -> None:
    line = "2026-03-02T09:00:01.500000+00:00 gpu017 RuntimeError: CUDA error"
    assert peel(line).body == "gpu017 RuntimeError: CUDA error"
