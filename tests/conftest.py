"""Fixtures and options that every test folder may use."""

import pytest

pytest_plugins = ["tests.support.servers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite expected.jsonl of the scenarios.")


TAKE_LONGEST = ("test_docs.py", "test_lint.py", "test_catalog.py", "test_chaos.py")
"""Files that would keep one worker busy alone if they came last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in TAKE_LONGEST)
