"""Snippets in the documents load, links and anchors resolve, and names in backticks exist."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from functools import cache
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.make_reference import described
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.stream.settings import PREFIX, Settings
from tests.support.documents import DOCUMENTS, ROOT, Block, anchors, blocks, codes, links
from tests.support.shown_commands import in_words, of_make
from tests.support.snippets import LOADERS, SECRETS
from tests.unit.test_docs import run

KINDS = ("sh", "text", "sql", *LOADERS)
METRIC = re.compile(r"^(epicenter_[a-z_]+?)(?:\{([^}]*)\})?$")
OUR_FILE = re.compile(r"^((?:deploy|docs|rules|tests|bench|stream|sinks|ingest)/[\w./{},*-]*)(?::\d+)?$")


def test_every_block_names_its_kind() -> None:
    assert [block.place for block in blocks() if block.kind not in KINDS] == []


@pytest.mark.parametrize("block", blocks(*LOADERS), ids=lambda block: block.place)
def test_a_snippet_loads(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    LOADERS[block.kind](block.text, tmp_path)


def test_rule_packs_in_the_documents_pass(tmp_path: Path) -> None:
    packs = [block for block in blocks("yaml") if block.text.startswith("pack:")]
    assert {"docs/rules.md", "docs/first-rule.md"} <= {block.document for block in packs}
    given: list[str] = []
    for number, pack in enumerate(packs):
        (tmp_path / f"pack{number}.yaml").write_text(pack.text)
        given += ["--rules", f"pack{number}.yaml"]
    assert "0 failures" in run(["epicenter", "rules", "test", *given], tmp_path)


def test_the_drawing_is_small_and_has_a_description() -> None:
    drawing = ROOT / "docs/flow.svg"
    parts = {part.tag.rpartition("}")[2]: part for part in ElementTree.parse(drawing).iter()}
    assert drawing.stat().st_size <= 12 << 10 and "script" not in parts
    assert parts["title"].text and "root cause" in " ".join((parts["desc"].text or "").split())


@cache
def store() -> Client:
    client = connect("chdb://memory/documents")
    migrate(client)
    return client


@pytest.mark.parametrize("block", blocks("sql"), ids=lambda block: block.place)
def test_a_query_runs_and_a_statement_parses(block: Block) -> None:
    for statement in filter(str.strip, block.text.split(";\n")):
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            store().query(statement.replace("epicenter.", "documents."))
        else:
            store().query("SELECT formatQuery({sql:String})", {"sql": statement})


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_resolve(document: str) -> None:
    assert [link for link in links(document) if not resolves(document, link)] == []


def resolves(document: str, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (ROOT / document).parent / path if path else ROOT / document
    if not target.exists():
        return False
    return not anchor or anchor in anchors(str(target.resolve().relative_to(ROOT)))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_in_backticks_exist(document: str) -> None:
    assert [problem for code in codes(document) if (problem := unknown(code))] == []


def unknown(code: str) -> str:
    if found := OUR_FILE.match(code):
        return "" if all(map(exists, expanded(found[1]))) else f"no file {code}"
    if found := re.match(rf"{PREFIX}([A-Z_]+)", code):
        return "" if f"{PREFIX}{found[1]}" in variables() else f"no setting {code}"
    if found := METRIC.match(code):
        return unknown_metric(found[1], found[2] or "")
    if code.startswith("epicenter "):
        return in_words(code)
    return of_make(code.replace("…", "x").split()[1:]) if code.startswith("make ") else ""


def exists(path: str) -> bool:
    """Whether the path exists, or is in .gitignore because commands make it."""
    made = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    return bool(list(ROOT.glob(path.rstrip("/")))) or any(fnmatch(path.rstrip("/"), f"{pattern}*") for pattern in made)


def expanded(path: str) -> list[str]:
    """`a/{b,c}.d` -> both paths."""
    parts = [part[1:-1].split(",") if part.startswith("{") else [part] for part in re.split(r"(\{[^}]*\})", path)]
    return ["".join(chosen) for chosen in product(*parts)]


@cache
def variables() -> set[str]:
    names = {f"{PREFIX}{(field.alias or name).upper()}" for name, field in Settings.model_fields.items()}
    files = [*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob("tests/support/*.py")]
    return names.union(*(re.findall(rf"{PREFIX}[A-Z_]+", path.read_text("utf-8")) for path in files))


def unknown_metric(name: str, labels: str) -> str:
    if name not in metrics():
        return "" if re.search(rf"\b{name}\b", shipped_text()) else f"no metric {name}"
    missing = {label.partition("=")[0] for label in labels.split(",") if label} - metrics()[name]
    return f"{name} has no label {', '.join(missing)}" if missing else ""


@cache
def metrics() -> dict[str, set[str]]:
    """Metric -> its labels."""
    names = {name: {*labels} for name, _, labels, _ in described()}
    return names | {f"{name}_{part}": {*labels, "le"} for name, labels in names.items() for part in ("bucket", "count")}


@cache
def shipped_text() -> str:
    """Roles of the store, groups of alert rules and other names that look like metrics."""
    folders = ("sinks/clickhouse/**/*.sql", "deploy/**/*.yaml", "deploy/**/*.tpl")
    return "\n".join(path.read_text("utf-8") for folder in folders for path in ROOT.glob(folder))
