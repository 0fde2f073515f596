"""The lines around a line of a file show no part of a private key, wherever the shown lines begin and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.stream.load_settings import load_settings
from epicenter.stream.store.lines import CONTEXT_LINES, Around, find

KEY = [f"MIIEowIBAAKCAQEA{number:04d}" + "q83vAbCd" * 5 + "xyzw" for number in range(50)]
LOG = [
    "step 1",
    "-----BEGIN RSA PRIVATE KEY-----",
    *KEY,
    "-----END RSA PRIVATE KEY-----",
    "RuntimeError: bad key",
    "bye",
]
ERROR = LOG.index("RuntimeError: bad key") + 1
MARK = "[redacted:private-key]"


def shown(tmp_path: Path, lines: list[str], wanted: int, around: Around) -> list[str]:
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")
    found = find(load_settings(data_dir=tmp_path), f"{log}:{wanted}", around)
    return [line.untrusted_log_text for line in found.lines]


@pytest.mark.parametrize(
    ("wanted", "around", "expected"),
    [
        pytest.param(ERROR, Around(3, 1), [MARK, MARK, *LOG[-3:]], id="begins-in-the-key"),
        pytest.param(1, Around(0, 3), [LOG[0], LOG[1], MARK, MARK], id="ends-in-the-key"),
        pytest.param(20, Around(1, 1), [MARK, MARK, MARK], id="within-the-key"),
        pytest.param(20, Around(1, 1, is_raw=True), [MARK, MARK, MARK], id="within-the-key-raw"),
    ],
)
def test_lines_of_a_key_are_redacted_where_its_beginning_is_not_shown(
    tmp_path: Path, wanted: int, around: Around, expected: list[str]
) -> None:
    assert shown(tmp_path, LOG, wanted, around) == expected


def test_the_end_of_a_key_longer_than_the_context_is_redacted(tmp_path: Path) -> None:
    log = [*LOG[:2], *KEY * 8, *LOG[-3:]]
    assert len(KEY) * 8 > 2 * CONTEXT_LINES
    assert shown(tmp_path, log, len(log) - 1, Around(2, 0)) == [MARK, LOG[-3], LOG[-2]]


def test_a_password_on_the_line_after_its_name_is_redacted(tmp_path: Path) -> None:
    pod = ["- name: DB_PASSWORD", "  value: hunter2", "Error: CreateContainerConfigError"]
    assert shown(tmp_path, pod, 3, Around(1, 0)) == ["  value: [redacted:password]", pod[2]]
