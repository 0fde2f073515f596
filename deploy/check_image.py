"""Runs deploy/Dockerfile without Docker: the COPY and RUN lines of its stage `build`, in a folder.

    python deploy/check_image.py [PYTHON]

PYTHON replaces the interpreter of the base image. Then the image's commands run from that folder, without anything that
only developers have. It takes a minute and downloads the runtime dependencies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "deploy/Dockerfile"
UNWANTED = ("chdb", "pandas", "pyarrow", "pytest", "mypy", "setuptools", "pip")
UNREACHABLE = 69
LINES = "Nov 22 06:53:40 node0003 kernel: NVRM: Xid (PCI:0000:43:00): 79, pid=1, GPU has fallen off the bus.\n"


def stage(name: str) -> list[tuple[str, str]]:
    """The instructions of one stage of the Dockerfile, each in one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)
    (found,) = (text for text in stages if text.splitlines()[:1] == [f"base AS {name}"])
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in found.splitlines()[1:] if line]


def build(base: Path, python: str) -> Path:
    """Build below `base`. Returns the folder that is /opt/epicenter in the image."""
    subprocess.run([python, "-m", "venv", base / "python"], check=True)
    source, made = base / "src", base / "opt/epicenter"
    source.mkdir()
    env = {"PATH": f"{base}/python/bin:/usr/bin:/bin", "HOME": str(base), **_proxies()}
    for kind, rest in stage("build"):
        if kind == "COPY":
            *files, target = rest.split()
            for file in files:
                _copy(ROOT / file, source / target)
        if kind == "ENV":
            env |= dict(assignment.split("=", 1) for assignment in rest.split())
        if kind == "RUN":
            command = rest.replace("/opt/epicenter", str(made)).replace("/wheels", f"{base}/wheels")
            subprocess.run(["sh", "-ec", command], cwd=source, env=env, check=True, stdout=subprocess.DEVNULL)
    return made


def check(made: Path, work: Path) -> None:
    """Run the image's commands, as a user who can write to one folder only."""
    packages = {path.name.split("-")[0].lower() for path in made.glob("lib/python*/site-packages/*")}
    assert not packages & set(UNWANTED), f"not for the image: {sorted(packages & set(UNWANTED))}"
    begun_s = monotonic()
    run(made, work, "epicenter", "worker", "--kafka", "127.0.0.1:1", "--data-dir", "data", code=UNREACHABLE)
    took_s = monotonic() - begun_s
    assert not list(work.glob(".cache/epicenter/patterns/*")), "the rules' patterns were compiled again"
    (work / "log").write_text(LINES)
    assert "worker" in run(made, work, "epicenter", "--help")
    assert "no problems" in run(made, work, "epicenter", "rules", "lint")
    assert '"nvidia.xid_79"' in run(made, work, "epicenter", "match", "--json", "log")
    run(made, work, "python", "-c", "from epicenter.stream import app, worker; from epicenter.stream.local import page")
    run(made, work, "python", str(ROOT / "deploy/dev/load.py"), "--help")
    run(made, work, "python", "-m", "epicenter.stream.process.health_probe", "1", code=1)
    size_mb = sum(file.stat().st_size for file in made.rglob("*") if not file.is_symlink()) / 1e6
    print(f"image: {size_mb:.0f} MB above the base image, a worker connects to Kafka after {took_s:.1f} s")


def run(made: Path, work: Path, program: str, *arguments: str, code: int = 0) -> str:
    """The output of a program of the image; its exit code has to be `code`."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(work)}
    command = [str(made / "bin" / program), *arguments]
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{command}: {done.returncode}: {done.stderr}"
    return done.stdout


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _proxies() -> dict[str, str]:
    """The settings with which pip reaches this machine's package index."""
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "PIP_" in name}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="epicenter-image-") as folder:
        base = Path(folder)
        (base / "work").mkdir()
        check(build(base, sys.argv[1] if len(sys.argv) > 1 else sys.executable), base / "work")
