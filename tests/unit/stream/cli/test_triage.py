"""`epicenter triage`: readable and unreadable files, tickets, tables, JSON, and nothing raw on a terminal."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from epicenter.rules.triage.document import Triage
from epicenter.rules.triage.report import Circumstances
from epicenter.stream.cli.main import cli, main
from epicenter.stream.cli.text.triage import table, ticket
from epicenter.stream.triage.job_reader import JobReader, reports_at
from tests.support.job_logs import (
    AT_300,
    CANCELLED,
    CONTRACT,
    HEAD,
    LATE,
    OOM,
    TRACEBACK,
    labelled,
    lightning,
    maxtext,
    megatron,
    scancel,
    steps,
    summary,
    write_job,
    write_log,
)
from tests.support.logs import LATER_NS, at, iso, the_rules

Run = Callable[..., tuple[int, str, str]]

FAILED = [*AT_300, labelled(3, TRACEBACK), labelled(3, OOM), *summary(1, "Training FAILED (exit=1)")]
SOON = 1510.0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command in this process: (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["epicenter", "triage", *map(str, arguments)])
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def report_on(path: object, now: float | None = None, job_state: str = "", outputs: Path = Path("outputs")) -> Triage:
    """The report on the only job at a readable path."""
    unread: list[str] = []
    circumstances = Circumstances(None if now is None else at(now), job_state)
    (report,) = reports_at(str(path), outputs, JobReader(the_rules(), "default"), circumstances, unread)
    assert unread == []
    return report


# JSON


def test_json_is_one_object_a_path_with_the_fields_of_the_contract(tmp_path: Path, run: Run) -> None:
    first, second = write_log(tmp_path / "7877-a.log", FAILED), write_log(tmp_path / "7878-b.log", AT_300)
    code, out, err = run("--json", first, second, "--now", iso(SOON))
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [set(CONTRACT) <= report.keys() for report in found] == [True, True]
    assert [(report["path"], report["status"], report["primary"]) for report in found] == [
        (str(first), "failed", "oom-gpu"),
        (str(second), "running", None),
    ]
    assert found[0]["evidence"][0] | {"text": ""} == {"line": 310, "text": "", "class": "oom-gpu", "file": ""}


@pytest.mark.parametrize("now", ["2026-03-02T10:25:00Z", "2026-03-02 10:25:00", "1772447100"])
def test_now_is_accepted_in_several_forms(now: str, tmp_path: Path, run: Run) -> None:
    _, out, _ = run("--json", write_log(tmp_path / "a.log", AT_300), "--now", now, "--job-state", "RUNNING")
    report = json.loads(out)
    assert (report["status"], report["progress"]["expected_step_now"]) == ("hanging", 999)


def test_an_invalid_time_is_wrong_usage(tmp_path: Path, run: Run) -> None:
    code, out, err = run(write_log(tmp_path / "a.log", AT_300), "--now", "soon")
    assert (code, out) == (2, "")
    assert "--now soon: not a time: write it like 2026-03-02T09:00:00Z" in err


@pytest.mark.parametrize("seconds_since_write", [0, 10**6])
def test_the_age_of_the_file_is_ignored(seconds_since_write: int, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.log", AT_300)
    written_ns = LATER_NS + seconds_since_write * 10**9
    os.utime(log, ns=(written_ns, written_ns))
    assert [report_on(log, now, "RUNNING").status for now in (LATE, SOON)] == ["hanging", "running"]


def test_a_line_without_a_time_does_not_get_that_of_the_file(tmp_path: Path) -> None:
    lines = [*HEAD, *(maxtext(step, second=-1) for step in range(50))]
    report = report_on(write_log(tmp_path / "a.log", lines), LATE, "RUNNING")
    assert (report.status, report.progress.last_step_time) == ("running", None)


# jobs and their files


def test_a_folder_a_log_and_a_slurm_id_name_the_same_job(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "outputs", "7877-llama", FAILED)
    given = [folder, folder.with_name("7877-llama.log"), folder / "log", "7877"]
    found = [report_on(path, outputs=tmp_path / "outputs") for path in given]
    assert [report.path for report in found] == [str(path) for path in given]
    same = [msgspec.structs.replace(report, path="", files=(), incident=None, incidents=()) for report in found]
    assert same == [same[0]] * 4


def test_lines_of_ray_workers_belong_to_the_job(tmp_path: Path) -> None:
    folder = write_job(tmp_path, "7877-llama", [*AT_300, *summary(1, "Training FAILED (exit=1)")])
    worker = write_log(folder / "ray_logs" / "node-0" / "worker-1.out", [*steps(0, 320), TRACEBACK, OOM])
    report = report_on(folder)
    assert (report.primary, report.progress.last_step, report.progress.attempts) == ("oom-gpu", 320, 1)
    assert (report.evidence[0].file, report.evidence[0].line) == (str(worker), 323)


def test_restores_are_confirmed_by_ray_workers(tmp_path: Path) -> None:
    folder = write_job(tmp_path, "7877-llama", [*HEAD, *steps(801, 820)])
    write_log(folder / "ray_logs" / "n" / "worker-1.out", ["restoring from this run's directory step 800"])
    progress = report_on(folder).progress
    assert (progress.start, progress.restored_step) == ("restored", 800)


def test_a_folder_of_jobs_is_a_table(tmp_path: Path, run: Run) -> None:
    write_job(tmp_path, "7877-llama", FAILED)
    write_job(tmp_path, "7878-gemma", [*HEAD, *steps(0, 999), *summary(0)])
    write_log(tmp_path / "llama-ckpt" / "events.out", [TRACEBACK, OOM])
    code, out, err = run(tmp_path)
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in out.splitlines()]
    assert rows[0] == ["Job", "Status", "Primary failure", "Last step", "What happened"]
    assert [row[:4] for row in rows[2:]] == [
        [f"{tmp_path}/7877-llama", "failed", "oom-gpu", "301/1000"],
        [f"{tmp_path}/7878-gemma", "completed", "-", "1000/1000"],
    ]


def test_several_paths_get_a_ticket_each(tmp_path: Path, run: Run) -> None:
    logs = [write_log(tmp_path / name, FAILED) for name in ("a.log", "b.log")]
    _, out, _ = run("--full", *logs)
    assert re.findall("^## Job triage: (.+)$", out, re.MULTILINE) == [str(log) for log in logs]


# bad input


def bad(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Paths that can't be triaged, each with its message."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary.log").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 80)
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "log").symlink_to("../gone.log")
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "nothing.log").write_bytes(b"")
    (tmp_path / "blank.log").write_bytes(b"\n\n\n")
    return {
        "missing": (tmp_path / "missing.log", "no such file or folder"),
        "binary": (tmp_path / "binary.log", "a binary file, not a log: give the log as text"),
        "fifo": (tmp_path / "pipe.log", "not a regular file: pipe it in, with - as PATH"),
        "device": (Path("/dev/zero"), "not a regular file: pipe it in, with - as PATH"),
        "folder-without-logs": (tmp_path / "empty", "no log in this folder"),
        "dangling-link": (tmp_path / "job", "broken link: no such log file"),
        "link-to-itself": (tmp_path / "loop.log", "broken link: no such log file"),
        "empty": (tmp_path / "nothing.log", "empty: no line to read"),
        "blank": (tmp_path / "blank.log", "empty: no line to read"),
    }


BAD = [
    "missing",
    "binary",
    "fifo",
    "device",
    "folder-without-logs",
    "dangling-link",
    "link-to-itself",
    "empty",
    "blank",
]


@pytest.mark.parametrize("name", BAD)
def test_an_unreadable_path_is_reported_in_a_line_with_exit_66(name: str, tmp_path: Path, run: Run) -> None:
    path, expected = bad(tmp_path)[name]
    code, out, err = run(path)
    assert (code, out) == (66, "")
    assert re.fullmatch(rf"epicenter: {re.escape(str(path))}(/log)?: {re.escape(expected)}\n", err)


def test_every_bad_path_has_a_case(tmp_path: Path) -> None:
    assert list(bad(tmp_path)) == BAD


def test_a_bad_path_does_not_stop_the_others(tmp_path: Path, run: Run) -> None:
    good = [write_log(tmp_path / name, FAILED) for name in ("a.log", "b.log")]
    code, out, err = run("--json", good[0], *(path for path, _ in bad(tmp_path).values()), good[1])
    assert code == 66
    assert [json.loads(line)["path"] for line in out.splitlines()] == [str(log) for log in good]
    assert len(err.splitlines()) == len(BAD)


@pytest.mark.parametrize("name", ["job/core.log", "7877-llama/ray_logs/n/worker-1.out"], ids=["artifact", "ray"])
def test_a_binary_file_among_the_logs_of_a_job_is_reported_and_skipped(name: str, tmp_path: Path, run: Run) -> None:
    write_job(tmp_path, "7877-llama", FAILED)
    write_log(tmp_path / "job" / "rank3.log", FAILED)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"\x7fELF\x02\x01\x01\0\0\0\0\0")
    code, out, err = run("--json", tmp_path / Path(name).parts[0])
    assert (code, json.loads(out)["primary"]) == (66, "oom-gpu")
    assert err == f"epicenter: {tmp_path / name}: a binary file, not a log: give the log as text\n"


def test_a_job_without_its_log_does_not_stop_the_table(tmp_path: Path, run: Run) -> None:
    write_job(tmp_path, "7877-llama", FAILED)
    write_job(tmp_path, "7878-gemma", FAILED)
    write_job(tmp_path, "7879-gone", FAILED)
    (tmp_path / "7879-gone.log").unlink()
    code, out, err = run(tmp_path)
    assert (code, err) == (66, f"epicenter: {tmp_path}/7879-gone/log: broken link: no such log file\n")
    assert out.count("oom-gpu") == 2


def _cut(lines: list[str]) -> bytes:
    packed = gzip.compress("\n".join(lines).encode() + Random(1).randbytes(100_000).hex().encode())
    return packed[: len(packed) // 2]


def test_a_cut_log_is_called_so_in_the_row_of_its_job_and_in_json(tmp_path: Path, run: Run) -> None:
    write_log(tmp_path / "7877-whole.log", FAILED)
    (tmp_path / "7878-cut.log.gz").write_bytes(_cut(AT_300))
    code, out, err = run(tmp_path)
    fault = (
        f"{tmp_path}/7878-cut.log.gz: packed with gzip, and cut off or damaged: only the lines before that were read"
    )
    assert (code, err) == (66, f"epicenter: {fault}\n")
    whole, cut = out.splitlines()[2:]
    assert ("7877-whole.log", "cut off" in whole) == (Path(whole.split()[1]).name, False)
    assert f"{fault}. The log shows no failure. The last completed step is 300 of a job of 1000." in cut
    found = [json.loads(line) for line in run("--json", tmp_path)[1].splitlines()]
    assert [(report["primary"], report["faults"]) for report in found] == [("oom-gpu", []), (None, [fault])]


def test_a_cut_log_in_a_folder_of_all_nodes_is_only_that_of_its_job(tmp_path: Path) -> None:
    write_log(tmp_path / "a.log", [*steps(0, 60), TRACEBACK, OOM])
    (tmp_path / "b.log.gz").write_bytes(_cut(steps(0, 60)))
    reports = reports_at(str(tmp_path), tmp_path, JobReader(the_rules(), "default"), Circumstances(), [])
    assert [(report.name, len(report.faults)) for report in reports] == [("log:a", 0), ("log:b", 1)]


UNUSUAL: dict[str, tuple[bytes, str, str | None]] = {
    "no-steps": ("\n".join([*HEAD, *summary(0)]).encode(), "completed", None),
    "latin-1": ("\n".join([*AT_300, TRACEBACK, OOM, "gelöscht"]).encode("latin-1"), "failed", "oom-gpu"),
    "nul-bytes-at-the-head": (b"\0" * 4096 + "\n".join(FAILED).encode(), "failed", "oom-gpu"),
    "carriage-returns": ("\r\n".join(FAILED).encode(), "failed", "oom-gpu"),
    "torn-line": ("\n".join(AT_300).encode()[:-60], "unknown-death", "unknown-death"),
    "torn-character": ("\n".join([*AT_300, "schö"]).encode()[:-1], "unknown-death", "unknown-death"),
    "huge-line": (b"x" * (2 << 20) + b"\n" + "\n".join(FAILED).encode(), "failed", "oom-gpu"),
    "json-lines": (
        b"\n".join(json.dumps({"message": line, "timestamp": iso(1)}).encode() for line in FAILED),
        "failed",
        "oom-gpu",
    ),
}


@pytest.mark.parametrize(("content", "status", "primary"), UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_files_get_a_correct_report(content: bytes, status: str, primary: str | None, tmp_path: Path) -> None:
    log = tmp_path / "7877-odd.log"
    log.write_bytes(content)
    os.utime(log, ns=(LATER_NS, LATER_NS))
    report = report_on(log, LATE)
    assert (report.status, report.primary) == (status, primary)


def test_a_path_that_is_no_utf_8(tmp_path: Path, run: Run) -> None:
    log = tmp_path / os.fsdecode(b"7877-\xff.log")
    write_log(log, FAILED)
    _, out, _ = run("--json", log)
    report = json.loads(out)
    assert (report["path"], report["primary"]) == (f"{tmp_path}/7877-\ufffd.log", "oom-gpu")


def test_a_cut_off_log_is_reported_as_such(tmp_path: Path, run: Run) -> None:
    log = write_log(tmp_path / "a.log", [*AT_300, "I0302 09:25:04.1 140110937 metric_lo"], end="")
    out = ticket(report_on(log, LATE))
    assert "Is the log cut off? **perhaps: its last line has no end**" in out
    assert "\n      I0302 09:25:04.1 140110937 metric_lo\n" in out


# frameworks

FRAMEWORKS = {
    "maxtext": ([maxtext(step) for step in range(20)], 0, 19),
    "maxtext-labelled": ([maxtext(step, task=task) for step in range(20) for task in range(3)], 0, 19),
    "megatron": ([megatron(step) for step in range(1, 21)], 1, 20),
    "lightning": ([lightning(0, step) for step in range(1, 21)], 1, 20),
}


@pytest.mark.parametrize(("lines", "first", "last"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_steps_of_many_frameworks_are_counted(lines: list[str], first: int, last: int, tmp_path: Path) -> None:
    progress = report_on(write_log(tmp_path / "a.log", lines)).progress
    assert (progress.first_step, progress.last_step, progress.attempts) == (first, last, 1)


# the screen


def test_a_failed_job_fits_on_a_screen_with_its_state_cause_and_next_steps(tmp_path: Path, run: Run) -> None:
    _, out, _ = run(write_job(tmp_path, "7877-llama", FAILED))
    lines = out.splitlines()
    assert lines[0] == "Job 7877  failed · Training · step 300 of 1000 · 100 steps lost (8 min 20 s)"
    assert [line for line in lines if line in ("Why", "What to do", "Proof", "Checked")] == [
        *("Why", "What to do", "Proof", "Checked")
    ]
    assert len(lines) <= 40


@pytest.mark.parametrize(
    ("lines", "first", "second"),
    [
        (["Hello.", "Good bye."], "a.log  no job in this log", "There is no job in this log, and nothing was found."),
        (
            [maxtext(1)],
            "a.log  neither the start nor the end of a job · Training · step 1",
            "The log shows steps 1 to 1, but neither",
        ),
    ],
    ids=["no-job", "a-step"],
)
def test_a_log_without_a_job_invents_none(lines: list[str], first: str, second: str, tmp_path: Path, run: Run) -> None:
    _, out, _ = run(write_log(tmp_path / "a.log", lines))
    shown = out.splitlines()
    assert shown[0] == first
    assert shown[1].strip().startswith(second)
    assert len(shown) == 2


@pytest.mark.parametrize("more", [[], ["--full"]], ids=["screen", "ticket"])
def test_an_earlier_attempt_is_on_the_screen_of_a_failed_and_of_a_completed_job(
    more: list[str], tmp_path: Path, run: Run
) -> None:
    first = [*HEAD, *steps(0, 40), TRACEBACK, OOM]
    later = [*HEAD, *steps(0, 60)]
    for name, end in (("7877-a.log", [TRACEBACK, OOM, *summary(1)]), ("7878-b.log", summary(0))):
        _, out, _ = run(write_log(tmp_path / name, [*first, *later, *end]), *more)
        assert "Attempt 1 failed after step 40, at 2026-03-02 09:03:20Z, line " in out


def test_an_unnamed_bar_is_on_the_screen_as_such(tmp_path: Path, run: Run) -> None:
    bars = [f" {share:2}%|▎         | {10 * share}/1000 [00:12<06:30,  2.49it/s]" for share in range(1, 40)]
    _, out, _ = run(write_log(tmp_path / "a.log", [*bars, TRACEBACK, "KeyError: 'x'"]))
    assert out.splitlines()[0] == "a.log  failed · a bar without a name at 390 of 1000"


def test_jobs_of_a_folder_get_a_section_each_and_the_nodes_one(tmp_path: Path, run: Run) -> None:
    for job, lines in (("4242", steps(0, 300)), ("4343", [*steps(0, 300), TRACEBACK, OOM])):
        write_log(tmp_path / "cluster" / f"job-{job}" / "rank0.log", lines)
    kernel = f"{iso(1500)} n9 kernel: NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=x, GPU has fallen off the bus."
    write_log(tmp_path / "cluster" / "kern.log", [kernel])
    _, out, _ = run("--json", tmp_path / "cluster")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(report["job"], report["status"], report["primary"]) for report in found] == [
        ("4242", "running", None),
        ("4343", "failed", "oom-gpu"),
        ("", "no-job", "xid-79"),
    ]


def fell_off(second: int, node: str) -> str:
    return f"{iso(second)} {node} kernel: NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=x, GPU has fallen off the bus."


def test_a_folder_with_a_job_s_and_the_kernel_s_log_names_the_broken_node(tmp_path: Path, run: Run) -> None:
    end = f"{iso(203)} srun: error: n9: task 2: Exited with exit code 1"
    lines = [*steps(0, 40), f"{iso(202)} [rank2] RuntimeError: CUDA error: unspecified launch failure", end]
    write_log(tmp_path / "job" / "slurm-9301.out", lines)
    write_log(tmp_path / "job" / "kern.log", [fell_off(201, "n9")])
    _, out, _ = run("--json", tmp_path / "job")
    (report,) = [json.loads(line) for line in out.splitlines()]
    root = report["incident"]["root_cause"]
    assert (report["job"], report["primary"], root["node"]) == ("9301", "xid-79", "n9")


def test_other_incidents_of_a_node_s_log_are_on_the_screen_and_in_json(tmp_path: Path, run: Run) -> None:
    log = write_log(tmp_path / "kern.log", [fell_off(0, "n1"), fell_off(9000, "n2")])
    _, out, _ = run("--json", log)
    report = json.loads(out)
    (other,) = report["other_incidents"]
    assert {report["incident"]["incident_id"], other["id"]} == set(report["incidents"])
    assert other["class"] == "xid-79"
    _, screen, _ = run(log)
    assert screen.split("Also found")[1].split()[:2] == ["-", other["title"].split()[0]]
    assert all(f"on {node}" in screen for node in ("n1", "n2"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [("triage", "1 record could not be processed: "), ("replay", "0 incidents, 1 dead letter: ")],
)
def test_records_that_could_not_be_processed_are_counted(command: str, expected: str, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"message": 5, "broken\n')
    done = CliRunner().invoke(cli, [command, str(log)])
    assert expected in done.output


# the ticket


def test_the_ticket_has_the_sections_of_the_seed(tmp_path: Path, run: Run) -> None:
    _, out, _ = run("--full", write_job(tmp_path, "7877-llama", FAILED))
    assert re.findall("^#+ .+$", out, re.MULTILINE) == [
        f"## Job triage: {tmp_path}/7877-llama",
        "### What happened",
        "### Evidence",
        "### Training progress projection",
        "### Diagnosis",
        "### Recommended next steps",
    ]
    assert "**Status:** failed  \n**Primary failure:** oom-gpu  \n**Stage:** Training  \n" in out
    assert f"**Log:** {tmp_path}/7877-llama/log  \n" in out


def test_the_ticket_has_the_projection_table(tmp_path: Path) -> None:
    out = ticket(report_on(write_log(tmp_path / "a.log", FAILED)))
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", out, re.MULTILINE))
    assert rows == {
        "Metric": "Value",
        "Start": "fresh",
        "Steps completed (this run)": "301 steps (step 0 through 300)",
        "Overall progress": "301/1000 (30.1 %)",
        "Steady-state step time": "5.000 s",
        "Last step made": "2026-03-02T09:25:00Z",
        "Expected step by now": "300",
        "Last periodic ckpt this run": "step 200",
        "Progress lost": "100 steps (8 min 20 s) since the last ckpt",
        "Estimated time remaining": "58 min 15 s",
    }


def test_the_ticket_of_a_hang_shows_the_gap(tmp_path: Path) -> None:
    out = ticket(report_on(write_log(tmp_path / "a.log", AT_300), 1500 + 3000, "RUNNING"))
    assert "**Status:** hanging" in out
    assert "| Expected step by now | 900 (600 ahead of the last one) |" in out


def test_the_ticket_of_a_cancelled_hang_names_the_hang(tmp_path: Path) -> None:
    lines = [*AT_300, scancel(1500 + 9000), *summary(143, CANCELLED)]
    out = ticket(report_on(write_log(tmp_path / "a.log", lines)))
    assert "**Status:** cancelled  \n**Primary failure:** hang  \n" in out
    assert "- cancelled: Job cancelled (once at line 311; part of the ending)" in out


NASTY = {
    "colour": "\x1b[31mred\x1b[0m",
    "window-title": "\x1b]0;owned\x07",
    "c1-control": "\x9b2J",
    "carriage-return": "ok\rgone",
    "right-to-left": "\u202egnp.exe",
    "image": "![x](http://x.example/y.png)",
    "html": "<img src=x>",
    "heading": "\n# owned",
    "row": "a | b |",
    "fence": "```\n# owned",
}


@pytest.mark.parametrize("nasty", NASTY.values(), ids=NASTY)
def test_log_text_is_sanitized_on_a_terminal_and_in_a_ticket(nasty: str, tmp_path: Path) -> None:
    node = f"n1{nasty}"
    value = {"timestamp": iso(1501), "host": node, "message": f"{OOM} {nasty}"}
    lines = [*AT_300, json.dumps(value), f"ssh -L 8265:h:8265 -L 6006:h:6006 -L 9191:h:9191 {nasty}", f"end {nasty}"]
    report = report_on(write_log(tmp_path / "a.log", lines, end=""), LATE)
    for out in (ticket(report), table([report])):
        assert sorted({character for character in out if not character.isprintable()}) == ["\n"]
        prose = [line for line in out.splitlines() if not line.startswith("      ")]
        assert [line for line in prose if re.search(r"(?<!\\)(?:\[x\]|<img|```)|^# owned", line)] == []


def test_a_table_keeps_its_columns(tmp_path: Path) -> None:
    value = {"timestamp": iso(1501), "host": "n1 | n2", "message": OOM}
    out = table([report_on(write_log(tmp_path / "a.log", [*AT_300, json.dumps(value)]))] * 2)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in out.splitlines()} == {6}
