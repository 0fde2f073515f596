"""Each mistake in a rule pack is one sentence with its file and line, and all are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.packs.load import load
from tests.support.packs import A_PACK as RULE

EDGE = """\
edges:
  - {cause: [mine-one], effect: [hang], scope: job, within: 5m, reason: so it is}
"""


@pytest.fixture(autouse=True)
def _a_small_catalogue(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "small.yaml").write_text(RULE.replace("mine.one", "nvidia.xid_79") + EDGE)
    monkeypatch.setattr("epicenter.rules.packs.load.CATALOG", folder)


def problems(*folders: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(folders)
    return refused.value.problems


def test_a_pack_adds_to_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(RULE + EDGE)
    bundled, both = load(), load([tmp_path])
    assert both.by_id.keys() - bundled.by_id.keys() == {"mine.one"}
    assert len(both.edges) == len(bundled.edges) + 1
    assert [rule.spec.id for rule in both.rules] == sorted(both.by_id)


CHANGES = [
    pytest.param("'went wrong: \\d'", "'went (wrong'", 7, "unterminated subpattern", id="pattern-no-expression"),
    pytest.param("'went wrong: \\d'", "'went a{99999999999}b'", 7, "repetition number", id="pattern-repeats-too-often"),
    pytest.param(
        "'went wrong: \\d'", "'went (?:w+)+rong'", 7, "pattern 'went (?:w+)+rong': a group that rep", id="hangs"
    ),
    pytest.param(
        "    severity", "    extract: ['(a|b|ab)*c']\n    severity", 8, "a group that repeats", id="extract-hangs"
    ),
    pytest.param(
        "    severity", "    unless: ['ok', '(a*)*c']\n    severity", 8, "a group that repeats", id="unless-hangs"
    ),
    pytest.param(
        "    severity", "    unless: ['a(c']\n    severity", 8, "correct the expression", id="unless-no-pattern"
    ),
    pytest.param(
        "    severity", "    block: {ends: 'a.*b.*c.*d'}\n    severity", 8, "give them upper bounds", id="block-hangs"
    ),
    pytest.param("'went wrong: \\d'", "'went (?=wrong)w'", 7, "Hyperscan can't compile it", id="look-around"),
    pytest.param("'went wrong: \\d'", "'went $ wrong'", 7, "anchor", id="anchor"),
    pytest.param("['went wrong: \\d']", "['ok', 'went wrong: \\d+']", 7, "ends in a repeat", id="second-pattern-open"),
    pytest.param(
        "    title: One\n",
        "    title: One\n    headline: 'One at {place}'\n",
        3,
        "headline: {place}: the rule has no such field: write one of error, frame,",
        id="headline-with-an-unknown-field",
    ),
    pytest.param(
        "    title: One\n",
        "    title: One\n    headline: 'One[ at {node}'\n",
        3,
        "a bracket or brace is left open",
        id="headline-with-an-open-bracket",
    ),
    pytest.param(
        "    title: One\n",
        "    title: One\n    headline: 'One[ more] on {node}'\n",
        3,
        "a part without a field is always shown",
        id="headline-with-a-part-without-a-field",
    ),
    pytest.param("    title: One\n", "", 3, "title: missing: add it", id="missing-field"),
    pytest.param("    role: root\n", "    role: root\n    role: cascade\n", 10, "role is written twice", id="twice"),
    pytest.param("    entity: job\n", "    entity: job\n    color: red\n", 11, "color: unknown key", id="unknown-key"),
    pytest.param("    role: root\n", "    role: boss\n", 9, "role: write 'root'", id="unknown-role"),
    pytest.param(
        "    meaning:", "    waited: {constant: 5 minutes}\n    meaning:", 11, "is not a duration", id="duration"
    ),
    pytest.param("    title: One\n", "    title: 2026-02-30\n", 4, "put it in quotes", id="date-that-is-none"),
    pytest.param("    severity: error\n", "\tseverity: error\n", 8, "not YAML", id="tab"),
    pytest.param("pack: mine\n", "pack: mine\x07\n", 1, "not YAML", id="control-character"),
    pytest.param("pack: mine\n", "pack: !!python/name:os.system x\n", 1, "a tag is not read here", id="python-object"),
    pytest.param("id: mine.one", "id: nvidia.xid_79", 3, "already taken at", id="id-of-the-catalogue"),
]


@pytest.mark.parametrize(("old", "new", "line", "expected"), CHANGES)
def test_a_mistake_is_a_sentence_with_its_place(tmp_path: Path, old: str, new: str, line: int, expected: str) -> None:
    assert old in RULE
    file = tmp_path / "mine.yaml"
    file.write_text(RULE.replace(old, new, 1))
    found = problems(file)
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}:{line}: ")
    assert expected in found[0]


BILLIONS = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", "pack: not a mapping: write `key: value`", id="empty"),
        pytest.param("- a\n- b\n", "pack: not a mapping: write `key: value`", id="a-list"),
        pytest.param("pack: &again [*again]\n", "alias contains itself", id="endless-alias"),
        pytest.param(BILLIONS, "too many parts", id="billions-of-aliases"),
    ],
)
def test_files_that_are_no_pack_are_refused(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    (found,) = problems(file)
    assert found.startswith(f"{file}:1: ")
    assert expected in found


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"pack: \xff\n")
    (found,) = problems(tmp_path)
    assert found.startswith(f"{tmp_path}/mine.yaml:1: can't be read: not UTF-8")


def test_an_edge_with_an_invalid_duration_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("pack: mine\n" + EDGE.replace("5m", "soon"))
    assert problems(file) == [
        f"{file}:3: edges.0.within: 'soon' is not a duration: write a number and a unit (ms, s, m, h or d), such as 35m"
    ]


def test_a_missing_folder_and_one_without_packs_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert problems(missing, tmp_path) == [
        f"{folder}: no rule pack found: name a .yaml file, or a folder that holds some"
        for folder in (missing, tmp_path)
    ]


def test_an_id_in_two_files_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(RULE)
    second.write_text("# a comment\n" + RULE)
    assert problems(tmp_path) == [
        f"{second}:4: rule id mine.one is already taken at {first}:3: choose another id, "
        "or write `override: true` to replace that rule",
    ]


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(RULE.replace("role: root", "role: boss").replace("entity: job", "entity: cloud"))
    (tmp_path / "b.yaml").write_text("pack: [")
    (tmp_path / "c.yaml").write_text(RULE.replace("wrong: \\d", "(wrong"))
    found = problems(tmp_path, tmp_path / "missing")
    assert [problem.split(": ")[0].removeprefix(f"{tmp_path}/") for problem in found] == [
        "missing",
        "a.yaml:9",
        "a.yaml:10",
        "b.yaml:1",
        "c.yaml:7",
    ]


def test_the_message_holds_every_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load([tmp_path / "x", tmp_path / "y"])
    assert str(refused.value).splitlines() == refused.value.problems


def test_a_pack_replaces_and_switches_off_rules_of_earlier_packs(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(RULE + RULE.partition("rules:\n")[2].replace("mine.one", "mine.two"))
    second.write_text(
        RULE.replace("rules:", "off: [mine.two]\nrules:").replace("title: One", "title: Mine\n    override: true")
    )
    rules = load([tmp_path])
    assert rules.by_id["mine.one"].spec.title == "Mine"
    assert "mine.two" not in rules.by_id


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("rules:", "off: [mine.no]\nrules:"), "a.yaml:2: off: mine.no: no such rule; `epicenter rules list`"),
        (("title: One", "override: true\n    title: One"), "a.yaml:3: mine.one: override: no earlier rule has this id"),
        (("title: One", "decode: magic\n    title: One"), "a.yaml:3: mine.one: decode: magic: write one of "),
        (("title: One", "block: {ends: '('}\n    title: One"), "a.yaml:4: mine.one: pattern '(': missing )"),
    ],
    ids=["off", "override", "decode", "block"],
)  # fmt: skip
def test_references_to_nothing_are_reported(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    (tmp_path / "a.yaml").write_text(RULE.replace(*change))
    (message,) = problems(tmp_path)
    assert message.startswith(f"{tmp_path}/{problem}")
