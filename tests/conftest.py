"""Fixtures and options that every test folder may use."""

import pytest

pytest_plugins = ["tests.support.servers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite expected.jsonl of the scenarios.")


SLOWEST_FILES = ("test_docs.py", "test_lint.py", "test_catalog.py", "test_chaos.py")
"""These files run first: one of them, started last, would keep one worker busy while the others wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in SLOWEST_FILES)
