"""Progress bars as tqdm and Lightning draw them: which of them are training steps, and which may count anything.

Format: tqdm `std.py` `format_meter` and `format_sizeof`; Lightning `callbacks/progress/tqdm_progress.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from epicenter.rules.triage.bars import Bar, Bars
from epicenter.rules.triage.document import Triage
from tests.support.job_logs import VALUE_ERROR, report_on

CR = "\r"
HEADER = ["***** Running training *****", "  Num Epochs = 3", "  Total optimization steps = 600"]


def clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def bar(step: int, total: int, name: str = "", pace_s: float = 0.4, postfix: str = "") -> str:
    """One redraw, as `tqdm(total=…, desc=…)` makes it."""
    spent = step * pace_s
    rate = "?it/s" if not step else f"{1 / pace_s:5.2f}it/s" if pace_s < 1 else f"{pace_s:5.2f}s/it"
    left = clock((total - step) * pace_s) if step else "?"
    share = 100 * step // total
    label = f"{name}: " if name else ""
    return f"{label}{share:3d}%|{'█' * (share // 10):<10}| {step}/{total} [{clock(spent)}<{left}, {rate}{postfix}]"


def scaled(step: str, total: str, share: int, name: str = "") -> str:
    """A redraw with `unit_scale=True`, which shows three digits."""
    label = f"{name}: " if name else ""
    return f"{label}{share:3d}%|{'█' * (share // 10):<10}| {step}/{total} [00:12<06:30, 10.0it/s]"


def redrawn(bars: Iterable[str]) -> str:
    return "".join(f"{CR}{drawn}" for drawn in bars)


def loss(step: int) -> str:
    return f"{{'loss': 2.4011, 'grad_norm': 1.2, 'learning_rate': 4.8e-05, 'epoch': {step / 200:.2f}}}"


def of(lines: Iterable[str]) -> Triage:
    return report_on([*lines, *VALUE_ERROR], name="a.log")


EPOCHS = [[bar(step, 100, f"Epoch {epoch}") for step in range(0, 101, 5)] for epoch in range(3)]
NAMED = {
    "one-line-each": [line for epoch in EPOCHS for line in epoch],
    "carriage-returns": [redrawn(epoch) for epoch in EPOCHS],
    "slow-steps": [bar(step, 300, "Training", pace_s=4.0) for step in range(0, 301, 10)],
    "lightning-without-a-length": [
        redrawn(f"Epoch {epoch}: |          | {step}/? [00:30<00:00,  4.00it/s, v_num=0]" for step in range(0, 101, 5))
        for epoch in range(3)
    ],
    "lightning": [
        "Sanity Checking: |          | 0/? [00:00<?, ?it/s]",
        *(bar(step, 2, "Sanity Checking DataLoader 0") for step in range(3)),
        *(
            line
            for epoch in range(3)
            for line in (
                *(bar(step, 100, f"Epoch {epoch}", postfix=", v_num=0, train_loss=2.310") for step in range(0, 101, 5)),
                *(bar(step, 900, "Validation DataLoader 0") for step in range(0, 901, 100)),
                bar(100, 100, f"Epoch {epoch}", postfix=", v_num=0, train_loss=2.310, val_loss=2.400"),
            )
        ),
    ],
}


@pytest.mark.parametrize("lines", NAMED.values(), ids=NAMED)
def test_bars_named_after_training_count_its_steps_over_epochs(lines: list[str]) -> None:
    progress = of(lines).progress
    assert (progress.last_step, progress.attempts, progress.is_rounded) == (300, 1, False)


@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_first_bar_of_a_redrawn_line_is_the_first_step(count: int) -> None:
    progress = of([redrawn(bar(step, 100, "Training") for step in range(7, 7 + count))]).progress
    assert (progress.first_step, progress.last_step) == (7, 6 + count)


def test_the_total_of_an_epoch_is_not_that_of_the_job() -> None:
    assert of(NAMED["one-line-each"]).progress.total_steps is None


def test_a_failure_after_the_first_epoch_is_not_called_one_after_all_steps() -> None:
    report = of([*EPOCHS[0], *(bar(step, 50, "Validation DataLoader 0") for step in range(0, 30, 10))])
    assert (report.progress.total_steps, "All steps were completed" in report.summary) == (None, False)


def test_a_bar_of_epochs_has_no_epoch_in_its_percentage() -> None:
    progress = of([bar(epoch, 40, "Epoch") for epoch in range(30)]).progress
    assert (progress.last_step, progress.total_steps, progress.attempts) == (29, 40, 1)


def test_scaled_numbers_are_rounded_steps() -> None:
    report = of(
        [scaled("50.0", "10.0k", 0, "train"), scaled("900", "10.0k", 9, "train"), scaled("1.20k", "10.0k", 12, "train")]
    )
    progress = report.progress
    assert (progress.last_step, progress.total_steps, progress.is_rounded) == (1200, 10_000, True)
    assert "The last completed step is about 1200 of a job of 10000." in report.summary


OTHERS = {
    "map": [bar(step, 1000, "Map") for step in range(0, 500, 10)],
    "shards": [bar(step, 400, "Loading checkpoint shards", pace_s=2.5) for step in range(40)],
    "vllm-shards": [bar(step, 400, "Loading safetensors checkpoint shards", pace_s=2.5) for step in range(40)],
    "graphs": [bar(step, 670, "Capturing CUDA graph shapes") for step in range(40)],
    "download": [bar(step, 400, "Downloading shards") for step in range(40)],
    "evaluation": [bar(step, 670, "Evaluating", pace_s=2.5) for step in range(40)],
    "bytes": ["  2%|▏         | 0.10G/4.90G [00:01<00:53, 90.0MB/s]"],
}


@pytest.mark.parametrize("lines", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("is_redrawn", [False, True], ids=["lines", "carriage-returns"])
def test_bars_of_other_work_are_no_steps(lines: list[str], is_redrawn: bool) -> None:
    progress = of([redrawn(lines)] if is_redrawn else lines).progress
    assert (progress.last_step, progress.bar_step) == (None, None)


UNNAMED = [bar(step, 1000) for step in range(0, 400, 10)]


@pytest.mark.parametrize("lines", [UNNAMED, [redrawn(UNNAMED)]], ids=["lines", "carriage-returns"])
def test_an_unnamed_bar_is_reported_as_a_bar(lines: list[str]) -> None:
    report = of(lines)
    assert (report.progress.last_step, report.progress.bar_step, report.progress.bar_total) == (None, 390, 1000)
    assert "A progress bar without a name got to 390 of 1000; no line says what it counts." in report.summary


def test_a_redrawn_line_of_rounded_steps_has_its_first_step() -> None:
    line = redrawn(
        scaled(*numbers, "train") for numbers in (("0.00", "10.0k", 0), ("50.0", "10.0k", 0), ("1.20k", "10.0k", 12))
    )
    progress = of([line]).progress
    assert (progress.first_step, progress.last_step, progress.steps_lost) == (0, 1200, 1200)


def test_an_unnamed_bar_that_begins_again_with_each_epoch_is_no_restart() -> None:
    epochs = [line for _ in range(3) for line in (bar(step, 100) for step in range(0, 100, 10))]
    progress = of(epochs).progress
    assert (progress.last_step, progress.attempts, progress.bar_step) == (None, 1, 90)


def test_an_unnamed_bar_up_to_the_job_s_total_counts_its_steps() -> None:
    lines = [*HEADER, *(bar(step, 600) for step in range(1, 431)), *(bar(step, 160) for step in range(0, 160, 5))]
    progress = of(lines).progress
    assert (progress.last_step, progress.total_steps, progress.attempts) == (430, 600, 1)


def test_an_unnamed_bar_that_spans_reports_of_the_loss_counts_steps_and_one_in_between_does_not() -> None:
    lines = []
    for step in range(1, 431):
        lines += [bar(step, 600), *([loss(step)] if step % 10 == 0 else [])]
        lines += [bar(batch, 900) for batch in range(0, 900, 50)] if step % 20 == 0 else []
    progress = of(lines).progress
    assert (progress.last_step, progress.total_steps, progress.attempts) == (430, 600, 1)


def test_a_bar_that_begins_again_between_reports_counts_no_steps() -> None:
    bars = Bars()
    for _ in range(5):
        assert not any(bars.note(Bar(step, 60, is_rounded=False), None) for step in range(61))
        bars.note_report()
