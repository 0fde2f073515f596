"""Rule changes without a restart: packs are watched, tried in another process, and loaded between two batches.

A broken pack changes nothing: the old rules stay, and the problem is reported once in the log and on /healthz.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from epicenter.rules.errors import ConfigError
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.load import CATALOG, load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.sinks.text.sanitize import sanitize
from epicenter.stream.rule_tools.trial import compile_all, tried
from epicenter.stream.scan.prefilter import MARKS
from epicenter.stream.settings import Settings

MAX_REPORTED: Final = 10
Outcome = Literal["taken", "unchanged", "broken"]
Fingerprint = frozenset[tuple[str, ...]]


class Reloader:
    """Watches the packs and the topology file of a running process.

    `reload` installs new rules, `record` counts the outcome of a change, `report` logs it.
    """

    def __init__(
        self,
        settings: Settings,
        rules: RuleSet,
        reload: Callable[[RuleSet], Awaitable[None]],
        record: Callable[[Outcome, RuleSet], None],
        report: Callable[[str], None],
    ):
        self._packs, self._topology = settings.rule_packs, settings.topology
        self._every_s = settings.reload_every_ns / NS_PER_S
        self._rules, self._reload, self._record, self._report = rules, reload, record, report
        self._requested = asyncio.Event()
        self._problems: list[str] = []
        self._tried = self._last = self._fingerprint()

    def health(self) -> dict[str, object]:
        """The digest and number of the loaded rules, and the problems of newer ones."""
        return {"digest": self._rules.digest, "count": len(self._rules.rules), "problems": self._problems}

    async def follow(self) -> None:
        """Load every valid change, until cancelled. SIGHUP checks at once."""
        with _handling_hangup(self._requested.set):
            while True:
                if await self._has_changed():
                    await self._try()

    async def _has_changed(self) -> bool:
        """Whether to try the packs now: on request, or if they changed and were then stable for one interval."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._requested.wait(), self._every_s)
        previous, self._last = self._last, self._fingerprint()
        if not self._requested.is_set() and (self._last == self._tried or previous != self._last):
            return False
        self._requested.clear()
        self._tried = self._last
        return True

    async def _try(self) -> None:
        try:
            rules = await self._proven()
        except ConfigError as error:
            self._refuse(error.problems)
        else:
            await self._apply(rules)

    async def _proven(self) -> RuleSet:
        """Rules that passed; packs that change meanwhile are tried again.

        Raises:
            ConfigError: with every problem.
        """
        while True:
            verdict = await tried(self._packs, self._topology)
            if verdict.problems:
                raise ConfigError(verdict.problems)
            rules = await asyncio.to_thread(_ready, self._packs, self._topology)
            if rules.digest == verdict.digest:
                return rules

    async def _apply(self, rules: RuleSet) -> None:
        outcome: Outcome = "unchanged" if rules.digest == self._rules.digest else "taken"
        before, self._problems = self._rules, []
        if outcome == "taken":
            await self._reload(rules)
            self._rules = rules
            self._report(f"{_difference(before, rules)}; {len(rules.rules)} rules loaded ({rules.digest})")
        self._record(outcome, self._rules)

    def _refuse(self, problems: list[str]) -> None:
        self._problems = [sanitize(problem) for problem in problems[:MAX_REPORTED]]
        more = len(problems) - MAX_REPORTED
        lines = [*self._problems, *([f"and {more} more: run `epicenter rules test` to see all"] if more > 0 else [])]
        self._report("\n  ".join(["new rules refused, the old ones stay; fix and save these:", *lines]))
        self._record("broken", self._rules)

    def _fingerprint(self) -> Fingerprint:
        """Names, sizes, times and inodes, with symbolic links resolved."""
        packs = [file for path in self._packs for file in ([path] if path.is_file() else path.glob("*.yaml"))]
        used = [file for file in map(Path, self._rules.files) if CATALOG not in file.parents]
        return frozenset(map(_state_of, (*packs, *used)))


@asynccontextmanager
async def running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run the work as a task during the block; cancel it at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _ready(packs: tuple[Path, ...], topology: Path | None) -> RuleSet:
    """The rules, compiled. Runs in a thread: Hyperscan releases the GIL while it compiles."""
    rules = load(packs, topology, MARKS)
    compile_all(rules)
    return rules


def _state_of(file: Path) -> tuple[str, ...]:
    try:
        stat = file.stat()
    except OSError as error:
        return str(file), str(error.errno)
    return tuple(map(str, (file, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)))


def _difference(before: RuleSet, after: RuleSet) -> str:
    old, new = before.by_id, after.by_id
    changed = sum(old[rule_id].spec != new[rule_id].spec for rule_id in old.keys() & new.keys())
    return (
        f"rules reloaded: {len(new.keys() - old.keys())} new, {changed} changed, {len(old.keys() - new.keys())} removed"
    )


@contextmanager
def _handling_hangup(on_hangup: Callable[[], None]) -> Iterator[None]:
    """The loop's own `add_signal_handler` would take the pipe of the shutdown guard."""
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(on_hangup))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
