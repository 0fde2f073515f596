"""The package as users install it: one wheel, built as the image builds it, in a separate environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("ingest", "rules", "sinks", "stream")
OURS: Final = (*FOLDERS, "bench", "deploy", "docs", "epicenter", "tests")
BUILD: Final = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
XID: Final = "Nov 22 06:53:40 node0003 kernel: NVRM: Xid (PCI:0000:43:00): 79, pid=1, GPU has fallen off the bus.\n"

IMPORT_ALL: Final = """
import pkgutil, sys
from importlib import import_module
from pathlib import Path
import epicenter
for module in pkgutil.walk_packages(epicenter.__path__, "epicenter."):
    import_module(module.name)
for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] in {folders!r} or name.startswith("epicenter."):
        print(name, Path(module.__file__).resolve())
"""


def run(*command: str | Path, folder: Path, code: int = 0) -> str:
    """The output of a program that runs in this folder and ends with this exit code."""
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def built(kind: str, source: Path, folder: Path) -> Path:
    """The one `wheel` or `sdist` of this source, in a new folder."""
    folder.mkdir()
    run(sys.executable, "-c", BUILD.format(kind=kind), folder, folder=source)
    (file,) = folder.iterdir()
    return file


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def docker_context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this checkout that .dockerignore lets through."""
    folder = tmp_path_factory.mktemp("context")
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        source, target = ROOT / rule.removeprefix("!"), folder / rule.removeprefix("!")
        if rule.startswith("!") and source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        elif rule.startswith("!") and source.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return folder


@pytest.fixture(scope="module")
def sdist(docker_context: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source package, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    run("tar", "-xf", built("sdist", docker_context, folder / "dist"), folder=folder)
    (unpacked,) = folder.glob("epicenter-*")
    return unpacked


@pytest.fixture(scope="module")
def wheel(docker_context: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", docker_context, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and with the libraries of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin/python"]
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel, folder=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def test_the_wheel_is_the_four_folders_below_one_package(wheel: Path) -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
    wanted = {f"epicenter/{file.relative_to(ROOT)}" for file in files if "__pycache__" not in file.parts}
    package = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert package == wanted | {"epicenter/__init__.py", "epicenter/py.typed"}


def test_a_wheel_of_the_source_package_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    assert contents(built("wheel", sdist, tmp_path / "dist")) == contents(wheel)


def test_the_installed_command_works(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(XID)
    command = environment / "bin/epicenter"
    assert run(command, "--version", folder=tmp_path).startswith("epicenter, version ")
    assert "xid-79" in run(command, "triage", "log", folder=tmp_path)
    where = "import epicenter.rules.model.incident as module; print(module.__file__)"
    assert Path(run(environment / "bin/python", "-c", where, folder=tmp_path)).is_relative_to(environment)


def test_every_module_has_a_single_name_and_file() -> None:
    """Run where `import rules` would find the folder of that name."""
    program = IMPORT_ALL.format(folders=FOLDERS)
    files = dict(line.split(" ", 1) for line in run(sys.executable, "-c", program, folder=ROOT).splitlines())
    wanted = {str(file) for folder in FOLDERS for file in (ROOT.resolve() / folder).rglob("*.py")}
    assert {name.split(".")[0] for name in files} == {"epicenter"}
    assert sorted(files.values()) == sorted(wanted)


def test_a_type_checker_sees_the_types(environment: Path, tmp_path: Path) -> None:
    script = "from epicenter.rules.errors import ConfigError\n\nproblems: int = ConfigError(['x']).problems\n"
    (tmp_path / "script.py").write_text(script)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", environment / "bin/python")
    output = run(*mypy, "--cache-dir", tmp_path / "cache", "script.py", folder=tmp_path, code=1)
    assert 'expression has type "list[str]", variable has type "int"' in output


def modules_that_are_run() -> Iterator[tuple[str, str]]:
    """`python -m MODULE` in deployment files, documents, the Makefile and our code: (file, module)."""
    texts = [ROOT / "Makefile", ROOT / "README.md"]
    for folder in (*FOLDERS, "bench", "deploy", "docs"):
        found = (ROOT / folder).rglob("*")
        texts += [file for file in found if file.suffix in {".md", ".py", ".service", ".sh", ".yaml"}]
    for file in (*texts, ROOT / "deploy/Dockerfile"):
        for module in re.findall(
            r"""\bpython3?["']?,?\s+["']?-m["']?,?\s+["']?([a-z_]+(?:\.[a-z_]+)*)""", file.read_text()
        ):
            if module.split(".")[0] in OURS:
                yield str(file.relative_to(ROOT)), module


def test_every_module_that_is_run_by_name_exists() -> None:
    run_by_name = set(modules_that_are_run())
    assert ("deploy/compose.yaml", "epicenter.stream.process.health_probe") in run_by_name
    missing = {(file, name) for file, name in run_by_name if name.split(".")[0] in FOLDERS or not find_spec(name)}
    assert missing == set()
