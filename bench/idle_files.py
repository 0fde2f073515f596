"""What `epicenter run` costs while nothing is written: the share of a core and the open files, for many followed files.

python -m bench.idle_files [FILES]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from deploy.dev.process import EPICENTER

FILES = 15_000
FILES_A_FOLDER = 1_000
OPEN_FILES = int(os.environ.get("BENCH_OPEN_FILES", 1024))
SETTLES_S = float(os.environ.get("BENCH_SETTLES_S", 30))
MEASURED_S = float(os.environ.get("BENCH_SECONDS", 30))
LINE = "2026-03-01T02:00:00Z n1 kernel: usb 1-1: new device\n"


def main() -> None:
    """Print the share of a core, the open files and the memory of an idle run."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        logs = Path(folder, "logs")
        write_logs(logs, files)
        with run_is_ready(logs, Path(folder, "data")) as pid:
            sleep(SETTLES_S)
            before_s, start_s = cpu_s(pid), monotonic()
            sleep(MEASURED_S)
            share = (cpu_s(pid) - before_s) / (monotonic() - start_s)
            opened = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            print(f"{files:,} files, {OPEN_FILES:,} may be open: {share:.1%} of a core while idle, ", end="")
            print(f"{opened} open files, {resident_mb(pid):.0f} MB")


def write_logs(logs: Path, files: int) -> None:
    """Write so many logs of a line each."""
    for number in range(files):
        file = logs / f"group{number // FILES_A_FOLDER}" / f"rank{number}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LINE)


@contextmanager
def run_is_ready(logs: Path, data: Path) -> Iterator[int]:
    """`epicenter run` on these logs, with a bounded number of open files, once its page is served."""
    limited = ["prlimit", f"--nofile={OPEN_FILES}", *EPICENTER]
    command = [*limited, "run", str(logs), "--data-dir", str(data), "--page-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        address = next((line for line in iter(process.stderr.readline, "") if line.startswith("incidents:")), "")
        assert address, "run ended"
        yield process.pid
    finally:
        process.terminate()
        process.communicate()


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
