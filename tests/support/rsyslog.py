"""A real rsyslog with the shipped configuration, out of Debian's packages; nothing of it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.programs import ProgramMissingError, unpacked_packages
from tests.support.waiting import eventually

ROOT: Final = Path(__file__).parents[2]
SHIPPED: Final = ROOT / "deploy/rsyslog"
PACKAGES: Final = ("rsyslog", "rsyslog-kafka", "librdkafka1", "libestr0", "libfastjson4")
NODE: Final = "node0042"


class Rsyslog:
    """rsyslogd on `deploy/rsyslog/rsyslog.conf`; state, inputs and logs are in `folder`."""

    def __init__(self, folder: Path, kafka: str, topic: str):
        self.folder = folder
        self._env = dict(os.environ) | environment(folder, kafka, topic)
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("state", "inputs", "logs/7877", "jobs", "shared"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def enable(self, *inputs: str) -> None:
        """Use these of the shipped inputs."""
        for name in inputs:
            shutil.copy(SHIPPED / "inputs" / f"{name}.conf", self.folder / "inputs")

    def check(self) -> None:
        """`rsyslogd -N1` must print no error."""
        done = subprocess.run([*_command(), "-N1", "-f", SHIPPED / "rsyslog.conf"], env=self._env, capture_output=True)
        output = done.stderr.decode()
        assert done.returncode == 0, output
        assert "error" not in output, output

    def start(self) -> None:
        """Start, and wait until it has read its configuration."""
        pid_file = self.folder / "pid"
        log = (self.folder / "rsyslogd.log").open("ab")
        command = [*_command(), "-n", "-f", SHIPPED / "rsyslog.conf", "-i", pid_file]
        pid_file.unlink(missing_ok=True)
        process = self._process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log)
        eventually(lambda: pid_file.exists() or process.poll() is not None, 60, "rsyslog runs")
        assert process.poll() is None, (self.folder / "rsyslogd.log").read_text()

    def has_read(self, path: Path) -> bool:
        """Whether it has come to the end of the file."""
        assert self._process
        process = Path(f"/proc/{self._process.pid}")
        for opened in (process / "fd").iterdir():
            with suppress(FileNotFoundError):
                position = re.search(r"pos:\s+(\d+)", (process / "fdinfo" / opened.name).read_text())
                if path.samefile(opened) and position and int(position[1]) == path.stat().st_size:
                    return True
        return False

    def stop(self) -> None:
        """SIGTERM, after which it keeps its queue on the disk."""
        if self._process:
            self._process.terminate()
            self._process.wait(60)
            self._process = None


def environment(folder: Path, kafka: str, topic: str) -> Mapping[str, str]:
    """The variables of the service's unit, with the paths of a test."""
    libraries = _libraries()
    return {
        "LD_LIBRARY_PATH": str(libraries),
        "NODE_NAME": NODE,
        "CLUSTER": "west",
        "KAFKA_BROKERS": kafka,
        "KAFKA_TOPIC": topic,
        "KAFKA_SECURITY_PROTOCOL": "plaintext",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_CA_FILE": "probe",
        "SHIPPER_CONF": str(folder),
        "SHIPPER_STATE": str(folder / "state"),
        "SLURM_OUTPUT": str(folder / "logs/*" / f"{NODE}.*.out"),
        "SLURM_SHARED_OUTPUT": str(folder / "shared/slurm-*.out"),
        "SLURM_DAEMON_LOGS": str(folder / "slurm*d.log"),
        "EPICENTER_JOBS": str(folder / "jobs"),
    }


def _command() -> list[str | Path]:
    libraries = _libraries()
    return [libraries.parents[2] / "usr/sbin/rsyslogd", "-M", libraries / "rsyslog"]


def _libraries() -> Path:
    found = next(unpacked_packages(*PACKAGES).glob("usr/lib/*/rsyslog/omkafka.so"), None)
    if found is None:
        raise ProgramMissingError(f"rsyslog is needed: apt-get download must find {', '.join(PACKAGES)}")
    return found.parents[1]
