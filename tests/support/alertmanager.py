"""The real Alertmanager of Debian's package, on the loopback."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.dev.process import ChildServer, free_ports
from tests.support.programs import unpacked_program

NAME: Final = "prometheus-alertmanager"
BUILT_IN: Final = "/usr/share/prometheus/alertmanager"
HERE: Final = "./" * (len(BUILT_IN) // 2)
_CONFIG: Final = """
route:
  receiver: ours
  group_by: [cluster]
  group_wait: 50ms
  group_interval: 100ms
  repeat_interval: 1h
receivers:
  - name: ours
    webhook_configs: [{{url: "{receiver}", send_resolved: true}}]
"""


@contextmanager
def alertmanager(folder: Path, receiver: str) -> Iterator[str]:
    """Its address; it groups by cluster and notifies `receiver`."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    (folder / "alertmanager.yml").write_text(_CONFIG.format(receiver=receiver))
    command = [
        str(program_for(folder)),
        "--config.file=alertmanager.yml",
        "--storage.path=.",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    server = ChildServer("alertmanager", command, folder, folder, lambda: _answers(f"{url}/-/ready"))
    server.start()
    try:
        yield url
    finally:
        server.stop()


def program_for(folder: Path) -> Path:
    """Debian's build reads its templates from a path that only an installed package has: a copy looks in its folder."""
    program = unpacked_program(NAME, NAME)
    templates = program.parents[1] / "share" / "prometheus" / "alertmanager"
    if Path(BUILT_IN).exists() or not templates.exists():
        return program
    copy = program.with_name(f"{NAME}-here")
    if not copy.exists():
        changed = program.with_name(f"{NAME}-{os.getpid()}")
        changed.write_bytes(program.read_bytes().replace(BUILT_IN.encode(), HERE.encode()))
        changed.chmod(0o755)
        changed.replace(copy)
    for template in templates.glob("*.tmpl"):
        shutil.copy(template, folder)
    return copy


def _answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(url, timeout=5).status == 200)
    except (OSError, urllib.error.URLError):
        return False
