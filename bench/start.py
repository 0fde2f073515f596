"""How long a command takes to start: with the shipped rules, and with 5,000 more; with and without its cache.

python -m bench.start
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

import yaml

from bench.match import made_up
from deploy.dev.process import EPICENTER

RULES = 5_000
RUNS = 5


def main() -> None:
    """Print a row for each command and each number of rules: the first run, then the median of those after it."""
    with tempfile.TemporaryDirectory(prefix="epicenter-bench-") as folder:
        pack, log = Path(folder, "many.yaml"), Path(folder, "quiet.log")
        log.write_text("step 1\n")
        write_pack(pack, RULES)
        print(f"{'':44}{'cold: wall s':>14}{'CPU s':>8}{'warm: wall s':>14}{'CPU s':>8}")
        for name, packs in (("shipped", []), (f"shipped and {RULES:,} more", ["--rules", str(pack)])):
            for command in (["rules", "list"], ["match", str(log)]):
                env = {**os.environ, "XDG_CACHE_HOME": str(Path(folder, f"{name} {command[0]}"))}
                cold_s, cold_cpu_s = timed([*command, *packs], env)
                warm = [timed([*command, *packs], env) for _ in range(RUNS)]
                warm_s, warm_cpu_s = (median(column) for column in zip(*warm, strict=True))
                label = f"{name}: {' '.join(command[:1] if command[0] == 'match' else command)}"
                print(f"{label:44}{cold_s:14.2f}{cold_cpu_s:8.2f}{warm_s:14.2f}{warm_cpu_s:8.2f}")


def write_pack(file: Path, rules: int) -> None:
    """Write a pack of made-up rules, as a user would."""
    specs = (made_up(number).model_dump(mode="json", by_alias=True, exclude_defaults=True) for number in range(rules))
    file.write_text(yaml.dump({"pack": "many", "rules": list(specs)}, Dumper=yaml.CSafeDumper, sort_keys=False))


def timed(arguments: list[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Seconds that a command takes by the clock, and of CPU."""
    before, start_s = cpu_s(), perf_counter()
    subprocess.run([*EPICENTER, *arguments], env=env, capture_output=True, check=True)
    return perf_counter() - start_s, cpu_s() - before


def cpu_s() -> float:
    """Seconds of CPU of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
