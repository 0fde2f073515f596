"""The shipped code never runs text as code, unpacks objects or skips verification."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ingest", "rules", "stream", "sinks", "deploy")
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]

CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "tempfile.mktemp",
    "ssl._create_unverified_context",
}
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle", "telnetlib", "xmlrpc"}
LOADERS = {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"}
SAFE_LOADERS = {"SafeLoader", "CSafeLoader"}
TURNED_OFF = {"verify": False, "check_hostname": False, "ssl": False, "shell": True, "autoescape": False}

ALLOWED = {
    ("sinks/net/tls.py", "check_hostname"): "it only asks whether TLS is spoken, and sends nothing",
    ("sinks/net/tls.py", "CERT_NONE"): "the same",
}  # fmt: skip
"""Where one of these is meant, with the reason."""


def faults(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The faults found, by name and line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from ((name, node.lineno) for name in names if name.split(".")[0] in MODULES)
        if isinstance(node, ast.Call):
            yield from faults_of_call(node)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and is_turned_off(target.attr, node.value):
                    yield target.attr, node.lineno
        if isinstance(node, ast.Attribute) and node.attr in ("CERT_NONE", "_create_unverified_context"):
            yield node.attr, node.lineno


def faults_of_call(node: ast.Call) -> Iterator[tuple[str, int]]:
    called = ast.unparse(node.func)
    if called in CALLS:
        yield called, node.lineno
    if called in LOADERS:
        loaders = {
            ast.unparse(loader).rpartition(".")[2] for loader in (*node.args[1:], *(k.value for k in node.keywords))
        }
        if not loaders & SAFE_LOADERS:
            yield called, node.lineno
    yield from ((word.arg, node.lineno) for word in node.keywords if word.arg and is_turned_off(word.arg, word.value))


def is_turned_off(name: str, value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and name in TURNED_OFF and value.value is TURNED_OFF[name]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_shipped_code_has_none_of_these(package: str) -> None:
    found = [
        f"{place}:{line}: {name}"
        for file in FILES
        if (place := file.relative_to(ROOT).as_posix()).startswith(f"{package}/")
        for name, line in faults(ast.parse(file.read_text("utf-8")))
        if (place, name) not in ALLOWED
    ]
    assert found == []


def test_every_exception_is_in_use() -> None:
    there = {(place, name) for place in {place for place, _ in ALLOWED} for name, _ in faults(parsed(place))}
    assert set(ALLOWED) <= there


def parsed(place: str) -> ast.AST:
    return ast.parse((ROOT / place).read_text("utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        *("eval('1')", "exec(text)", "import pickle", "from pickle import loads", "yaml.load(text)", "os.system(text)"),
        "asyncio.create_subprocess_shell(text)",
        *("yaml.load(text, Loader=yaml.Loader)", "run(text, shell=True)", "get(url, verify=False)", "x.CERT_NONE"),
        *("context.check_hostname = False", "Environment(autoescape=False)", "session(ssl=False)"),
    ],
)
def test_each_kind_is_found(line: str) -> None:
    assert list(faults(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["yaml.load(text, Loader=yaml.CSafeLoader)", "re.compile(x)", "run(words)", "f(verify=True)"]
)
def test_sound_code_is_accepted(line: str) -> None:
    assert not list(faults(ast.parse(line)))


def test_every_kafka_client_gets_its_security_from_the_settings() -> None:
    clients, without = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}, list[str]()
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in clients:
                spread = [ast.unparse(word.value) for word in node.keywords if word.arg is None]
                if not any(argument.startswith(("client_arguments(", "client")) for argument in spread):
                    without.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert without == []


def test_the_tests_that_the_security_document_names_exist() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", (ROOT / "docs/security.md").read_text("utf-8")))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []
