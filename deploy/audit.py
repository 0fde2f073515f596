"""`python -m deploy.audit`: known vulnerabilities of what requirements.lock pins, by pip-audit from OSV's database.

The exit code is 1 if there are any, or if pip-audit can't read the lock. If the database can't be reached, it prints
NOT AUDITED and exits with 0: a build without a network is not a failure, but you must see that nothing was checked.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import orjson

LOCK: Final = Path(__file__).parents[1] / "requirements.lock"
MAX_S: Final = 300
NOT_REACHED: Final = ("requests.exceptions.", "pip_audit._service.", "ERROR:pip_audit._cli:Tip: your network")
"""How pip-audit's last line begins when it can't reach the database."""


def audit(lock: Path, *more: str) -> tuple[str, int]:
    """The report and the exit code; `more` are further options of pip-audit."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), "--disable-pip", "--require-hashes", "-s", "osv"]
    command += ["-f", "json", "--progress-spinner", "off", *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_S, check=False)
        packages = orjson.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return f"NOT AUDITED: no answer within {MAX_S} s", 0
    except (ValueError, KeyError):
        reason = _last_line(done.stderr)
        return f"NOT AUDITED: {reason}", 0 if reason.startswith(NOT_REACHED) else 1
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        return "NOT AUDITED: the database of vulnerabilities can't be reached from here", 0
    found = [_line(package, fault) for package in packages for fault in package.get("vulns", ())]
    summary = f"{len(packages) - len(skipped)} of {len(packages)} packages checked, {len(found)} vulnerabilities"
    return "\n".join([*found, summary]), 1 if found else 0


def _line(package: dict[str, Any], fault: dict[str, Any]) -> str:
    fixed = ", ".join(fault["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {fault['id']}: fixed in {fixed}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "pip-audit printed nothing"


if __name__ == "__main__":
    report, code = audit(LOCK, *sys.argv[1:])
    print(report)
    sys.exit(code)
