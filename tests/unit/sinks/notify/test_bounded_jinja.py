"""A template that would take long, or make much, is refused when it is loaded; one that does so later falls back."""

from __future__ import annotations

import logging
from time import process_time

import pytest

from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.message import default_message
from epicenter.sinks.notify.templates import Writer, template_faults
from tests.support.notifications import a_notification

GENEROUS_S = 10
LOOPS = "{% for a in title %}" * 9 + "x" + "{% endfor %}" * 9
HOSTILE = (
    ("{{ 10**(10**10) }}", "`**` may make too much"),
    ("{% set x = 10**(10**10) %}", "`**` may make too much"),
    ('{{ "a" * 3000000000 }}', "`*` makes more than"),
    ('{{ 3000000000 * "a" }}', "`*` makes more than"),
    ("{{ ([1] * 10000000) | length }}", "`*` makes more than"),
    ("{% set x = 9999999999999999999999 %}{{ x * x * x * x * x * x }}", "a number too large"),
    ('{{ "%999999999d" % 1 }}', "`%` may make too much"),
    ('{{ "%999999999d" | format(1) }}', "No filter named 'format'"),
    ('{{ "{:>999999999}".format(1) }}', "unsafe"),
    ('{{ "{a:>999999999}".format_map({"a": 1}) }}', "unsafe"),
    ('{{ "x" | center(10**9) }}', "`**` may make too much"),
    ('{{ "x" | center(1000000000) }}', "write at most 1000"),
    ('{{ "x" | indent(1000000000) }}', "write at most 1000"),
    ('{{ ["x"] | map("center", 1000000000) | first }}', "write at most 1000"),
    ("{{ 1.5 | round(1000000000, 'ceil') }}", "write at most 1000"),
    ('{{ "x".center(1000000000) }}', "unsafe"),
    ("{{ (1).to_bytes(1000000000) }}", "unsafe"),
    ('{{ "x".zfill(1000000000) }}', "unsafe"),
    ("{% set a = title ~ title %}" + "{% set a = a ~ a %}" * 40, "more than 1000000 characters"),
    ("{% set a = title + title %}" + "{% set a = a + a %}" * 40, "more than 1000000 characters"),
    (
        "{% set a = title * 99 %}{% set b = a | replace('', a) %}{{ b | replace('', b) }}",
        "more than 1000000 characters",
    ),
    ("{% set a = title * 999 %}{{ (a | list) | join(a) }}", "more than 1000000 characters"),
    (LOOPS, "more than 10000 turns"),
    ("{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}", ""),
    ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", "more than 10000"),
    ("{% for a in [[[]]] recursive %}{{ loop(a) }}{{ loop(a) }}{% endfor %}", "`recursive` loops are not read"),
    ("{{ lipsum(n=1000000000) }}", "'lipsum' is undefined"),
    ("{% for a in range(1000000000) %}{% endfor %}", "'range' is undefined"),
    ("x" * 30_000, "has more than 20000 characters"),
    ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "is not valid Jinja"),
    ("{{ " + "9" * 5000 + " }}", "is not valid Jinja"),
    ("{{ words.datetime.max }}", "no attribute"),
)


@pytest.mark.parametrize(("text", "reason"), HOSTILE, ids=[text[:50] for text, _ in HOSTILE])
def test_a_template_beyond_a_bound_is_refused_in_time(text: str, reason: str) -> None:
    begun_s = process_time()
    faults = list(template_faults("ops", TemplateSpec(body=text)))
    assert process_time() - begun_s < GENEROUS_S
    assert [name for name, _ in faults] == ["body"]
    assert reason in faults[0][1]


FINE = (
    "{{ incident.severity | upper }} {{ incident.class }} ~ {{ 'in ' ~ incident.cluster }}",
    "{% for name in facts %}{{ '% ' | replace('%', loop.index) }}{{ name ~ ': ' ~ facts[name] }}\n{% endfor %}",
    "{{ words.names(incident.jobs, 10) or 'none' }} {{ (1 + 2) * 3 }} {{ 7 % 4 }} {{ title.split()[0] }}",
    "{% macro line(a) %}- {{ a | truncate(20) }}\n{% endmacro %}{{ line(title) }}{{ '=' * 20 }}",
)


@pytest.mark.parametrize("text", FINE)
def test_a_template_within_the_bounds_is_accepted(text: str) -> None:
    assert not list(template_faults("ops", TemplateSpec(body=text)))


def test_a_template_that_exceeds_a_bound_later_falls_back_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer("ops", TemplateSpec(body="{% for a in incident.title %}{{ a }}{% endfor %}"))
    small, large = a_notification(title="a small one"), a_notification(title="a" * 20_000)
    with caplog.at_level(logging.WARNING):
        assert writer.write(large) == default_message(large)
    assert [record.msg["target"] for record in caplog.records] == ["ops"]
    assert "more than 10000 turns" in caplog.records[0].msg["error"]
    assert writer.write(small).body == "a small one"
