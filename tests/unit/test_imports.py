"""The rooms of the house: which folder may import which, that none is crowded, and that `rules` is pure."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROOMS: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "rooms.yaml").read_text())
"""Each room with those that it imports; a module next to the rooms of `rules`, `ingest`, `sinks` or `stream` is one."""

FOLDERS = ("rules", "ingest", "sinks", "stream")
MAY_USE = {
    "rules": {"rules"},
    "ingest": {"ingest", "rules"},
    "sinks": {"sinks", "rules"},
    "stream": {"stream", "ingest", "sinks", "rules"},
}
MAX_MODULES = 20
DIVIDED = "ingest.simulate"

FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for folder in FOLDERS
    for file in sorted((ROOT / folder).rglob("*.py"))
}
MODULES = [pytest.param(name, id=name) for name in FILES]
RULES = [pytest.param(name, id=name) for name in FILES if name.split(".")[0] == "rules"]

NOT_IN_RULES = {
    *(
        "aiohttp",
        "aiokafka",
        "asyncio",
        "chdb",
        "clickhouse_connect",
        "faust",
        "io",
        "kafka",
        "logging",
        "os",
        "random",
    ),
    *(
        "requests",
        "secrets",
        "select",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
    ),
    *("urllib", "uuid"),
}
IMPURE_CALLS = {
    "now",
    "utcnow",
    "today",
    "open",
    "print",
    "input",
    "getenv",
    "urandom",
    "uuid4",
    "write_text",
}
READ_AT_THE_START = {
    "rules.documents.document",
    "rules.match.compiled",
    *(f"rules.packs.{name}" for name in ("pack_cache", "load", "table", "vocabulary", "decode")),
}
DISK_CACHE = "rules.match.disk_cache"
READING_CALLS = {"read_text", "read_bytes", "glob", "rglob", "iterdir"}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text("utf-8"))


def imported(module: str, at_start_only: bool = False) -> set[str]:
    """Modules that a module imports: ours by their full name."""
    nodes = tree(module).body if at_start_only else ast.walk(tree(module))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("epicenter.") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: write the whole name"
            base = (node.module or "").removeprefix("epicenter.")
            found |= {full if (full := f"{base}.{alias.name}") in FILES else base for alias in node.names}
    return found


def called(module: str) -> set[str]:
    calls = [node.func for node in ast.walk(tree(module)) if isinstance(node, ast.Call)]
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def test_modules_are_found() -> None:
    assert {"rules.engine", "ingest.collect.files", "stream.cli.main", "sinks.page"} <= FILES.keys()


def room_of(module: str) -> str:
    """The folder of a module; a module next to the rooms is a room."""
    if module.startswith(DIVIDED):
        return DIVIDED
    parent = module.rpartition(".")[0]
    return module if FILES[module].name == "__init__.py" or parent in FOLDERS else parent


def test_the_table_of_rooms_is_what_the_code_imports() -> None:
    found: dict[str, set[str]] = {room_of(module): set() for module in FILES if module not in FOLDERS}
    for module in FILES:
        if module not in FOLDERS:
            ours = {room_of(name) for name in imported(module) & FILES.keys() if name not in FOLDERS}
            found[room_of(module)] |= ours - {room_of(module)}
    assert {room: sorted(rooms) for room, rooms in found.items()} == ROOMS


def test_rooms_import_one_way() -> None:
    TopologicalSorter(ROOMS).prepare()


def test_no_room_is_crowded() -> None:
    modules = Counter(str(file.parent) for file in FILES.values() if file.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MAX_MODULES} == {}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    folders = {name.split(".")[0] for name in imported(module)} & MAY_USE.keys()
    assert folders <= MAY_USE[module.split(".")[0]]


@pytest.mark.parametrize("module", RULES)
def test_the_core_has_no_clock_no_randomness_and_no_io(module: str) -> None:
    if module == DISK_CACHE:
        return
    assert not {name.split(".")[0] for name in imported(module)} & NOT_IN_RULES
    assert not called(module) & IMPURE_CALLS
    if module not in READ_AT_THE_START:
        assert not called(module) & READING_CALLS


def test_no_module_imports_itself_through_others() -> None:
    graph = {name: imported(name, at_start_only=True) & FILES.keys() - {name} for name in FILES}
    TopologicalSorter(graph).prepare()


def test_the_parsers_read_no_files() -> None:
    for module in (name for name in FILES if name.startswith("ingest.parse")):
        assert not {name.split(".")[0] for name in imported(module)} & NOT_IN_RULES
        assert not called(module) & (IMPURE_CALLS | READING_CALLS)
