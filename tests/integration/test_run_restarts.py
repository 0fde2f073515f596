"""`epicenter run` that is killed and started again: it continues where it was, and no incident stays open for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import msgspec
import pytest
from cramjam import zstd

from epicenter.ingest.collect.positions import FilePosition
from epicenter.rules.model.incident import Resolution
from epicenter.stream.local.saved_state import FILE, SavedState
from tests.integration.test_embedded import append, documents, fetched, started
from tests.support.receiver import Receiver
from tests.support.waiting import COMPILE_S, eventually

pytestmark = pytest.mark.integration

BEGAN = datetime.now(UTC) - timedelta(hours=5)


class Site:
    """A kernel log, a data folder and a webhook."""

    def __init__(self, folder: Path, receiver: Receiver):
        self.logs, self.data, self.config = folder / "logs", folder / "data", folder / "epicenter.toml"
        self.log = self.logs / "kern.log"
        self.receiver = receiver
        self.logs.mkdir()
        self.config.write_text(f'webhook_url = "{receiver.url}"\nsnapshot_every = "1s"\nallowed_lateness = "200ms"\n')

    def write(self, hours: float, text: str) -> None:
        """A line of the kernel, so many hours after the beginning."""
        time = (BEGAN + timedelta(hours=hours)).isoformat()
        append(self.log, f"{time} n1 kernel: [ {hours * 3600:.6f}] {text}\n")

    def rotate(self, to: Path | None = None) -> None:
        """Rename the log, and begin a new one."""
        self.log.rename(to or self.logs / "kern.log.1")
        self.log.touch()

    def run(self) -> AbstractContextManager[tuple[Popen[str], str]]:
        """`epicenter run` on the log, in the background, with the address of its page."""
        return started(self.logs, "--data-dir", self.data, "--config", self.config)

    def saved_lines(self) -> int:
        """How many lines were read when the state was saved."""
        if not (self.data / FILE).exists():
            return 0
        state = msgspec.msgpack.decode(bytes(zstd.decompress((self.data / FILE).read_bytes())), type=SavedState)
        return sum(position.lines for position in state.positions.values() if isinstance(position, FilePosition))

    def wait_for_kinds(self, *kinds: str) -> None:
        """Wait until the webhook got exactly these."""
        eventually(lambda: [kind for kind, _ in self.receiver.titles] == list(kinds), COMPILE_S, f"{kinds}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Receiver().listening() as receiver:
        yield Site(tmp_path, receiver)


def test_an_incident_of_a_log_that_was_rotated_away_ends_as_without_the_restart(site: Site) -> None:
    site.write(0, "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.")
    with site.run() as (process, _):
        site.wait_for_kinds("opened")
        eventually(lambda: site.saved_lines() == 1, COMPILE_S, "the state after the line")
        process.kill()
    site.write(0.1, "usb 1-1: new device")
    site.rotate()
    site.write(2, "usb 1-2: new device")
    with site.run() as (process, page):
        site.wait_for_kinds("opened", "resolved")
        assert fetched(f"{page}healthz")["records"] == 2, "the rest of the old file, and the new one"
    (incident,) = documents("incidents", "list", "--data-dir", site.data)
    assert (incident["status"], incident["resolved_by"]) == ("resolved", Resolution.QUIET)


def test_an_incident_that_no_line_confirms_after_the_state_was_lost_ends_once(site: Site) -> None:
    site.write(0, "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.")
    with site.run() as (process, _):
        site.wait_for_kinds("opened")
        process.kill()
    (site.data / FILE).unlink(missing_ok=True)
    site.rotate(to=site.data / "elsewhere")
    site.write(0.2, "usb 1-2: new device")
    with site.run():
        site.wait_for_kinds("opened", "resolved")
    with site.run():
        site.write(0.3, "NVRM: Xid (PCI:0000:3b:00): 79, pid=48214, name=python3, GPU has fallen off the bus.")
        site.wait_for_kinds("opened", "resolved", "opened")
    newest, oldest = documents("incidents", "list", "--data-dir", site.data)
    assert (oldest["resolved_by"], newest["status"]) == (Resolution.STATE_LOST, "open")


def test_an_incident_that_a_line_confirms_stays_open_without_a_state(site: Site) -> None:
    site.write(0, "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus.")
    with site.run() as (process, _):
        site.wait_for_kinds("opened")
        process.kill()
    (site.data / FILE).unlink(missing_ok=True)
    with site.run():
        site.write(0.3, "NVRM: Xid (PCI:0000:3b:00): 48, pid=48214, name=python3, DBE (double bit error)")
        eventually(lambda: len(site.receiver.titles) > 1, COMPILE_S, "news")
    assert "resolved" not in dict(site.receiver.titles)
