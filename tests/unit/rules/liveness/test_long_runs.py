"""Runs of hours with steps a minute apart, as frameworks print them: long announced pauses are quiet, a hang is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.incident import Incident
from tests.support.heartbeats import verdicts
from tests.support.logs import a_scanner, at, batch, the_rules, vector

PACE_S: Final = 60.0
MINUTE_S: Final = 60.0
PAUSE_AT: Final = 90
LAST: Final = 180
Line = tuple[float, str]


class Framework(NamedTuple):
    """The lines of one framework: of a step, of an evaluation and of a checkpoint; the last one of each ends it."""

    step: Callable[[int], str]
    evaluation: tuple[str, ...]
    checkpoint: tuple[str, ...]


def _bar(done: int, total: int, label: str = "", more: str = "") -> str:
    return f"{label}{100 * done // total:3d}%|█▏        | {done}/{total} [1:02:00<14:40,  60.00s/it{more}]"


FRAMEWORKS: Final = {
    "megatron": Framework(
        lambda step: (
            f" [2026-03-02 09:00:05] iteration {step:8d}/  500000 | consumed samples: {256 * step:12d} | elapsed time "
            "per iteration (ms): 60004.5 | learning rate: 1.000000E-05 | global batch size:   256 | lm loss: 8.0E+00 |"
        ),
        (
            "Evaluating on 5120 samples",
            "Evaluating iter 4/10",
            " validation loss at iteration 90 | lm loss value: 2.4E+00 |",
        ),
        (
            "saving checkpoint at iteration      90 to /ckpt/run7 in torch_dist format",
            "  successfully saved checkpoint from iteration      90 to /ckpt/run7 [ t 1/8, p 1/4 ]",
        ),
    ),
    "hf trainer": Framework(
        lambda step: _bar(step, 1000) + "{'loss': 1.8021, 'grad_norm': 0.91, 'learning_rate': 1.92e-05, 'epoch': 0.13}",
        ("***** Running Evaluation *****", _bar(40, 120), "{'eval_loss': 1.6021, 'eval_runtime': 20.11, 'epoch': 0.5}"),
        ("Saving model checkpoint to ./out/checkpoint-90",),
    ),
    "lightning": Framework(
        lambda step: _bar(step, 1000, "Epoch 0: ", ", v_num=3, train_loss=2.310"),
        (_bar(1, 100, "Validation DataLoader 0: "), _bar(40, 100, "Validation DataLoader 0: "), "val_loss 2.31"),
        ("Epoch 0, global step 90: 'val_loss' reached 2.31 (best 2.31), saving model to '/ckpt/a' as top 1",),
    ),
    "maxtext": Framework(
        lambda step: f"completed step: {step}, seconds: 59.981, TFLOP/s/device: 380.102, total_weights: 1, loss: 2.871",
        (
            *(f"Completed eval step: {number}, seconds: 1.201" for number in range(2)),
            "Completed eval after train step 90, loss=2.120, total_weights=65536.0",
        ),
        (
            "[process=0][thread=MainThread] Started async saving checkpoint to /ckpt/90.",
            "Saved a checkpoint at step 90.",
        ),
    ),
    "deepspeed": Framework(
        lambda step: (
            f"[2026-03-02 09:00:31,120] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=2, lr=[1e-05]"
        ),
        ("[2026-03-02 09:00:31] Evaluating on 40 batches", "eval step 4: loss 2.3"),
        (
            "[2026-03-02 09:00:53,110] [INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step90 is "
            "about to be saved!",
            "[2026-03-02 09:00:53,110] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint "
            "global_step90 is ready now!",
        ),
    ),
    "in-house": Framework(
        lambda step: f"[2026-03-02 10:11:12] train | it={step} | loss=2.31",
        ("[2026-03-02 10:11:12] val | it=90 | loss=2.31", "[2026-03-02 10:11:12] val | it=90 | loss=2.29"),
        ("[2026-03-02 10:11:12] checkpoint | saving step 90", "[2026-03-02 10:11:12] saved checkpoint to /ckpt/90"),
    ),
    "json": Framework(
        lambda step: f'{{"step": {step}, "loss": 2.31}}',
        ('{"split": "val", "step": 90, "loss": 2.31}', '{"split": "val", "step": 90, "loss": 2.30}'),
        ('{"event": "saving checkpoint to /ckpt/90"}', '{"event": "saved checkpoint to /ckpt/90"}'),
    ),
    "nanogpt": Framework(
        lambda step: f"iter {step}: loss 2.31, time 60020ms",
        ("starting evaluation over 200 batches...", "step 90: train loss 3.1000, val loss 3.1500"),
        ("saving checkpoint to out-owt",),
    ),
}
COMPILES: Final = {
    "xla": "[Compiling module jit_train_step] Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=",
    "jax": "Compiling train_step with global shapes and types [ShapedArray(float32[8,4096])].",
    "torch": "AUTOTUNE mm(4096x1024, 1024x4096)",
    "triton": "Autotuning kernel matmul_kernel with config BLOCK_M: 128",
    "in-house": "[2026-03-02 10:11:12] compiling train step, this may take several minutes",
}


def run_of(
    framework: Framework, pause_s: float, lines: Iterator[Line] | tuple[Line, ...] = (), last: int = LAST
) -> list[Line]:
    """Steps a minute apart, except for a pause after step 90; `lines` are those of the pause."""
    steps = [(PACE_S * step + (pause_s if step > PAUSE_AT else 0), framework.step(step)) for step in range(1, last + 1)]
    began_s = PAUSE_AT * PACE_S
    return sorted([*steps, *((began_s + second, text) for second, text in lines)])


def spread(texts: tuple[str, ...], pause_s: float) -> tuple[Line, ...]:
    """The first line at the start of the pause, the others evenly until its end."""
    return tuple((2 + number * (pause_s - 2) / max(1, len(texts) - 1), text) for number, text in enumerate(texts))


def watched(lines: list[Line], until_s: float) -> tuple[list[Incident], list[tuple[str, float]]]:
    """The incidents, and the verdicts with their seconds, of lines that arrive as they are written."""
    engine, scanner = Engine(the_rules()), a_scanner()
    incidents: dict[str, Incident] = {}
    for second, text in lines:
        scanned = scanner.scan(batch([vector("n1", second, text, "A")], live=True))
        engine.add(scanned.matches, scanned.heartbeats, scanned.rank_placements)
        incidents |= {incident.incident_id: incident for incident in engine.advance(at(second))}
    incidents |= {incident.incident_id: incident for incident in engine.advance(at(until_s))}
    return list(incidents.values()), [(verdict, second) for verdict, _, _, second in verdicts(engine)]


def end_s(lines: list[Line]) -> float:
    return lines[-1][0] + 10


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_evaluation_of_twenty_minutes_is_quiet(name: str) -> None:
    framework, pause_s = FRAMEWORKS[name], 20 * MINUTE_S
    lines = run_of(framework, pause_s, spread(framework.evaluation[:1] + framework.evaluation[-1:], pause_s))
    assert watched(lines, end_s(lines)) == ([], [])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_lines_of_an_evaluation_extend_it(name: str) -> None:
    framework, pause_s = FRAMEWORKS[name], 120 * MINUTE_S
    first, *during = framework.evaluation[:-1]
    lines = run_of(framework, pause_s, spread((first, *(during or [first]) * 6), pause_s))
    assert watched(lines, end_s(lines)) == ([], [])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_checkpoint_of_fifteen_minutes_is_quiet(name: str) -> None:
    framework, pause_s = FRAMEWORKS[name], 15 * MINUTE_S
    lines = run_of(framework, pause_s, spread(framework.checkpoint, pause_s))
    assert watched(lines, end_s(lines)) == ([], [])


@pytest.mark.parametrize("text", COMPILES.values(), ids=list(COMPILES))
def test_a_compilation_of_twelve_minutes_in_the_middle_is_quiet(text: str) -> None:
    pause_s = 12 * MINUTE_S
    lines = run_of(FRAMEWORKS["maxtext"], pause_s, ((3, text),))
    assert watched(lines, end_s(lines)) == ([], [])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_hang_in_an_evaluation_is_reported_half_an_hour_after_its_last_line(name: str) -> None:
    framework = FRAMEWORKS[name]
    lines = run_of(framework, 0, ((3, framework.evaluation[0]),), PAUSE_AT)
    (incident,), found = watched(lines, end_s(lines) + 3600)
    assert (incident.verdict, incident.status) == ("hung", "open")
    assert found == [("hung", PAUSE_AT * PACE_S + 3 + 1800)]


@pytest.mark.parametrize("name", [name for name, framework in FRAMEWORKS.items() if len(framework.checkpoint) > 1])
def test_a_hang_after_a_checkpoint_is_reported_within_ten_minutes_of_its_end(name: str) -> None:
    framework = FRAMEWORKS[name]
    lines = run_of(framework, 0, spread(framework.checkpoint, 300), PAUSE_AT)
    (incident,), found = watched(lines, end_s(lines) + 3600)
    assert incident.verdict == "hung"
    assert found[0][1] <= PAUSE_AT * PACE_S + 300 + 600


NOT_DESTROYED = (
    "[rank0]:[W1102 10:11:12.123456789 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been "
    "destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call "
    "destroy_process_group to ensure that any pending NCCL operations have finished in this process."
)
ENDS: Final = {
    "not destroyed": NOT_DESTROYED,
    "exit code": "[2026-03-02 10:11:12] run finished, exit code 0",
    "done": "[2026-03-02 10:11:12] training done",
    "requeued": "slurmstepd: error: *** JOB 7801 ON n1 CANCELLED AT 2026-03-02T12:00:00 DUE TO JOB REQUEUE ***",
    "asked to requeue": "Handling auto-requeue signal: 10",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=list(ENDS))
def test_a_quiet_end_is_no_incident(text: str) -> None:
    incidents, found = watched(run_of(FRAMEWORKS["in-house"], 0, ((5, text),), PAUSE_AT), 4 * 3600)
    assert incidents == []
    assert {verdict for verdict, _ in found} <= {"finished", "cancelled"}


def test_a_requeued_job_that_starts_again_is_quiet() -> None:
    framework = FRAMEWORKS["megatron"]
    before = run_of(framework, 0, ((5, ENDS["requeued"]),), PAUSE_AT)
    again_s = before[-1][0] + 2400
    load = (again_s, " loading checkpoint from /ckpt/run7 at iteration 80")
    after = [(again_s + 60 + PACE_S * step, framework.step(80 + step)) for step in range(1, 60)]
    incidents, _ = watched([*before, load, *after], after[-1][0])
    assert incidents == []


def test_a_process_that_exits_on_one_of_two_nodes_leaves_a_hang() -> None:
    lines = run_of(FRAMEWORKS["in-house"], 0, (), PAUSE_AT)
    records = [vector(node, second, text, "A") for second, text in lines for node in ("n1", "n2")]
    exits_s = lines[-1][0] + 5
    engine, scanner = Engine(the_rules()), a_scanner()
    for record in [*records, vector("n1", exits_s, NOT_DESTROYED, "A")]:
        scanned = scanner.scan(batch([record], live=True))
        engine.add(scanned.matches, scanned.heartbeats, scanned.rank_placements)
    engine.advance(at(exits_s + 3600))
    assert [verdict for verdict, *_ in verdicts(engine)][:1] not in ([], ["finished"])
