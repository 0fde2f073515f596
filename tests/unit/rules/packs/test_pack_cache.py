"""Packs without mistakes are read from the cache, even if it is damaged; others never."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from epicenter.rules.documents import document
from epicenter.rules.errors import ConfigError
from epicenter.rules.match import disk_cache
from epicenter.rules.packs.load import load
from epicenter.rules.packs.ruleset import RuleSet
from tests.support.packs import A_PACK

TABLE = "code\ttitle\n7\tSeven\n"
WITH_TABLE = A_PACK.replace("    title: One\n", "    title: One\n    table: codes.tsv\n")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    catalog = tmp_path_factory.mktemp("catalog")
    (catalog / "small.yaml").write_text(A_PACK.replace("mine.one", "small.one"))
    monkeypatch.setattr("epicenter.rules.packs.load.CATALOG", catalog)
    return folder / "epicenter" / "packs"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is read as YAML."""
    texts: list[str] = []
    tree = document.tree_of
    monkeypatch.setattr(document, "tree_of", lambda text: [texts.append(text), tree(text)][1])
    return texts


def contents(rules: RuleSet) -> list[object]:
    return [(rule.spec, rule.place, rule.key_field, rule.row) for rule in rules.all_rules] + [
        *rules.edges,
        rules.digest,
    ]


def test_a_cached_pack_equals_the_parsed_one(tmp_path: Path, parsed: list[str]) -> None:
    (tmp_path / "a.yaml").write_text(
        WITH_TABLE + "edges:\n  - {cause: [mine-one], effect: [hang], scope: job, within: 5m, reason: so it is}\n"
    )
    (tmp_path / "codes.tsv").write_text(TABLE)
    first = load([tmp_path])
    assert len(parsed) == 2
    assert contents(load([tmp_path])) == contents(first)
    assert len(parsed) == 2
    assert first.by_id["mine.one"].place == f"{tmp_path}/a.yaml:3"


@pytest.mark.parametrize(("name", "old", "new"), [("a.yaml", "title: One", "title: Two"), ("codes.tsv", "Seven", "8")])
def test_a_changed_file_is_read(tmp_path: Path, name: str, old: str, new: str) -> None:
    (tmp_path / "a.yaml").write_text(WITH_TABLE)
    (tmp_path / "codes.tsv").write_text(TABLE)
    before, file = load([tmp_path]), tmp_path / name
    stat = file.stat()
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after = load([tmp_path])
    assert new in {rule.spec.title for rule in after.all_rules} | {f"title: {after.by_id['mine.one'].spec.title}"}
    assert after.digest != before.digest


def test_changed_code_invalidates_the_cache(tmp_path: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr("epicenter.rules.packs.pack_cache.code", lambda: b"newer")
    load()
    assert len(parsed) == 2


@pytest.mark.parametrize(
    "change",
    [lambda old: b"", lambda old: old[:-9], lambda old: old.replace(b"One", b"Two"), lambda old: old[:32] + b"{}"],
    ids=["empty", "cut", "other-words", "no-such-shape"],
)
def test_a_broken_entry_is_ignored(
    tmp_path: Path, cache: Path, parsed: list[str], change: Callable[[bytes], bytes]
) -> None:
    before = load()
    (entry,) = cache.iterdir()
    entry.write_bytes(change(entry.read_bytes()))
    assert contents(load()) == contents(before)
    assert len(parsed) == 2
    assert contents(load()) == contents(before)
    assert len(parsed) == 2


def test_an_entry_of_another_shape_is_ignored(cache: Path, parsed: list[str]) -> None:
    before = load()
    (entry,) = cache.iterdir()
    body = entry.read_bytes()[32:].replace(b'"role":"root"', b'"role":"boss"')
    entry.write_bytes(disk_cache.digest([body]).encode() + body)
    assert contents(load()) == contents(before)
    assert len(parsed) == 2


def test_mistakes_are_reported_on_every_load(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.yaml").write_text(A_PACK.replace("role: root", "role: boss"))
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"a\.yaml:9: rules\.0\.role"):
            load([tmp_path])
    assert not cache.exists()


def test_values_that_json_can_not_hold_are_not_cached(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        A_PACK
        + "  - {id: mine.two, title: Two, class: mine-two, source: any, severity: info, role: context, entity: job, "
        "meaning: m, when: {kind: count, of: mine.one, at_least: 2, within: 5m, where: {rank: 2026-01-01 00:00:00}}}\n"
    )
    assert contents(load([tmp_path])) == contents(load([tmp_path]))
    assert not cache.exists()


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_packs_load_on_a_machine_without_a_cache(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv(variable, "/proc/nowhere")
    assert "small.one" in load().by_id


def test_packs_load_for_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    for variable in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert disk_cache.load("packs", "any") is None
    assert "small.one" in load().by_id


def test_the_most_recently_used_entries_survive_eviction(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        disk_cache.store("packs", str(number), b"12345")
        os.utime(cache / str(number), (number, number))
    assert disk_cache.load("packs", "0") == b"12345"
    monkeypatch.setattr(disk_cache, "MAX_FOLDER_BYTES", 16)
    disk_cache.store("packs", "3", b"12345")
    assert {file.name for file in cache.iterdir()} == {"0", "2", "3"}
