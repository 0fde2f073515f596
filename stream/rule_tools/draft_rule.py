"""`epicenter rules draft`: a line that no rule names -> a pack with a rule to complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import yaml

from epicenter.ingest.parse.prefix import peel
from epicenter.ingest.provenance.log_file import open_log, read_fault
from epicenter.rules.errors import InputError
from epicenter.rules.importing.from_line import drafted

HEAD = """\
# Drafted by `epicenter rules draft`. Choose its class, severity, role, entity and action; write its meaning and next
# steps. Then check it: `epicenter rules test --rules FILE` and `epicenter rules lint --rules FILE`.
pack: drafted
rules:
"""
_MAX_LINE_CHARS = 2000


def draft_rule(text: str, files: Sequence[Path], output: Path | None) -> None:
    """Print the pack, or write it.

    Raises:
        InputError: a file can't be read, or the text has too few fixed words.
    """
    seen = [peel(line).body for file in files for line in _lines(file)]
    try:
        rule = drafted(peel(text).body, seen)
    except ValueError as error:
        raise InputError(str(error)) from error
    shown = yaml.safe_dump([rule], sort_keys=False, allow_unicode=True, width=116)
    pack = HEAD + "".join(f"  {line}\n" for line in shown.splitlines())
    if output:
        output.write_text(pack, "utf-8")
    else:
        click.echo(pack, nl=False)


def _lines(file: Path) -> Iterator[str]:
    try:
        with open_log(file) as opened:
            for line in opened:
                yield line.decode("utf-8", "replace").rstrip("\r\n")[:_MAX_LINE_CHARS]
    except OSError as error:
        raise InputError(f"{file}: {read_fault(error)}") from error
