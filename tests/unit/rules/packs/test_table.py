"""A rule with a table: one finer rule for each row, and classes that hold a code."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from epicenter.stream.scan.scan import BatchScanner
from tests.support.logs import batch

PACK = """\
pack: mine
rules:
  - id: mine.fault
    title: A fault
    class: sxid-{code}
    source: any
    patterns: ['fault <(?P<code>\\d{1,6})>']
    table: faults.tsv
    severity: warning
    role: cascade
    entity: gpu
    meaning: It has a fault.
    examples:
      matches: ['fault <7>', 'a fault <0012> here']
      near_misses: ['fault <x>']
"""
TABLE = """\
code\ttitle\tseverity\trole\taction\tnext_steps\tvendor
7\tSeventh fault\tcritical\troot\treset-gpu\tReset it. | Call.\tRESET_GPU
12\tTwelfth fault\t\t\t\t\tIGNORE
"""


TEXTS_PACK = """\
pack: mine
rules:
  - id: mined.text
    title: It failed
    class: subprocess-fail
    source: any
    patterns: ['^mined: error: ']
    unless: ['will retry']
    table: texts.tsv
    severity: warning
    role: cascade
    entity: process
    meaning: It failed.
    examples:
      matches: ['mined: error: disk sda vanished under /x', 'mined: error: the lamp of shaft 7 went out']
      near_misses: ['mined: error: all is well']
"""
TEXTS = """\
text\tclass\tseverity
disk {} vanished\tdisk-full\terror
disk {} vanished under {}\tblock-io-error\tcritical
the lamp of shaft {} went out\t\t
"""
WORDS_PACK = """\
pack: mine
rules:
  - id: mined.words
    title: It failed
    class: bad-input-data
    source: any
    patterns: ['^mined: error: ']
    extract: ['^(?P<line>[^\\n]{1,99})']
    decode: template
    fallback: true
    table: texts.tsv
    severity: warning
    role: cascade
    entity: process
    meaning: It failed.
    examples:
      matches: ['mined: error: the ladder broke', 'mined: error: the rope broke']
      near_misses: ['mined: all is well']
"""
WORDS = """\
words\tclass
\\blamps?\\b\tsubprocess-fail
no space\tdisk-full
"""


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    return loaded(tmp_path, TABLE)


def loaded(folder: Path, table: str) -> RuleSet:
    (folder / "mine.yaml").write_text(PACK)
    (folder / "faults.tsv").write_text(table)
    return load([folder / "mine.yaml"])


def found(rules: RuleSet, line: str) -> tuple[str, str, str, str]:
    (match,) = BatchScanner(rules, "c").scan(batch([line.encode()])).matches
    spec = rules.spec_of(match)
    return match.rule, spec.failure_class, spec.severity, spec.title


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fault <7>", ("mine.fault_7", "sxid-7", "critical", "Seventh fault")),
        ("fault <007>", ("mine.fault_7", "sxid-7", "critical", "Seventh fault")),
        ("fault <12>", ("mine.fault_12", "sxid-12", "warning", "Twelfth fault")),
        ("fault <99>", ("mine.fault", "sxid-99", "warning", "A fault")),
        ("fault <000>", ("mine.fault", "sxid-000", "warning", "A fault")),
    ],
    ids=["row", "zeros-in-front", "empty-cells-say-nothing", "no-row", "nothing-but-zeros"],
)
def test_a_match_has_the_class_of_its_code_s_row(
    rules: RuleSet, line: str, expected: tuple[str, str, str, str]
) -> None:
    assert found(rules, line) == expected


def test_a_row_has_its_next_steps(rules: RuleSet) -> None:
    spec = rules.by_id["mine.fault_7"].spec
    assert (spec.next_steps, spec.action, spec.meaning) == (("Reset it.", "Call."), "reset-gpu", "It has a fault.")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("code\ttitle\n7\n", "faults.tsv:2: 1 columns, but the first line has 2"),
        (
            "code\tseverity\n7\tawful\n",
            "faults.tsv:2: severity: write 'info', 'warning', 'error' or 'critical', not 'awful'",
        ),
        ("code\ttitle\n7\ta\n7\tb\n", "faults.tsv:3: code 7 has two rows: remove one"),
    ],
    ids=["too-short", "no-such-severity", "twice"],
)
def test_a_wrong_row_is_named_with_its_line(tmp_path: Path, table: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, table)
    assert str(caught.value) == f"{tmp_path}/{problem}"


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PACK)
    with pytest.raises(ConfigError, match=r"mine.yaml:3: mine.fault: table: faults.tsv: can't be read"):
        load([tmp_path / "mine.yaml"])


@pytest.fixture
def texts(tmp_path: Path) -> RuleSet:
    (tmp_path / "mine.yaml").write_text(TEXTS_PACK)
    (tmp_path / "texts.tsv").write_text(TEXTS)
    return load([tmp_path / "mine.yaml"])


@pytest.mark.parametrize(
    ("line", "failure_class", "severity"),
    [
        ("mined: error: disk sda vanished", "disk-full", "error"),
        ("mined: error: disk sda vanished under /x", "block-io-error", "critical"),
        ("mined: error: the lamp of shaft 7 went out", "subprocess-fail", "warning"),
    ],
    ids=["hole", "longest-text-wins", "empty-cells-say-nothing"],
)
def test_a_text_selects_its_row(texts: RuleSet, line: str, failure_class: str, severity: str) -> None:
    _, *found_values, _ = found(texts, line)
    assert found_values == [failure_class, severity]


@pytest.mark.parametrize(
    "line",
    [
        "mined: error: vanished disk sda",
        "disk sda vanished before mined: error: ",
        "mined: error: disk sda vanished, will retry",
        "mined: error: something that no row has",
    ],
    ids=["another-order", "before-the-shape", "unless", "no-row"],
)
def test_a_line_without_a_fitting_text_is_not_the_rule_s(texts: RuleSet, line: str) -> None:
    matches = BatchScanner(texts, "c").scan(batch([line.encode()])).matches
    assert [match for match in matches if match.rule.startswith("mined")] == []


def test_a_text_s_row_keeps_its_id_when_rows_move(texts: RuleSet, tmp_path: Path) -> None:
    head, *rows = TEXTS.splitlines(keepends=True)
    (tmp_path / "texts.tsv").write_text(head + "".join(reversed(rows)))
    assert load([tmp_path / "mine.yaml"]).by_id.keys() == texts.by_id.keys()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("text\na {} b\n", "texts.tsv:2: text 'a {} b' would fit by chance: write 12 or more bytes outside of holes"),
        (
            "text\nthe lamp went out\nthe lamp went out\n",
            "texts.tsv:3: text the lamp went out has two rows: remove one",
        ),
        ("text\tclass\nthe lamp went out\tNo Class\n", "texts.tsv:2: class: "),
    ],
    ids=["too-short", "twice", "no-class"],
)
def test_a_wrong_text_is_named_with_its_line(tmp_path: Path, table: str, problem: str) -> None:
    (tmp_path / "mine.yaml").write_text(TEXTS_PACK)
    (tmp_path / "texts.tsv").write_text(table)
    with pytest.raises(ConfigError) as caught:
        load([tmp_path / "mine.yaml"])
    assert f"{tmp_path}/{problem}" in str(caught.value)


@pytest.fixture
def words(tmp_path: Path) -> RuleSet:
    (tmp_path / "mine.yaml").write_text(WORDS_PACK)
    (tmp_path / "texts.tsv").write_text(WORDS)
    return load([tmp_path / "mine.yaml"])


@pytest.mark.parametrize(
    ("line", "failure_class"),
    [
        ("mined: error: No Space is left in shaft 7", "disk-full"),
        ("mined: error: no space is left for the lamp", "subprocess-fail"),
        ("mined: error: the ladder broke", "bad-input-data"),
    ],
    ids=["any-case", "first-row-wins", "no-row-is-the-rule-s"],
)
def test_words_select_their_row(words: RuleSet, line: str, failure_class: str) -> None:
    matches = BatchScanner(words, "c").scan(batch([line.encode()])).matches
    assert [words.of(match).spec.failure_class for match in matches if match.rule.startswith("mined")] == [
        failure_class
    ]


def test_a_rule_that_knows_a_line_wins_over_words(words: RuleSet) -> None:
    line = b"mined: error: no space: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    matches = BatchScanner(words, "c").scan(batch([line])).matches
    assert {words.of(match).spec.failure_class for match in matches} == {"oom-gpu"}


@pytest.mark.parametrize(
    ("pack", "table", "problem"),
    [
        (WORDS_PACK, "words\tclass\nlamp (\tdisk-full\n", r"texts.tsv:2: words 'lamp \(' are no regular expression"),
        (WORDS_PACK, "words\tclass\nlamp (?:o+)+ff\tdisk-full\n", "texts.tsv:2: words: a group that repeats"),
        (WORDS_PACK, "words\tclass\nlamp(?!s)\tdisk-full\n", "texts.tsv:2: words: .* avoid look-around"),
        (
            WORDS_PACK.replace("    decode: template\n", ""),
            WORDS,
            "mine.yaml:3: mined.words: .* add `decode: template`",
        ),
    ],
    ids=["no-expression", "hangs", "look-around", "no-template"],
)
def test_wrong_words_are_named_with_their_place(tmp_path: Path, pack: str, table: str, problem: str) -> None:
    (tmp_path / "mine.yaml").write_text(pack)
    (tmp_path / "texts.tsv").write_text(table)
    with pytest.raises(ConfigError, match=problem):
        load([tmp_path / "mine.yaml"])
