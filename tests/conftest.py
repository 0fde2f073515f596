"""Fixtures and options that every test folder may use."""

import pytest

pytest_plugins = ["tests.support.servers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite expected.jsonl of the scenarios.")
