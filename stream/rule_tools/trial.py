"""Tries new rule packs in a separate process: reads, checks and compiles them, and tests them on their examples.

The verdict is one JSON document on standard output. Afterwards the packs are in the cache, so that the calling process
loads them in a fraction of a second.

    python -m epicenter.stream.rule_tools.trial TOPOLOGY PACK...
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from epicenter.rules.errors import ConfigError
from epicenter.rules.match import disk_cache
from epicenter.rules.match.compiled import database
from epicenter.rules.match.disk_cache import digest
from epicenter.rules.packs.load import load
from epicenter.rules.packs.pack_cache import code
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.rule_tools.examples import AllPatterns, example_failures
from epicenter.stream.scan.prefilter import MARKS

MAX_S: Final = 600.0
_KIND: Final = "examples"
_PASSED: Final = b"passed"
LESS_URGENT: Final = 5
"""The niceness of the trial: scanning comes first if both need the same core."""


class Verdict(msgspec.Struct):
    """The problems of the packs, each with its file and line, and the digest of these packs."""

    problems: list[str]
    digest: str = ""


async def tried(packs: Sequence[Path], topology: Path | None) -> Verdict:
    """The verdict of another process, which is killed if this call is cancelled."""
    command = [sys.executable, "-m", "epicenter.stream.rule_tools.trial", str(topology or ""), *map(str, packs)]
    devnull, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=devnull, stdout=pipe, stderr=pipe)
    except OSError as error:
        return Verdict([f"new packs can't be tried: can't start a process: {error}"])
    try:
        out, err = await asyncio.wait_for(process.communicate(), MAX_S)
        return msgspec.json.decode(out, type=Verdict)
    except TimeoutError:
        return Verdict([f"reading and compiling the packs took more than {MAX_S:.0f} s: make them smaller"])
    except msgspec.MsgspecError:
        last_words = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Verdict([f"the process that tries new packs exited with {process.returncode}: {last_words}"])
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def verdict(packs: Sequence[Path], topology: Path | None) -> Verdict:
    """The problems of the packs, including conflicts with the shipped rules."""
    try:
        rules = proven(packs, topology, MARKS)
    except ConfigError as error:
        return Verdict(error.problems)
    compile_all(rules)
    return Verdict([], rules.digest)


def proven(packs: Sequence[Path], topology: Path | None, marks: tuple[str, ...] = ()) -> RuleSet:
    """Rules that pass their examples, or passed before on this machine; the shipped ones passed before the release.

    Raises:
        ConfigError: with every problem.
    """
    rules = load(packs, topology, marks)
    if not packs or disk_cache.load(_KIND, name := digest([_code(), rules.digest.encode()])) == _PASSED:
        return rules
    if failures := example_failures(rules, AllPatterns(rules)):
        raise ConfigError(failures)
    disk_cache.store(_KIND, name, _PASSED)
    return rules


@cache
def _code() -> bytes:
    """The digest of the code that tests rules on examples."""
    own = Path(__file__).parents[2]
    sources = sorted(file for folder in ("ingest", "stream") for file in (own / folder).rglob("*.py"))
    return digest([code(), *(file.read_bytes() for file in sources)]).encode()


def compile_all(rules: RuleSet) -> None:
    """Compile every database of a worker, or find it in the cache."""
    for patterns in ((*rules.expressions, *rules.marks), rules.expressions_beside):
        if patterns:
            database(patterns)


def main() -> None:
    """Try the packs of the command line."""
    os.nice(LESS_URGENT)
    topology, *packs = sys.argv[1:]
    found = verdict([Path(pack) for pack in packs], Path(topology) if topology else None)
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
