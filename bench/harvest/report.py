"""The figures as text, as JSON and as docs/source-coverage.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harvest.score import Row, Share
from bench.harvest.state import Changes

DOCUMENT = Path(__file__).parents[2] / "docs/source-coverage.md"
HEADINGS = (
    "producer",
    "version",
    "level",
    "messages",
    "by text",
    "by shape",
    "fatal, named",
    "fatal, by text",
    "noise, an error",
)
MAX_SHOWN = 5
INTRODUCTION = """\
# Which failure messages of other programs' source code are named

Every message that a producer can print is in its source code: a format with holes. `python -m bench.harvest` reads
these formats, fills the holes with plausible values, and scans the lines as `epicenter match` does. The sources are not
in this repository, and neither are their texts: `bench/harvest/labels` and `docs/source-coverage.json` have ids only.

| column | meaning |
|---|---|
| messages | different formats with at least six letters of fixed text |
| by text | named by a rule that knows the message |
| by shape | named only by rules that also name messages without meaning in such a line |
| fatal, named | of those judged able to kill or stall a job, its start, a node or a server: how many are named |
| fatal, by text | how many of the same are named by a rule that knows the message |
| noise, an error | of those judged noise: how many a rule of severity `error` or `critical` names |

In brackets is the 95 % interval (Wilson) of the share. A message counts once, however often it is printed. Unused code
and debug builds are in; messages in variables, and what wrappers of a log call print, are out. Rules of class
`unnamed-failure` and `python.exception_line` name by shape, whatever they match.
"""
HOW = """
## How to run it again

Put checkouts (`git archive` is enough, with the output of `git describe` in a file `VERSION`) or unpacked packages into
one folder, each named as its `folder` in `bench/harvest/producers.yaml`. Those that are missing are left out.

```sh
pip install -e '.[harvest]'
python -m bench.harvest SOURCES
python -m bench.harvest SOURCES --write
```

| option | what it does |
|---|---|
| none | prints the table, and what changed since it was last written |
| `--only nccl` | reads only this producer; may be repeated |
| `--unnamed` | prints the messages that no rule names too |
| `--words` | prints what the [words](rules.md#tables) of messages suggest, as if no rule named one |
| `--sample nccl` | prints messages of errors that are not judged yet, in random order |
| `--check-examples` | lists examples of rules that no text of their producer fits; see below |
| `--json` | prints a line of JSON for each row instead |
| `--write` | writes this page and the ids |

## Examples of rules

The examples of a rule whose `references` are all harvested must be what these producers print: the test
`tests/unit/bench/test_example_record.py` fails for one that is not in `bench/harvest/examples.tsv`. Write it there with

```sh
python -m bench.harvest SOURCES --check-examples --write
```

which reads only producers that have an example to look for, in all their versions: those of Linux 3.10 are in
`linux@3.10` next to `linux`. It keeps what it once found, so the sources of your own rule's producer are enough. If it
finds nothing, look up the text in the producer's source code, older versions included. If another program prints it,
name that program in `references`. `bench/harvest/examples_of_others.yaml` is for the few examples that have no source
code, with the reason.

## How to judge messages

To judge messages, add rows to the producer's file in `bench/harvest/labels`: the id; then `fatal`, `degraded` or
`noise` and perhaps the class that fits, by a first and by a second reader. Messages on which they disagree don't count.
The present labels are of one or two readers, from the text alone. A line of Ray's level C is fatal whatever it says:
Ray prints it as its process aborts (`RAY_CHECK`, `RAY_LOG(FATAL)`).
"""


def as_document(rows: Iterable[Row]) -> str:
    """The page."""
    first, *others = ["| " + " | ".join(line) + " |" for line in (HEADINGS, *map(cells, rows))]
    table = [first, "|---|---|---|---:|---:|---:|---|---|---|", *others]
    return INTRODUCTION + "\n" + "\n".join(table) + "\n" + HOW


def as_text(rows: Sequence[Row]) -> str:
    """The same table for a terminal."""
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row of the table."""
    named = [_percent(count, row.templates) for count in (row.specific, row.shape)]
    return (
        *(row.producer, row.version, row.level, f"{row.templates:,}", *named),
        *map(_share, (row.fatal_named, row.fatal_specific, row.noise_alarmed)),
    )


def _percent(count: int, total: int) -> str:
    return f"{count} ({count / total:.1%})" if total else "–"


def _share(share: Share) -> str:
    low, high = share.interval
    return f"{share.hits} of {share.total} ({low:.0%} to {high:.0%})" if share.total else "–"


def changes_as_text(producer: str, found: Changes, texts: Mapping[str, str]) -> list[str]:
    """Lines on what changed; texts of vanished messages are not known."""
    lines = []
    for name in ("new", "vanished", "newly_named", "no_longer_named"):
        ids: list[str] = getattr(found, name)
        if ids:
            lines.append(f"{producer}: {len(ids)} {name.replace('_', ' ')} since {found.since}")
            lines += [f"  {identifier} {texts.get(identifier, '')}" for identifier in ids[:MAX_SHOWN]]
    return lines


def as_json(row: Row, found: Changes | None) -> dict[str, Any]:
    """A row with everything that its text has."""
    fields = row._asdict()
    for name in ("fatal_named", "fatal_specific", "noise_alarmed"):
        share: Share = fields[name]
        fields[name] = {"hits": share.hits, "total": share.total, "interval": share.interval}
    return {**fields, "changes": found}
