"""This machine: rule packs, patterns, folders, and who can reach the page and /metrics."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from epicenter.rules.errors import ConfigError, PipelineError
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.rules.packs.topology import read_topology
from epicenter.sinks.net.loopback import is_loopback
from epicenter.stream.checks.finding import Finding, ok, or_ok, problem, refused, warning
from epicenter.stream.rule_tools.trial import proven
from epicenter.stream.scan.prefilter import MARKS
from epicenter.stream.scan.redaction import redactor_of
from epicenter.stream.settings import Settings

MIN_FREE_BYTES: Final = 2 << 30
OTHERS: Final = stat.S_IRWXO
OTHERS_READ: Final = stat.S_IROTH
GROUP_OR_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def rules_of(settings: Settings) -> tuple[RuleSet | None, Finding]:
    """The rules, tested on their examples."""
    try:
        rules = proven(settings.rule_packs, None, MARKS)
    except PipelineError as error:
        return None, refused("rules", error, "fix the packs; `epicenter rules lint` and `rules test` report the same")
    return rules, ok("rules", f"{len(rules.rules)} rules, {len(rules.edges)} causal edges")


def machine_findings(settings: Settings) -> Iterator[Finding]:
    """Everything except the rules."""
    yield _redaction(settings)
    yield topology_finding(settings)
    if settings.secrets_dir:
        yield from secrets_findings(settings.secrets_dir)
    yield from folder_findings(settings.data_dir, lambda folder: shutil.disk_usage(folder).free)
    yield from exposure_findings("page", settings, is_for_people=True)
    yield from exposure_findings("web", settings, is_for_people=False)


def _redaction(settings: Settings) -> Finding:
    try:
        redactor = redactor_of(settings)
    except PipelineError as error:
        return refused("redaction", error, "fix the files of `redact_patterns`")
    if redactor is None:
        return warning("redaction", "off: credentials in log lines are stored and sent", "set `redact` to true")
    return ok("redaction", f"{len(redactor.kinds)} kinds of credentials")


def topology_finding(settings: Settings) -> Finding:
    """The topology file, if one is set."""
    if not settings.topology:
        return ok("topology", "none: causes across racks, switches and rails are not found")
    problems: list[str] = []
    read_topology(settings.topology, problems)
    if problems:
        return refused("topology", ConfigError(problems), "fix that file, or set `topology` to another one")
    return ok("topology", str(settings.topology))


def secrets_findings(folder: Path) -> Iterator[Finding]:
    """Whether other users of this machine can read or change the secrets.

    A folder mounted by Kubernetes has links to world-readable files, behind a folder that only this user can enter.
    """
    text = f"{folder}: not readable by other users"
    yield from or_ok("secrets_dir", text, _open_secrets(folder))


def _open_secrets(folder: Path) -> Iterator[Finding]:
    if not folder.stat().st_mode & OTHERS:
        return
    for file in sorted(folder.iterdir()):
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & OTHERS_READ:
            yield warning("secrets_dir", f"{file}: every user of this machine can read it", f"chmod o-rwx {file}")
        if stat.S_ISREG(mode) and mode & GROUP_OR_OTHERS_WRITE:
            yield problem("secrets_dir", f"{file}: other users can change it", f"chmod go-w {file}")


def folder_findings(folder: Path, free_bytes: Callable[[Path], int]) -> Iterator[Finding]:
    """Whether the data folder can be created or written, and has room."""
    yield from or_ok("data_dir", f"{folder}: writable", _full_folder(folder, free_bytes))


def _full_folder(folder: Path, free_bytes: Callable[[Path], int]) -> Iterator[Finding]:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        text = f"{existing} is not writable for this user"
        yield problem("data_dir", text, "chown it to the user who runs epicenter, or set `data_dir`")
    elif (free := free_bytes(existing)) < MIN_FREE_BYTES:
        yield warning(
            "data_dir", f"{existing}: {free / 1e9:.1f} GB free", "free some space: the embedded store is there"
        )


def exposure_findings(what: str, settings: Settings, is_for_people: bool) -> Iterator[Finding]:
    """A page that other machines can reach needs a token, and a proxy with TLS."""
    host = str(getattr(settings, f"{what}_host", "127.0.0.1"))
    token = getattr(settings, f"{what}_token", None)
    if is_loopback(host):
        yield ok(what, f"{host}: only this machine")
    elif not token:
        text = f"{host}: every machine that reaches it can read it"
        yield problem(what, text, f"set {what}_token, or {what}_host to 127.0.0.1")
    elif is_for_people:
        text = f"{host}: with a token, which is sent unencrypted"
        yield warning(what, text, "put a proxy with TLS in front of it (docs/security.md)")
    else:
        yield ok(what, f"{host}: with a token")
