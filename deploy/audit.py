"""`python -m deploy.audit`: known vulnerabilities of what requirements.lock pins, by pip-audit from OSV's database.

Ends with 1 when there are some, and when pip-audit can't read the lock. Where the database can't be reached it says so
in a line and ends with 0: a build without a network is not unsafe for that, and nobody should think that it was looked
at.
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
"""How pip-audit's last line begins when it asked the database in vain."""


def audit(lock: Path, *more: str) -> tuple[str, int]:
    """What is to be told, and the exit code; `more` is given to pip-audit."""
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
        return "NOT AUDITED: the database of vulnerabilities is not reached from here", 0
    found = [_told(package, fault) for package in packages for fault in package.get("vulns", ())]
    looked_up = f"{len(packages) - len(skipped)} of {len(packages)} packages looked up, {len(found)} vulnerabilities"
    return "\n".join([*found, looked_up]), 1 if found else 0


def _told(package: dict[str, Any], fault: dict[str, Any]) -> str:
    fixed = ", ".join(fault["fix_versions"]) or "nothing yet"
    return f"{package['name']} {package['version']}: {fault['id']}: mended in {fixed}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "pip-audit said nothing"


if __name__ == "__main__":
    told, code = audit(LOCK, *sys.argv[1:])
    print(told)
    sys.exit(code)
