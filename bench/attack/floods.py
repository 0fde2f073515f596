"""Too much of everything: one message, bounded time and memory, and the failure after the flood is found."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from typing import Final
from urllib.parse import urlsplit

from bench.attack.arena import Arena, Attack, Follower, append, command, kernel, must, off_bus

DEAD_LETTERS: Final = 100_000
LONG_LINE: Final = 16 << 20
STREAMS: Final = 1_000
MAX_PEAK_MB: Final = 1_500
CHECK_WITHIN_S: Final = 60
MAX_MESSAGE: Final = 4_000
BRACKETS: Final = "[" * 100_000
LAUGHS: Final = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 20)
)
HOSTILE_YAML: Final = {"brackets": BRACKETS, "aliases": LAUGHS, "braces": "{" * 100_000, "dashes": "- " * 100_000,
                       "zeros": "\0" * 1000, "indent": "\n".join(" " * n + "a:" for n in range(3000))}  # fmt: skip
PATTERNS: Final = ("(a+)+", "(a|a)*", "(.*)*", "((a{1,900}){1,900}){1,900}", "(a?){500}")
COMPILED_WITHIN_S: Final = 200
TEMPLATES: Final = (
    "{{ 10**(10**10) }}",
    "{{ 'a' * 10**10 }}",
    "{% for i in range(10**12) %}x{% endfor %}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ '%10000000000d' % 1 }}",
    "{{ 'x'.ljust(10**11) }}",
    "{{ [0] * 10**11 }}",
    "{% set a = 'x' * 1000000 %}{% set b = a * 100000 %}{{ b }}",
)
PACK: Final = """pack: hostile
rules:
  - id: hostile.rule
    title: Hostile
    class: storage-timeout
    source: worker
    patterns: ['{pattern}']
    extract: ['hostile (?P<path>{extract})x$']
    severity: error
    role: root
    entity: storage
    meaning: An attack.
    next_steps: [Nothing.]
    action: observe
    examples: {{matches: [hostile aa end, hostile aaa end], near_misses: [hostile]}}
"""


def hostile_yaml(arena: Arena) -> None:
    """Deep, wide and exploding documents for every command that reads one."""
    data = ("--data-dir", arena.folder / "data")
    for name, text in HOSTILE_YAML.items():
        file = arena.folder / f"{name}.yaml"
        file.write_text(text)
        _must_refuse(name, "alerts", "check", file)
        _must_refuse(name, "match", "--rules", file, "/dev/null")
        _must_refuse(name, "run", "--once", "--topology", file, *data, "/dev/null")


def hostile_patterns(arena: Arena) -> None:
    """Patterns, and captures of fields, that need exponential time; lines that they need it for."""
    log, file = arena.logs / "a.log", arena.folder / "pack.yaml"
    append(log, "".join(f"hostile {'a' * count}{rest}\n" for count in (40, 5_000) for rest in ("!", " end", " end!")))
    for hostile in PATTERNS:
        for pattern, extract in ((f"hostile {hostile} end", "a+ end"), ("hostile a{1,5000} end", hostile)):
            file.write_text(PACK.format(pattern=pattern, extract=extract))
            answer = command("match", "--rules", file, log, within_s=COMPILED_WITHIN_S)
            must(len(answer.out) < 20 * MAX_MESSAGE, f"{pattern}: {len(answer.out)} characters")


def hostile_templates(arena: Arena) -> None:
    """Templates that compute for ever, or reach for Python."""
    file = arena.folder / "alerts.yaml"
    for template in TEMPLATES:
        file.write_text("route: {targets: [t]}\ntargets:\n  t: {type: webhook, url: 'http://127.0.0.1:1/'}\n"
                        f'templates:\n  t: {{title: "{template}"}}\n')  # fmt: skip
        _must_refuse(template, "alerts", "check", file)


def _must_refuse(name: str, *words: object) -> None:
    answer = command(*words, within_s=CHECK_WITHIN_S)
    must(answer.code not in (0, 70, -9, -6, -11), f"{name}: {words[0]} {words[1]}: {answer.code}: {answer.out[:500]!r}")
    must(len(answer.out) < MAX_MESSAGE, f"{name}: {words[0]} {words[1]}: {len(answer.out)} characters")


def dead_letters(arena: Arena) -> None:
    """100,000 records without a message; then a failure."""
    with Follower(arena.folder / "run", arena.logs).running() as run:
        append(arena.logs / "bad.jsonl", '{"message": null, "host": "n1"}\n' * DEAD_LETTERS)
        _must_find_after(arena, run)


def long_lines(arena: Arena) -> None:
    """Lines of 16 MB, and one that never ends; then a failure in another file."""
    with Follower(arena.folder / "run", arena.logs).running() as run:
        line = kernel("n1", "x" * LONG_LINE)
        append(arena.logs / "long.log", line * 4 + line[:-1])
        _must_find_after(arena, run)


def matching_lines(arena: Arena) -> None:
    """50,000 failures of one node within a second; then one of another."""
    with Follower(arena.folder / "run", arena.logs).running() as run:
        append(arena.logs / "storm.log", off_bus(arena.node()) * 50_000)
        _must_find_after(arena, run)


def _must_find_after(arena: Arena, run: Follower) -> None:
    append(arena.logs / "kern.log", off_bus(node := arena.node()))
    run.must_find(node, within_s=200)
    run.must_be_calm()
    must(run.peak_mb < MAX_PEAK_MB, f"{run.peak_mb:.0f} MB")
    must(len(run.output) < 20 * MAX_MESSAGE, f"{len(run.output)} characters of output")


def event_streams(arena: Arena) -> None:
    """1,000 event streams that read nothing; the page answers others."""
    append(arena.logs / "kern.log", off_bus(node := arena.node()))
    with Follower(arena.folder / "run", arena.logs).running() as run, ExitStack() as stack:
        run.must_find(node)
        place = urlsplit(run.url)
        for _ in range(STREAMS):
            with suppress(OSError):
                wire = stack.enter_context(socket.create_connection((place.hostname or "", place.port or 0), 10))
                wire.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        _must_find_after(arena, run)
        must(run.get("/api/incidents", timeout_s=10), "the page answers")


ATTACKS: Final[dict[str, Attack]] = {
    "hostile YAML": hostile_yaml,
    "hostile patterns": hostile_patterns,
    "hostile templates": hostile_templates,
    "dead letters": dead_letters,
    "long lines": long_lines,
    "matching lines": matching_lines,
    "event streams": event_streams,
}
