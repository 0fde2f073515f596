"""Known lines as other programs pass them on: behind a launcher's prefix, exported, quoted, wrapped.

`python -m tests.support.dresses` prints which share of the rules' examples their own rules still match.
"""

from __future__ import annotations

import html
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.lines import LineCutter
from epicenter.rules.match.hyperscan import Scanner
from epicenter.rules.packs.precedence import reports_failure
from epicenter.rules.packs.ruleset import Rule, RuleSet
from epicenter.stream.rule_tools.examples import AllPatterns
from epicenter.stream.scan.scan import BatchScanner
from tests.support.logs import LATER_NS, the_rules

Dress = Callable[[str], str]
"""A line -> the text of a file with it."""

_LEVEL: Final = re.compile(r"\b(?:ERROR|WARNING|CRITICAL|FATAL|INFO)\b")
_BAR: Final = "  3%|▎         | 12/400 [00:41<22:13,  3.44s/it]"


def _before(prefix: str) -> Dress:
    return lambda line: "\n".join(prefix + part for part in line.split("\n"))


def _around(start: str, end: str) -> Dress:
    return lambda line: "\n".join(f"{start}{part}{end}" for part in line.split("\n"))


def _coloured(line: str) -> str:
    first, space, rest = line.partition(" ")
    return f"\x1b[1;31m{first}\x1b[0m{space}\x1b[38;5;9m{rest}\x1b[0m"


def _csv(before: str, after: str = "") -> Dress:
    return lambda line: "\n".join(f'{before}"{part.replace(chr(34), chr(34) * 2)}"{after}' for part in line.split("\n"))


def _json_field(before: str, after: str) -> Dress:
    return lambda line: before + json.dumps(line) + after


def _smart(line: str) -> str:
    line = re.sub(r"\"([^\"]*)\"", "\u201c\\1\u201d", line)
    return re.sub(r"(?<!\w)'([^']*)'", "\u2018\\1\u2019", line).replace("'", "\u2019")


def _cased(change: Callable[[str], str]) -> Dress:
    return lambda line: _LEVEL.sub(lambda found: change(found[0]), line)


def _cut(columns: int, before: str = "") -> Dress:
    """As a terminal wraps it: after so many characters, in the middle of a word."""
    size = columns - len(before)
    return lambda line: "\n".join(before + line[start : start + size] for start in range(0, len(line), size))


def _wrapped(columns: int, before: str = "") -> Dress:
    """As a mail program or an editor wraps it: before the word that doesn't fit."""
    wrapper = textwrap.TextWrapper(
        columns, initial_indent=before, subsequent_indent=before, break_on_hyphens=False, replace_whitespace=False
    )
    return wrapper.fill


LAUNCHERS: Final[dict[str, Dress]] = {
    "excepthook of torch": _before("[rank3]: "),
    "excepthook of torch, bare": _before("[rank3]:"),
    "rank in brackets": _before("[3]: "),
    "srun -l": _before("3: "),
    "srun -l, padded": _before(" 3: "),
    "torchrun": _before("[default0]:"),
    "torchrun, role": _before("[trainer12]: "),
    "hostname of dsh": _before("node1: "),
    "hostname of clush": _before("gpu-node-017: "),
    "hostname of deepspeed": _before("worker-2: "),
    "address of pdsh": _before("10.0.0.2: "),
    "fqdn of pdsh": _before("gpu017.cluster.example.com: "),
    "localhost of deepspeed": _before("localhost: "),
    "ray worker": _before("(worker pid=123, ip=10.0.0.1) "),
    "ray actor": _before("(RayTrainWorker pid=51234) "),
    "vllm engine": _before("(EngineCore_0 pid=271) "),
    "skypilot": _before("(worker1, rank=1, pid=1234, ip=10.0.0.1) "),
    "mpirun --tag-output": _before("[1,3]<stderr>:"),
    "mpirun 5": _before("[1,3]<stderr>: "),
    "mpirun --timestamp-output": _before("Fri Nov 27 07:13:20 2026[1,3]<stderr>:"),
    "mpirun of hydra": _before("[3] "),
    "horovodrun": _before("[0]<stderr>:"),
    "kubectl --prefix": _before("[pod/llama-0/trainer] "),
    "pod name": _before("pod/llama-0 "),
    "stern": _before("llama-worker-0 trainer "),
    "stern, all namespaces": _before("training llama-worker-0 trainer "),
    "docker compose": _before("trainer-1  | "),
    "docker compose, one word": _before("trainer  | "),
    "foreman": _before("07:13:20 trainer.1  | "),
    "parallel --tag": _before("gpu017\t"),
    "determined": _before("[rank=3] "),
    "accelerate": _before("[RANK 3] "),
    "rank word": _before("Rank 3: "),
    "rank word, lower": _before("rank 3: "),
    "rank equals": _before("rank=3 "),
    "worker word": _before("[worker-3] "),
    "two launchers": _before("node1: [rank3]: "),
}
TIMES: Final[dict[str, Dress]] = {
    "ISO, UTC": _before("2026-03-02T09:00:01.500Z "),
    "ISO, zone": _before("2026-03-02T09:00:01.500000+00:00 "),
    "ISO, local": _before("2026-03-02 09:00:01 "),
    "ISO, local, comma": _before("2026-03-02 09:00:01,123 "),
    "ISO in brackets": _before("[2026-03-02T09:00:01.500Z] "),
    "ISO in brackets, comma": _before("[2026-03-02 09:00:01,123] "),
    "ISO, colon": _before("2026-03-02T09:00:01Z: "),
    "compact": _before("20260302T090001Z "),
    "slashes": _before("2026/03/02 09:00:01 "),
    "American": _before("03/02/2026 09:00:01 "),
    "American, AM": _before("3/2/2026, 9:00:01 AM "),
    "Apache": _before("02/Mar/2026:09:00:01 +0000 "),
    "Kibana": _before("Mar 2, 2026 @ 09:00:01.123 "),
    "clock": _before("09:00:01 "),
    "clock in brackets": _before("[09:00:01] "),
    "clock of ts": _before("00:00:01.123456 "),
    "ctime": _before("Mon Mar  2 09:00:01 2026 "),
    "syslog": _before("Mar  2 09:00:01 "),
    "syslog, program": _before("Mar  2 09:00:01 gpu017 python[123]: "),
    "epoch": _before("1772442001.500 "),
    "epoch of ns": _before("1772442001500000000 "),
    "CRI": _before("2026-03-02T09:00:01.500000000Z stderr F "),
}
LOGGERS: Final[dict[str, Dress]] = {
    "absl": _before("E0302 09:00:01.123456     123 train.py:12] "),
    "level": _before("ERROR: "),
    "level in brackets": _before("[ERROR] "),
    "time, level": _before("2026-03-02 09:00:01,123 - ERROR - "),
    "time, logger, level": _before("2026-03-02 09:00:01,123 - trainer - ERROR - "),
    "time, level, colon": _before("2026-03-02 09:00:01,123 ERROR trainer: "),
    "loguru": _before("2026-03-02 09:00:01.123 | ERROR    | trainer:main:12 - "),
    "Python's default": _before("ERROR:trainer:"),
    "colour": _coloured,
    "progress bar, return": lambda line: f"{_BAR}\r{line}",
    "progress bar": lambda line: f"{_BAR}{line}",
    "lower case": _cased(str.lower),
    "title case": _cased(str.title),
    "upper case": _cased(str.upper),
}
PASTES: Final[dict[str, Dress]] = {
    "quoted": _before("> "),
    "quoted twice": _before("> > "),
    "quoted twice, close": _before(">> "),
    "list": _before("- "),
    "code": _around("`", "`"),
    "indented": _before("    "),
    "indented by a tab": _before("\t"),
    "trailing blanks": _around("", "   \t"),
    "line ends of Windows": _around("", "\r"),
    "grep -n": _before("4711:"),
    "grep -rn": _before("logs/rank3.log:4711:"),
    "grep of context": _before("4711-"),
    "less -N": _before("   4711 "),
    "cat -n": _before("  4711\t"),
    "nl in brackets": _before("[4711] "),
    "colon after number": _before("4711: "),
    "tail of several": _before("==> rank3.log <== "),
    "HTML entities": html.escape,
    "HTML entities of markup": lambda line: html.escape(line, quote=False),
    "no-break spaces": lambda line: line.replace(" ", "\u00a0"),
    "smart quotes": _smart,
    "tabs": lambda line: line.replace("  ", "\t"),
}
EXPORTS: Final[dict[str, Dress]] = {
    "Loki, CSV": _csv('"1772442001500000000","2026-03-02T09:00:01.5Z",'),
    "logcli": _before('2026-03-02T09:00:01Z {app="trainer", pod="llama-0"} '),
    "logcli, no labels": _before("2026-03-02T09:00:01Z {} "),
    "Grafana, text": _before("2026-03-02 09:00:01.500\t"),
    "Datadog, CSV": _csv('"2026-03-02T09:00:01.500Z","gpu017","trainer",'),
    "CloudWatch, CSV": _csv("1772442001500,"),
    "Insights, CSV": _csv("2026-03-02 09:00:01.500,"),
    "CSV without quotes": _before("2026-03-02 09:00:01.500,"),
    "CloudWatch, tail": _before("2026-03-02T09:00:01.500000+00:00 llama/rank-3 "),
    "Google, CSV": _csv("", ",2026-03-02T09:00:01.500Z,ERROR"),
    "Google, JSON": _json_field('    "textPayload": ', ","),
    "Google, YAML": _before("textPayload: "),
    "CloudWatch, JSON": _json_field('            "message": ', ","),
    "Loki, JSON": lambda line: json.dumps({"line": line, "timestamp": "2026-03-02T09:00:01Z", "labels": {"app": "t"}}),
    "Loki, values": _json_field('          ["1772442001500000000", ', "],"),
    "Docker, JSON": _json_field('{"log":', ',"stream":"stderr","time":"2026-03-02T09:00:01.5Z"}'),
    "Datadog, JSON": lambda line: json.dumps({"attributes": {"message": line, "timestamp": "2026-03-02T09:00:01Z"}}),
    "Elasticsearch, JSON": lambda line: json.dumps(
        {"_source": {"message": line, "@timestamp": "2026-03-02T09:00:01Z"}}
    ),
    "logfmt": lambda line: f"ts=2026-03-02T09:00:01Z level=error msg={json.dumps(line)}",
}
WRAPS: Final[dict[str, Dress]] = {
    **{f"cut at {columns}": _cut(columns) for columns in (80, 120, 160)},
    **{f"wrapped at {columns}": _wrapped(columns) for columns in (80, 120, 160)},
    "quoted, cut at 80": _cut(80, "> "),
    "quoted, wrapped at 72": _wrapped(72, "> "),
    "ranks, cut at 100": lambda line: _cut(100)(f"[rank3]: {line}"),
}
KINDS: Final = {
    "launcher": LAUNCHERS,
    "time": TIMES,
    "logger": LOGGERS,
    "paste": PASTES,
    "export": EXPORTS,
    "wrap": WRAPS,
}
_ONLY_OF_PROGRAMS: Final = ("launcher", "logger")
"""Kinds that a kernel's lines don't come in."""


class Wardrobe:
    """Which rules match their examples in a dress: in a file, as `match` and `triage` read it."""

    def __init__(self, rules: RuleSet, scanner: Scanner):
        self._scanners = {
            "match": BatchScanner(rules, "test", scanner, keep_all=True),
            "triage": BatchScanner(rules, "test", scanner, keep_all=True, may_be_pasted=True),
        }

    def matches(self, rule: Rule, text: str, reader: str) -> bool:
        """Whether the rule, or one of its table, matches a line of this text."""
        cutter = LineCutter()
        found = [cutter.cut(text.encode() + b"\n"), cutter.end()]
        return any(
            rule.is_named(match.rule)
            for numbers, values in found
            if numbers
            for match in self._scanners[reader].scan(_batch(numbers, values)).matches
        )


def _batch(numbers: Sequence[int], values: Sequence[bytes]) -> Batch:
    count = len(values)
    return Batch("test", values, [None] * count, [LATER_NS] * count, numbers, is_recorded=True, is_text=True)


def worn(rule: Rule) -> Iterator[tuple[str, str, Dress]]:
    """The dresses that lines of this rule come in: kind, name, dress."""
    for kind, dresses in KINDS.items():
        if may_wear(rule, kind):
            yield from ((kind, name, dress) for name, dress in dresses.items())


def may_wear(rule: Rule, kind: str) -> bool:
    """Whether lines of this rule come in dresses of this kind."""
    return rule.spec.source != "kernel" or kind not in _ONLY_OF_PROGRAMS


def examples(rules: RuleSet, step: int = 1) -> list[tuple[Rule, str]]:
    """The first example of each rule that reports a failure."""
    failing = [rule for rule in rules.rules if rule.spec.examples and reports_failure(rule.spec.role)]
    return [(rule, rule.spec.examples.matches[0]) for rule in failing[::step] if rule.spec.examples]


def main() -> None:
    """Print the table, and with `-v` each line that its rule no longer matches."""
    wardrobe = Wardrobe(the_rules(), AllPatterns(the_rules()))
    step = int(next((arg for arg in sys.argv[1:] if arg.isdigit()), "1"))
    known = [(rule, line) for rule, line in examples(the_rules(), step) if wardrobe.matches(rule, line, "match")]
    total: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for rule, line in known:
        for kind, name, dress in worn(rule):
            text = dress(line)
            found = wardrobe.matches(rule, text, "match"), wardrobe.matches(rule, text, "triage")
            total.setdefault((kind, name), []).append(found)
            if "-v" in sys.argv and not all(found):
                print(f"{kind}\t{name}\t{rule.spec.id}\t{line!r}", file=sys.stderr)
    print(f"{len(known)} examples")
    for (kind, name), found_in in total.items():
        of_match, of_triage = (100 * sum(column) / len(found_in) for column in zip(*found_in, strict=True))
        print(f"{kind:10} {name:28} {of_match:6.1f} {of_triage:6.1f}  of {len(found_in)}")


if __name__ == "__main__":
    main()
