"""Marked secrets in every setting and in the logs: none appears in anything that is printed, stored or sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.stream.load_settings import load_settings
from tests.support.logs import kernel, vector
from tests.support.receiver import Receiver

ROOT: Final = Path(__file__).parents[2]
OURS: Final = "MARKEDours5ecret"
THEIRS: Final = "MARKEDtheirs5ecret"
CALL: Final = "import sys; from epicenter.stream.cli.main import main; sys.argv[0] = 'epicenter'; main()"
ALL_ROWS: Final = """
import sys
from epicenter.sinks.clickhouse.client import connect
client = connect(sys.argv[1])
tables = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
for (table,) in client.query(tables + " AND engine NOT LIKE 'Aggregating%'"):
    for row in client.query(f"SELECT * FROM `{table}`"):
        print(table, row)
"""


def python(code: str, *arguments: object, **environment: str) -> tuple[int, str]:
    """(exit code, all output) of this checkout's code in another process."""
    whole = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=120, env=whole, cwd=ROOT)
    return done.returncode, (done.stdout + done.stderr).decode()


WRONG: Final = {
    "webhook_url": [f"hooks.example.org/{OURS}", f"https://h:{OURS}/x", f"https://user:{OURS}@h:99999/x"],
    "store": [[OURS], {"password": OURS}],
    "kafka": [{"sasl_password": OURS}],
    "kafka_password": [OURS, [OURS]],
    "page_token": [[OURS]],
    "allowed_lateness": [f"password={OURS}"],
    "colour": [OURS],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_an_invalid_setting_is_reported_without_its_value(tmp_path: Path, name: str, value: Any) -> None:
    file = tmp_path / "epicenter.toml"
    shown = (
        "{" + ", ".join(f'{key} = "{text}"' for key, text in value.items()) + "}"
        if isinstance(value, dict)
        else json.dumps(value)
    )
    file.write_text(f"{name} = {shown}\n")
    with pytest.raises(ConfigError) as refused:
        load_settings(file)
    assert name in str(refused.value)
    assert OURS not in str(refused.value)
    assert OURS not in repr(refused.value)


@pytest.mark.parametrize("name", ["webhook_url", "store", "page_token", "web_token", "kafka_key_password"])
def test_settings_show_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("EPICENTER_SECRETS_DIR", str(tmp_path))
    (tmp_path / name).write_text(f"https://user:{OURS}@example.org/x\n")
    settings = load_settings()
    assert getattr(settings, name).get_secret_value() == f"https://user:{OURS}@example.org/x"
    assert OURS not in f"{settings!r} {settings} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    "dsn",
    [
        f"http://user:{OURS}@127.0.0.1:9/db",
        f"http://user:{OURS}@127.0.0.1:nine/db",
        f"http://user:x@{OURS}@127.0.0.1:9/db",
        f"postgres://user:{OURS}@127.0.0.1/db",
        f"http://user:x@127.0.0.1:9/db?password={OURS}",
    ],
)
@pytest.mark.parametrize("command", ["migrate", "incidents list"])
def test_commands_report_an_unreachable_store_without_its_password(tmp_path: Path, dsn: str, command: str) -> None:
    given = {"EPICENTER_STORE": dsn, "EPICENTER_KAFKA": "127.0.0.1:9", "EPICENTER_DATA_DIR": str(tmp_path)}
    code, output = python(CALL, *command.split(), **given, EPICENTER_WEBHOOK_URL=f"https://h/{OURS}")
    assert code in (1, 69, 78), output
    assert "store" in output.lower() or "127.0.0.1:9" in output
    assert OURS not in output


def test_a_run_stores_prints_and_sends_no_secret(tmp_path: Path) -> None:
    log, data, folder = tmp_path / "log.jsonl", tmp_path / "data", tmp_path / "secrets"
    folder.mkdir()
    lines = [
        "Traceback (most recent call last):",
        f'    run = start(api_key="{THEIRS}")',
        f"sqlalchemy.exc.OperationalError: can't reach postgresql://u:{THEIRS}@db/runs",
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. token={THEIRS}",
    ]
    xid = f"NVRM: Xid (PCI:0000:9a:00): 79, pid=1, name=x password={THEIRS}, GPU has fallen off the bus."
    key = ["-----BEGIN PRIVATE KEY-----", f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{THEIRS}", "-----END PRIVATE KEY-----"]
    values = [
        *(vector("n1", second, line, "llama") for second, line in enumerate([*lines, *key])),
        kernel("n2", 9, xid),
    ]
    log.write_bytes(b"\n".join([*values, b'{"message": "password=%s' % THEIRS.encode(), b""]))
    with Receiver().listening() as receiver:
        (folder / "webhook_url").write_text(f"{receiver.url}?key={OURS}")
        given = {"EPICENTER_SECRETS_DIR": str(folder), "EPICENTER_DATA_DIR": str(data)}
        code, output = python(CALL, "run", "--once", "--json", log, **given)
    assert code == 0, output
    assert receiver.requests, output
    rows_code, rows = python(ALL_ROWS, f"chdb://{data}/store")
    assert rows_code == 0, rows
    assert {"matches", "incidents", "dead_letters", "deliveries"} <= {row.split()[0] for row in rows.splitlines()}
    assert rows.count("[redacted:api-key]") > 0
    around = ("--before", 20, "--after", 20)
    for command in (
        *(("match", "--json", "--all", log), ("triage", log), ("replay", "--json", log)),
        *(("explain", "newest"), ("logs", f"{log}:6", "--raw", *around)),
        ("logs", "incident:newest#/chain/0", "--json", *around),
    ):
        code, shown = python(CALL, *command, EPICENTER_DATA_DIR=str(data))
        assert code == 0, shown
        assert "[redacted:" in shown
        output += shown
    everything = output + rows + str(receiver.requests)
    assert THEIRS not in everything
    assert OURS not in everything


def test_redaction_can_be_switched_off(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. token={THEIRS}\n")
    assert THEIRS in python(CALL, "match", "--json", log, EPICENTER_REDACT="false")[1]
    assert THEIRS not in python(CALL, "match", "--json", log)[1]


def test_an_invalid_pattern_file_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("secrets:\n  - name: x\n    sought: [xx]\n    patterns: ['(']\n    finds: ['«xx»']\n")
    code, output = python(CALL, "match", ROOT / "README.md", EPICENTER_REDACT_PATTERNS=str(file))
    assert (code, f"{file}:4: x: '('" in output) == (78, True), output
