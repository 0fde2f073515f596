"""Our log lines: their forms for people and collectors, and what they never contain."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from aiohttp.http_exceptions import BadHttpMessage

from epicenter.sinks.log import get_logger
from epicenter.stream.cli.main import main
from epicenter.stream.kafka.fault_log import FaultLog, KafkaFault
from epicenter.stream.metrics import Metrics
from epicenter.stream.process.logs import print_message, set_up_logs
from epicenter.stream.process.shutdown import Shutdown, exit_on_sigterm_as_pid_1, run_until_signal

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
log = get_logger("stream.somewhere")
theirs = logging.getLogger("faust.somewhere")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], list[Any]]]:
    """The lines since the logs were set up in this format."""
    before, level = logging.root.handlers[:], logging.root.level

    def read(log_format: str) -> list[Any]:
        written = capsys.readouterr().err.splitlines()
        return [orjson.loads(line) for line in written] if log_format == "json" else written

    yield read
    logging.root.handlers[:] = before
    logging.root.setLevel(level)


def test_a_line_of_json_has_time_level_logger_message_event_and_fields(lines: Any) -> None:
    set_up_logs("json")
    log.warning("snapshot_refused", topic="logs.raw", partition=3, incident_id="abc", target=None)
    (line,) = lines("json")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "stream.somewhere",
        "message": "snapshot_refused topic=logs.raw partition=3 incident_id=abc",
        "event": "snapshot_refused",
        "topic": "logs.raw",
        "partition": 3,
        "incident_id": "abc",
    }


def test_a_line_of_a_library_is_its_message(lines: Any) -> None:
    set_up_logs("json")
    theirs.error("%s left", "n1", extra={"event": "theirs"})
    (line,) = lines("json")
    assert line.pop("time").endswith("Z")
    assert line == {"level": "error", "logger": "faust.somewhere", "message": "n1 left"}


def test_for_people_an_event_is_a_line_of_text(lines: Any) -> None:
    set_up_logs("text")
    log.error("it_broke", node="n1", detail="a = b")
    theirs.error("it broke")
    assert [line.partition(" ")[2] for line in lines("text")] == [
        'ERROR stream.somewhere: it_broke node=n1 detail="a = b"',
        "ERROR faust.somewhere: it broke",
    ]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_text_is_sanitized_and_redacted_even_in_a_traceback(log_format: Any, lines: Any) -> None:
    set_up_logs(log_format)
    try:
        raise ValueError(f"\x1b[31m {TOKEN}")
    except ValueError:
        theirs.exception("\x1b]0;x\x07\nforged: token %s", TOKEN)
        log.exception("failed", token=TOKEN, nested={"\x1b]0;x\x07": [TOKEN]}, error=ValueError("a\nforged"))
    written = str(lines("text"))
    assert written.count("Traceback") == 2 and written.count("[redacted:") >= 5
    assert TOKEN not in written and "\x1b" not in written and written.count("\\nforged") >= 2


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_line_that_can_not_be_formatted_is_reported(log_format: Any, lines: Any) -> None:
    set_up_logs(log_format)
    theirs.warning("%d lines of %s", "many")
    (line,) = map(str, lines(log_format))
    assert "test_logs.py" in line and "can't be written: TypeError" in line
    assert "many" not in line


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_field_without_text_is_reported(log_format: Any, lines: Any) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    set_up_logs(log_format)
    log.warning("store_write_failed", error=Broken())
    (line,) = map(str, lines(log_format))
    assert "stream.somewhere" in line and "can't be written: RuntimeError" in line


def test_before_its_settings_are_read_a_command_logs_text(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["epicenter", "--version"])
    main()
    log.warning("rule_over_budget")
    assert lines("text")[-1].endswith("WARNING stream.somewhere: rule_over_budget")


def test_a_bug_of_a_command_is_reported_without_secrets(lines: Any) -> None:
    set_up_logs("text")
    print_message("this is a bug of ours", exc_info=ValueError(f"\x1b[31m {TOKEN}"))
    written = str(lines("text"))
    assert "ValueError" in written and "this is a bug of ours" in written
    assert TOKEN not in written and "\x1b" not in written


def test_messages_of_commands_are_plain_for_people_and_json_for_programs(lines: Any) -> None:
    set_up_logs("text")
    print_message("incidents: http://127.0.0.1:8017/")
    assert lines("text") == ["incidents: http://127.0.0.1:8017/"]
    set_up_logs("json")
    print_message("7 lines read")
    assert [(line["level"], line["message"]) for line in lines("json")] == [("info", "7 lines read")]


def test_repeated_line_is_logged_once_a_minute_with_its_count(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter((100.0, 101.0, 102.0, 159.0, 161.0))
    monkeypatch.setattr("epicenter.stream.process.log_chain.monotonic", lambda: next(times_s))
    set_up_logs("json")
    for table in ("matches", "matches", "signals", "matches", "matches"):
        log.warning("store_write_failed", table=table)
    written = [(line["table"], line.get("repeated")) for line in lines("json")]
    assert written == [("matches", None), ("signals", None), ("matches", 2)]


def test_lines_of_other_libraries_pass_but_for_two(lines: Any) -> None:
    set_up_logs("json")
    for name in ("mode.worker", "faust.app", "aiohttp.server", "aiokafka.conn"):
        logging.getLogger(name).error("oh")
    assert [line["logger"] for line in lines("json")] == ["mode.worker", "faust.app", "aiohttp.server"]


def test_a_malformed_request_is_a_warning_without_a_traceback(lines: Any) -> None:
    set_up_logs("json")
    error = BadHttpMessage("Transfer-Encoding can't be present with Content-Length")
    logging.getLogger("aiohttp.server").error("Error handling request from %s", "127.0.0.1", exc_info=error)
    (line,) = lines("json")
    assert (line["level"], "exception" in line) == ("warning", False)
    assert line["message"].startswith("Error handling request from 127.0.0.1: 400, message:")
    assert "can't be present" in line["message"]


def test_fault_is_logged_with_kind_topic_partition_and_offset(lines: Any) -> None:
    set_up_logs("json")
    fault_log = FaultLog(Metrics())
    fault_log.record(KafkaFault.RECORDS_LOST, "logs.raw/3:700", "gone")
    fault_log.record(KafkaFault.GROUP_SHARED, "epicenter.store", "again")
    lost, shared = lines("json")
    assert (lost["kind"], lost["topic"], lost["partition"], lost["offset"]) == ("records-lost", "logs.raw", 3, 700)
    assert (shared["event"], shared["kind"], shared["group"]) == (
        "kafka_fault",
        "group-shared",
        "epicenter.store",
    )
    assert shared["message"] == "kafka_fault kind=group-shared group=epicenter.store detail=again"


def test_deadline_is_shared_and_a_second_request_exits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, left = 1000.0, list[int]()
    monkeypatch.setattr("epicenter.stream.process.shutdown.monotonic", lambda: now_s)
    ending = Shutdown(leave=left.append, within_s=9.0)
    assert ending.left_s(60) == 60
    ending.request()
    now_s += 0.1
    ending.request()
    assert not left, "a terminal signals a process and its group"
    now_s += 2
    assert ending.left_s(60, reserve_s=4.0) == pytest.approx(2.9)
    assert ending.left_s(1) == 1
    ending.request(15)
    assert left == [143]
    now_s += 60
    assert ending.left_s(60) == 0


def test_what_is_left_of_the_deadline_decides_whether_python_may_exit_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, left = 1000.0, list[int]()
    monkeypatch.setattr("epicenter.stream.process.shutdown.monotonic", lambda: now_s)
    ending = Shutdown(leave=left.append, within_s=9.0)
    ending.leave_if_late(0)
    ending.request()
    ending.leave_if_late(0)
    assert not left
    now_s += 6.5
    ending.leave_if_late(0)
    assert left == [0]


def test_after_the_work_signals_do_what_they_did_before_and_no_guard_is_left() -> None:
    async def work() -> int:
        to_guard = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(to_guard)
        return to_guard

    before = signal.getsignal(signal.SIGTERM)
    to_guard = run_until_signal(work())
    assert to_guard != -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(to_guard)
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGTERM) == before


def test_process_1_of_a_container_exits_on_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    before, left = signal.getsignal(signal.SIGTERM), list[int]()
    to_guard = signal.set_wakeup_fd(-1)  # a guard that another test started would kill the tests
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    try:
        exit_on_sigterm_as_pid_1()
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(to_guard)
    assert left == [143]


def test_blocked_log_reader_does_not_delay_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    left, full, go_on = list[int](), logging.Handler(), threading.Event()
    monkeypatch.setattr(full, "emit", lambda _: go_on.wait(60))
    monkeypatch.setattr("epicenter.stream.process.shutdown.FLUSH_S", 0.01)
    monkeypatch.setattr(logging.root, "handlers", [full])
    ending = Shutdown(leave=left.append, within_s=0.0)
    ending.request()
    ending.last.join(30)
    assert left == [0]
    go_on.set()


@pytest.mark.parametrize("late_exit_code", [0, 130])
def test_process_exits_after_the_deadline_whatever_hangs(lines: Any, late_exit_code: int) -> None:
    set_up_logs("json")
    left = list[int]()
    ending = Shutdown(leave=left.append, within_s=0.0)
    ending.request(late_exit_code=late_exit_code)
    ending.last.join(10)
    assert left == [late_exit_code]
    assert lines("json")[0]["event"] == "shutdown_deadline_passed"
