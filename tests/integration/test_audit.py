"""`make audit` with a database that answers and with none; pip-audit is the real one."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest

from deploy.audit import audit
from deploy.dev.process import free_ports

pytestmark = pytest.mark.integration

LOCK = f"sound==1.0 --hash=sha256:{'a' * 64}\nfaulty==2.0 --hash=sha256:{'b' * 64}\n"
FAULT = {
    "id": "GHSA-xxxx-yyyy-zzzz",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "it is faulty",
    "affected": [
        {
            "package": {"name": "faulty", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}


class Database(BaseHTTPRequestHandler):
    """OSV's API: one of the packages has a fault."""

    def do_POST(self) -> None:
        query = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = orjson.dumps({"vulns": [FAULT]} if query["package"]["name"] == "faulty" else {})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.lock"
    file.write_text(LOCK)
    return file


def test_a_vulnerability_is_reported_with_its_fixed_version(lock: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Database)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        report, code = audit(lock, "--osv-url", f"http://127.0.0.1:{server.server_port}/v1/query")
    finally:
        server.shutdown()
        server.server_close()
    assert report.splitlines() == [
        "faulty 2.0: GHSA-xxxx-yyyy-zzzz: fixed in 2.1",
        "2 of 2 packages checked, 1 vulnerabilities",
    ]
    assert code == 1


def test_an_unreachable_database_is_reported_in_one_line_with_exit_code_0(lock: Path) -> None:
    report, code = audit(lock, "--osv-url", f"http://127.0.0.1:{free_ports(1)[0]}/v1/query")
    assert (report.startswith("NOT AUDITED: "), report.count("\n"), code) == (True, 0, 0)


def test_an_invalid_lock_file_fails_the_audit(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("sound==1.0\n")
    report, code = audit(lock)
    assert (report, code) == ("NOT AUDITED: ERROR:pip_audit._cli:requirement sound==1.0 does not contain a hash", 1)
