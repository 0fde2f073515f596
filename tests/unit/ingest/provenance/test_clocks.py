"""The zone of log times that name none, shown by a file itself or by other files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from epicenter.ingest.collect.files import FileSource
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.provenance.stated import NOTHING, Stated
from tests.support.logs import LATER_NS, START_S, at

NEW_YORK: Final = "America/New_York"
MINUTES: Final = range(0, 60, 5)


def _clock(minute: float, ahead_h: float, shape: str) -> str:
    return datetime.fromtimestamp(START_S + 60 * minute + 3600 * ahead_h, UTC).strftime(shape)


def _syslog(minute: float, ahead_h: float, text: str) -> str:
    return f"{_clock(minute, ahead_h, '%b %d %H:%M:%S')} n1 {text}\n"


def _cron(ahead_h: float, minutes: range = MINUTES) -> str:
    return "".join(_syslog(minute, ahead_h, "CRON[7]: (root) CMD (true)") for minute in minutes)


def _audit(ahead_h: float, minutes: range = MINUTES, late_s: int = 0) -> str:
    texts = (
        (minute, f"kernel: [1.5] audit: type=1400 audit({START_S + 60 * minute - late_s}.953:9)") for minute in minutes
    )
    return "".join(_syslog(minute, ahead_h, text) for minute, text in texts)


def _containerd(ahead_h: float) -> str:
    texts = (
        (minute, f'containerd[9]: time="{_clock(minute, 0, "%Y-%m-%dT%H:%M:%S.951283Z")}" level=info')
        for minute in MINUTES
    )
    return "".join(_syslog(minute, ahead_h, text) for minute, text in texts)


def _steps(ahead_h: float = 0, minutes: range = MINUTES) -> str:
    return "".join(f"{_clock(minute, ahead_h, '%Y-%m-%d %H:%M:%S,250')} step {minute}\n" for minute in minutes)


def _slurm(ahead_h: float, job: str, begin: float, end: float) -> str:
    shape = "[%Y-%m-%dT%H:%M:%S.577]"
    return (
        f"{_clock(begin, ahead_h, shape)} sched: Allocate JobId={job} NodeList=n1 #CPUs=96 Partition=gpu\n"
        f"{_clock(end, ahead_h, shape)} _job_complete: JobId={job} WEXITSTATUS 0\n"
    )


def _zones(folder: Path, texts: Mapping[str, str], stated: Stated = NOTHING, follow: bool = False) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sources = Sources([str(folder)], "", follow, stated)
    files = [source for source in sources.all() if isinstance(source, FileSource)]
    sources.close()
    return {str(Path(file.name).relative_to(folder)): file.zone for file in files if file.zone != stated.zone}


@pytest.mark.parametrize("text", [_audit(-7), _containerd(-7), _cron(-7) + _audit(-7, range(60, 80, 5))])
def test_lines_that_state_a_moment_twice_show_the_zone(tmp_path: Path, text: str) -> None:
    assert _zones(tmp_path, {"n1/messages": text, "7.log": _steps()}) == {"n1/messages": "UTC-07:00"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_audit(-7, range(1)), id="one-line"),
        pytest.param(_audit(-7, late_s=200), id="another-moment"),
        pytest.param(_audit(-7, range(6)) + _audit(2, range(6, 12)), id="two-zones"),
        pytest.param(_audit(-20), id="farther-than-a-zone"),
        pytest.param(_containerd(-7).replace("2026-03-02T", "2026-99-02T"), id="no-month"),
        pytest.param("2026-03-02T09:00:08+99:59 n1 CRON[7]: (root) CMD (true)\n", id="no-distance"),
    ],
)
def test_weaker_lines_do_not(tmp_path: Path, text: str) -> None:
    assert _zones(tmp_path, {"n1/messages": text}) == {}


def test_a_time_of_that_file_is_read_in_its_zone(tmp_path: Path) -> None:
    (tmp_path / "messages").write_text(_audit(5.75))
    sources = Sources([str(tmp_path)], "", follow=False)
    batch = sources.all()[0].read(LATER_NS)
    sources.close()
    assert batch is not None and batch.zone == "UTC+05:45"
    assert batch.origin is not None and batch.origin.head_time_ns == at(0)


def test_a_stated_zone_stays_where_lines_agree_with_it_and_gives_way_where_they_do_not(tmp_path: Path) -> None:
    texts = {"n1/messages": _audit(-5), "n2/messages": _cron(-5), "7.log": _steps(-5), "8.log": _containerd(0)}
    assert _zones(tmp_path, texts, Stated(zone=NEW_YORK)) == {"8.log": "UTC"}


def test_machines_that_show_no_zone_keep_that_of_the_others(tmp_path: Path) -> None:
    texts = {"n1/messages": _audit(9), "n2/messages": _cron(9), "7.log": _steps()}
    assert _zones(tmp_path, texts) == {"n1/messages": "UTC+09:00", "n2/messages": "UTC+09:00"}


def test_machines_in_two_zones_show_none_for_the_others(tmp_path: Path) -> None:
    texts = {"n1/messages": _audit(9), "n2/messages": _cron(9), "n3/messages": _audit(1)}
    assert _zones(tmp_path, texts) == {"n1/messages": "UTC+09:00", "n3/messages": "UTC+01:00"}


def test_all_logs_of_machines_together_begin_and_end_with_the_programs(tmp_path: Path) -> None:
    texts = {"n1/messages": _cron(5.5, range(4, 40)), "n2/messages": _cron(5.5, range(20, 58)), "7.log": _steps()}
    assert _zones(tmp_path, texts) == {"n1/messages": "UTC+05:30", "n2/messages": "UTC+05:30"}


@pytest.mark.parametrize(
    ("machine", "program"),
    [
        pytest.param(_cron(2, range(4, 30)), _steps(), id="ends-apart"),
        pytest.param(_cron(0.5), _steps(), id="they-overlap"),
        pytest.param(_cron(2, range(5)), _steps(0, range(5)), id="too-short"),
    ],
)
def test_other_spans_show_nothing(tmp_path: Path, machine: str, program: str) -> None:
    assert _zones(tmp_path, {"n1/messages": machine, "7.log": program}) == {}


def test_spans_of_logs_that_grow_show_nothing(tmp_path: Path) -> None:
    assert _zones(tmp_path, {"n1/messages": _cron(2), "7.log": _steps()}, follow=True) == {}


def test_slurm_shows_its_zone_by_the_begin_and_end_of_jobs(tmp_path: Path) -> None:
    texts = {
        "slurmctld.log": _slurm(9, "4711", -0.5, 25.5) + _slurm(9, "4712", 29, 90),
        "slurm-4711.out": _steps(0, range(26)),
        "slurm-4712.out": _steps(0, range(30, 60)),
        "n1/messages": _cron(9, range(20, 30)),
    }
    assert _zones(tmp_path, texts) == {"slurmctld.log": "UTC+09:00", "n1/messages": "UTC+09:00"}


def test_one_job_that_begins_a_half_hour_late_shows_nothing(tmp_path: Path) -> None:
    texts = {"slurmctld.log": _slurm(0, "4711", -30, 45), "slurm-4711.out": _steps(0, range(40))}
    assert _zones(tmp_path, texts) == {}


def _rfc3339(ahead_h: float, zone: str) -> str:
    return "".join(
        f"{_clock(minute, ahead_h, '%Y-%m-%dT%H:%M:%S')}{zone} n1 CRON[7]: (root) CMD (true)\n" for minute in MINUTES
    )


def test_a_program_that_can_only_have_run_with_the_machines_keeps_their_zone(tmp_path: Path) -> None:
    texts = {"n1/syslog": _rfc3339(-7, "-07:00"), "7.log": _steps(-7), "8.log": _steps(), "9.log": _containerd(0)}
    found = _zones(tmp_path, texts)
    assert found == {"7.log": "UTC-07:00"}


def test_a_program_that_fits_both_zones_is_like_the_others(tmp_path: Path) -> None:
    texts = {"n1/syslog": _rfc3339(1, "+01:00"), "7.log": _steps(1), "8.log": _steps(1, range(-25, 20, 5))}
    (local := tmp_path / "local").mkdir()
    assert _zones(local, texts) == dict.fromkeys(["7.log", "8.log"], "UTC+01:00")
    (mixed := tmp_path / "mixed").mkdir()
    assert _zones(mixed, texts | {"9.log": _steps()}) == {"7.log": "UTC+01:00"}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_steps(-7, range(-60, 20, 5)), id="ran-before"),
        pytest.param(_steps(-7, range(20, 120, 5)), id="ran-after"),
        pytest.param(_steps(3), id="in-another-zone"),
    ],
)
def test_a_program_that_ran_at_another_time_does_not(tmp_path: Path, program: str) -> None:
    assert _zones(tmp_path, {"n1/syslog": _rfc3339(-7, "-07:00"), "7.log": program}) == {}


def test_a_zone_within_a_message_is_not_that_of_its_machine(tmp_path: Path) -> None:
    message = "mail of 2026-03-02T02:00:08-07:00 sent"
    entries = "".join(f'{{"MESSAGE":"{message}","__REALTIME_TIMESTAMP":"{at(60 * m) // 1000}"}}\n' for m in MINUTES)
    assert _zones(tmp_path, {"n1/journal.json": entries, "n2/messages": _cron(0)}) == {}


def test_machines_that_write_utc_move_no_program(tmp_path: Path) -> None:
    assert _zones(tmp_path, {"n1/syslog": _rfc3339(0, "+00:00"), "7.log": _steps(-7)}) == {}
