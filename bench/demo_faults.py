"""Whether `epicenter demo` finds each kind of fault live, and how long it takes: `make demo-faults`.

One demo after the other, on an idle machine; `make demo-faults KINDS="hang nan-loss"` runs only these. Exit code 1 when
one is not found.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from epicenter.ingest.simulate import KINDS

TIMEOUT_S = 300


def main(kinds: Sequence[str]) -> int:
    """Print a row for each kind; the exit code."""
    print("| kind of fault | s | |\n|---|---|---|")
    found = [_is_found(kind) for kind in kinds or sorted(KINDS)]
    print(f"\n{sum(found)} of {len(found)} kinds of fault are found")
    return int(not all(found))


def _is_found(kind: str) -> bool:
    command = [str(Path(sys.executable).with_name("epicenter")), "demo", "--fault", kind, "--no-keep"]
    begin_s = perf_counter()
    with TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [*command, "--folder", folder], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            is_found, found = done.returncode == 0, done.stderr.strip().splitlines()[-1]
        except subprocess.TimeoutExpired:
            is_found, found = False, f"NOT FOUND within {TIMEOUT_S} s"
    print(f"| {kind} | {perf_counter() - begin_s:.0f} | {found} |", flush=True)
    return is_found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
