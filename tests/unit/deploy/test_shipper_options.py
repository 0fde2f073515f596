"""No option of a shipper is guessed: each one that is set is in the shipper's documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCUMENTED = yaml.safe_load((Path(__file__).parent / "options.yaml").read_text())
Options = set[tuple[str, str]]


def documented(shipper: str) -> Options:
    """Section and option; `tail-4.2` is a second page about `tail`."""
    sections = DOCUMENTED[shipper]["sections"]
    return {(name.split("-")[0], option) for name, section in sections.items() for option in section["options"]}


def of_fluent_bit() -> Iterator[tuple[str, str]]:
    for file in (DEPLOY / "fluent-bit").glob("*.yaml"):
        config = yaml.safe_load(file.read_text())
        yield from (("service", option) for option in config["service"])
        for plugins in config["pipeline"].values():
            yield from ((plugin["name"], option) for plugin in plugins for option in plugin if option != "name")


def of_vector() -> Iterator[tuple[str, str]]:
    for file in (DEPLOY / "vector").glob("*.yaml"):
        config: dict[str, Any] = yaml.safe_load(file.read_text())
        yield from (("global", option) for option in config)
        for kind in ("sources", "transforms", "sinks"):
            for component in config[kind].values():
                yield from ((component["type"], option) for option in component if option != "type")
                yield from (("librdkafka", option) for option in component.get("librdkafka_options", ()))


_OBJECT = re.compile(r"\b(global|module|template|property|constant|ruleset|action|input|include)\(")
_SETTING = re.compile(r"([\w.]+)\s*=\s*(\[[^\]]*\]|\"(?:[^\"\\]|\\.)*\"|`[^`]*`)")
_MODULES = ("imfile", "omkafka", "impstats", "imjournal", "imkmsg")


def of_rsyslog() -> Iterator[tuple[str, str]]:
    for file in (DEPLOY / "rsyslog").rglob("*.conf"):
        text = re.sub(r"^\s*#.*$", "", file.read_text(), flags=re.MULTILINE)
        for found in _OBJECT.finditer(text):
            settings = _SETTING.findall(text[found.end() : _end(text, found.end())])
            kind = _section(found[1], settings)
            for option, value in settings:
                yield from _placed(kind, option.lower(), value)


def _end(text: str, start: int) -> int:
    """Where the parenthesis closes; parentheses in quotes don't count."""
    depth = 1
    for found in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[()]", text[start:]):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return start + found.start()
    raise AssertionError("a parenthesis is not closed")


def _section(kind: str, settings: list[tuple[str, str]]) -> str:
    """A module or an input is documented by its name."""
    named = [value.strip('"') for option, value in settings if option in ("load", "type")]
    return named[0] if named and named[0] in _MODULES else kind


def _placed(kind: str, option: str, value: str) -> Iterator[tuple[str, str]]:
    if option == "load":
        yield "module", option
    elif option.startswith("queue."):
        yield "queue", option
    elif kind == "omkafka" and (option.startswith("action.") or option in ("name", "type")):
        yield "action", option
    else:
        yield kind, option
    if option in ("confparam", "topicconfparam"):
        yield from (("librdkafka", name) for name in re.findall(r"[\"` ]([\w.]+)=", value))


@pytest.mark.parametrize(
    ("shipper", "found"), [("fluent-bit", of_fluent_bit), ("vector", of_vector), ("rsyslog", of_rsyslog)]
)
def test_every_option_is_documented_and_every_line_of_the_table_is_used(shipper: str, found: Any) -> None:
    options: Options = set(found())
    client = {option for section, option in options if section == "librdkafka"}
    client |= {option.removeprefix("rdkafka.") for _, option in options if option.startswith("rdkafka.")}
    own = {(section, option) for section, option in options if section != "librdkafka" and "rdkafka." not in option}
    assert own == documented(shipper)
    assert client <= {option for _, option in documented("librdkafka")}


def test_all_shippers_treat_kafka_alike() -> None:
    """A node's partition is that of every murmur2 client, and no record is too old to be sent."""
    for file in (*(DEPLOY / "fluent-bit").glob("*.yaml"), *(DEPLOY / "vector").glob("*.yaml")):
        text = file.read_text()
        assert re.search(r"partitioner: murmur2_random", text), file
        assert re.search(r"message[._]timeout[._]ms: 0", text), file
        assert re.search(r"compression(?:\.codec)?: lz4", text), file
    text = (DEPLOY / "rsyslog/rsyslog.conf").read_text()
    assert text.count('topicConfParam=["partitioner=murmur2_random", "acks=all", "message.timeout.ms=0"]') == 2
    assert text.count('"compression.codec=lz4"') == 2
