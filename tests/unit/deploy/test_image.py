"""The image: its packages are those that are tested, its Dockerfile is clean, and it finds its cache."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest

from epicenter.rules.match import disk_cache
from epicenter.stream.process.health_probe import is_well

ROOT: Final = Path(__file__).parents[3]
DOCKERFILE: Final = (ROOT / "deploy/Dockerfile").read_text()
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIN: Final = Path(sys.executable).parent
DIGEST: Final = r"@sha256:[0-9a-f]{64}\b"


def locked(name: str) -> dict[str, set[str]]:
    """The hashes of each package and version, for every Python and machine."""
    blocks = re.split(r"\n(?=\S)", (ROOT / name).read_text())
    return {block.split()[0]: set(re.findall(r"sha256:[0-9a-f]{64}", block)) for block in blocks}


def test_the_image_gets_the_versions_that_are_tested() -> None:
    image, tested = locked("requirements-worker.lock"), locked("requirements.lock")
    assert {pin: tested.get(pin) for pin in image} == image, "run `make lock`"
    packages = {pin.split("==")[0] for pin in image}
    assert {re.split(r"[\[<>=~ ]", dependency)[0] for dependency in PROJECT["dependencies"]} <= packages
    assert not {"chdb", "pandas", "pyarrow", "pytest"} & packages


def test_the_dockerfile_has_no_findings() -> None:
    done = subprocess.run([BIN / "hadolint", ROOT / "deploy/Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_everything_that_is_fetched_is_pinned() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert [re.search(DIGEST, image) is not None for image in images] == [True, False, False]
    assert set(images[1:]) == {"base"}
    for install in re.findall(r"pip (?:--\S+ \S+ )?install (.*?)(?: \\)?\n", DOCKERFILE):
        assert "--require-hashes" in install or "--no-index" in install, install


def test_it_runs_without_privileges_and_has_its_version() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "USER 10001:10001\n" in last
    assert "STOPSIGNAL SIGTERM\n" in last
    assert 'ENTRYPOINT ["epicenter"]\n' in last
    assert f'image.version="{PROJECT["version"]}"' in last


def test_copied_files_are_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {file for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for file in line.split()}
    assert let_in == copied


@pytest.mark.long
def test_the_list_of_parts_names_every_package_with_its_version(tmp_path: Path) -> None:
    command = next(line for line in DOCKERFILE.splitlines() if "cyclonedx-py" in line).removeprefix("# ").split()
    command = [str(BIN / command[0]), *command[1:-1], str(tmp_path / "sbom.json")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    parts = json.loads((tmp_path / "sbom.json").read_text())
    assert parts["metadata"]["component"]["name"] == PROJECT["name"]
    listed = {f"{part['name']}=={part['version']}" for part in parts["components"]}
    assert listed == set(locked("requirements-worker.lock"))


def test_the_cache_of_the_image_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "SHIPPED", tmp_path / "image")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "image-to-be"))
    disk_cache.store("kind", "name", b"compiled")
    (tmp_path / "image-to-be/epicenter").rename(tmp_path / "image")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    assert disk_cache.load("kind", "name") == b"compiled"
    assert disk_cache.load("kind", "other") is None
    disk_cache.store("kind", "name", b"newer")
    assert disk_cache.load("kind", "name") == b"newer"


@contextmanager
def answering(status: int) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "well"), [(200, True), (503, False)])
def test_the_health_check_queries_the_process(status: int, well: bool) -> None:
    with answering(status) as port:
        assert is_well(port) is well
    assert not is_well(port)


@pytest.mark.long
def test_the_steps_of_the_dockerfile_give_an_image_that_works() -> None:
    subprocess.run([sys.executable, ROOT / "deploy/check_image.py"], check=True)
