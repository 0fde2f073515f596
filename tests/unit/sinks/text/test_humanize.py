"""How the page writes times and numbers, which filters an address sets, and the cells of a job."""

from __future__ import annotations

import pytest

from epicenter.rules.model.incident import BlastRadius, Cost
from epicenter.rules.model.times import NS_PER_S, iso_ns
from epicenter.sinks.clickhouse.reading import IncidentFilter
from epicenter.sinks.page.search import MAX_LENGTH, ListQuery, page_numbers
from epicenter.sinks.text import humanize

NOW_NS = 1_772_442_000 * NS_PER_S
DAY_NS = 86_400 * NS_PER_S
"""2026-03-02T09:00:00Z"""


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0, "0 ms"),
        (0.45, "450 ms"),
        (1, "1 s"),
        (602, "10 min 2 s"),
        (3_600, "1 h"),
        (3_605, "1 h"),
        (200_000, "2 d 7 h"),
    ],
)
def test_lengths_have_at_most_two_units(length_s: float, text: str) -> None:
    assert humanize.length(round(length_s * NS_PER_S)) == text


@pytest.mark.parametrize(
    ("passed_s", "text"),
    [
        (-10_900, "in 3 h (clock skew?)"),
        (-61, "in 1 min (clock skew?)"),
        (-60, "just now"),
        (4, "just now"),
        (59, "59 s ago"),
        (3_599, "59 min ago"),
        (90_000, "1 d ago"),
    ],
)
def test_ages_are_rounded(passed_s: int, text: str) -> None:
    assert humanize.ago(NOW_NS - passed_s * NS_PER_S, NOW_NS) == text


@pytest.mark.parametrize(("confidence", "text"), [(0.08, "8%"), (0.987, "99%"), (0.996, "99%"), (1.0, "99%")])
def test_confidence_is_never_shown_as_100_percent(confidence: float, text: str) -> None:
    assert humanize.percent(confidence) == text


def test_times_show_the_date_on_another_day() -> None:
    assert humanize.clock(NOW_NS + 1_234_567_890, 3) == "09:00:01.234"
    assert humanize.clock_or_date(NOW_NS, NOW_NS) == "09:00:00"
    assert humanize.clock_or_date(NOW_NS - 86_400 * NS_PER_S, NOW_NS) == "1 Mar 2026, 09:00:00"
    assert humanize.iso(NOW_NS) == "2026-03-02T09:00:00.000Z"
    assert humanize.ns("yesterday") is None


def test_counts_and_names_are_shortened() -> None:
    assert humanize.count(1, "node") == "1 node"
    assert humanize.count(1_019, "node") == "1,019 nodes"
    assert humanize.names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert humanize.reach(BlastRadius(nodes=2, ranks=0, jobs=1, gpus=16)) == "2 nodes, 16 GPUs"
    assert humanize.reach_in_full(BlastRadius(nodes=2, ranks=0, jobs=1)) == "2 nodes, 0 ranks, 1 job, 0 GPUs"


@pytest.mark.parametrize(
    ("cost", "expected", "since"),
    [
        (Cost(), "", ""),
        (Cost(since_checkpoint_step=9), "", ""),
        (Cost(steps_lost=1), "1 step", "1 step"),
        (Cost(1, 1234.5), "1,234 GPU-hours, 1 step", "1,234 GPU-hours, 1 step"),
        (Cost(2, since_checkpoint_step=9), "2 steps", "2 steps since the checkpoint of step 9"),
    ],
)
def test_cost_is_in_gpu_hours_and_steps(cost: Cost, expected: str, since: str) -> None:
    assert (humanize.lost(cost), humanize.lost_since(cost)) == (expected, since)


@pytest.mark.parametrize(
    ("cause", "alone", "in_a_sentence"),
    [
        (("n1", "0000:3b:00", 3), "n1 · GPU 0000:3b:00 · rank 3", " on n1, GPU 0000:3b:00, rank 3"),
        (("", "", 0), "rank 0", " on rank 0"),
        (("", "", None), "", ""),
    ],
)
def test_a_place_reads_alone_and_in_a_sentence(
    cause: tuple[str, str, int | None], alone: str, in_a_sentence: str
) -> None:
    assert (humanize.place(*cause), humanize.where(*cause)) == (alone, in_a_sentence)


@pytest.mark.parametrize(
    ("confidence", "text"),
    [(0.95, "almost certain"), (0.7, "likely"), (0.55, "more likely than not"), (0.3, "a guess")],
)
def test_confidence_has_a_word(confidence: float, text: str) -> None:
    assert humanize.sureness(confidence) == text


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ({"q": "node:n1 Out OF memory"}, IncidentFilter(node="n1", terms=["out", "of", "memory"])),
        (
            {"q": "class:xid-79 job:7801 cluster:east"},
            IncidentFilter(failure_class="xid-79", job="7801", cluster="east"),
        ),
        ({"q": "0000:52:00 node:"}, IncidentFilter(terms=["0000:52:00", "node:"])),
        ({"status": "open", "class": "hang"}, IncidentFilter(status="open", failure_class="hang")),
        ({"q": " ".join("abcdefghijkl")}, IncidentFilter(terms=list("abcdefgh"))),
        ({"severity": "critical"}, IncidentFilter(severity="critical")),
        ({"severity": "nonesuch"}, IncidentFilter()),
        ({"time": "24h"}, IncidentFilter(since_ns=NOW_NS - DAY_NS)),
        (
            {"time": "2026-03-02"},
            IncidentFilter(
                began_from_ns=iso_ns("2026-03-02T00:00:00Z"), began_before_ns=iso_ns("2026-03-03T00:00:00Z")
            ),
        ),
        ({"time": "tomorrow"}, IncidentFilter()),
        ({"time": "0001-01-01"}, IncidentFilter()),
        ({"time": "9999-12-31"}, IncidentFilter()),
    ],
)
def test_an_address_is_read_as_filters(address: dict[str, str], wanted: IncidentFilter) -> None:
    assert ListQuery.of(address).store_filter(NOW_NS) == wanted


def test_an_unknown_group_or_view_is_ignored() -> None:
    assert ListQuery.of({"group": "rule; DROP", "view": "wide"}) == ListQuery()


@pytest.mark.parametrize(
    ("page", "count", "numbers"),
    [
        (1, 0, [1]),
        (1, 50, [1]),
        (1, 51, [1, 2]),
        (1, 507, [1, 2, 3, None, 11]),
        (6, 507, [1, None, 4, 5, 6, 7, 8, None, 11]),
        (4, 507, [1, 2, 3, 4, 5, 6, None, 11]),
        (11, 507, [1, None, 9, 10, 11]),
    ],
)
def test_pages_are_linked_by_number_with_gaps(page: int, count: int, numbers: list[int | None]) -> None:
    assert page_numbers(page, count) == numbers


@pytest.mark.parametrize(
    ("age_s", "text"), [(0, "0 seconds"), (61, "1 minute"), (7_200, "2 hours"), (265 * 86_400 + 5, "265 days")]
)
def test_an_age_in_words_has_one_unit(age_s: int, text: str) -> None:
    assert humanize.old(NOW_NS - age_s * NS_PER_S, NOW_NS) == text


@pytest.mark.parametrize("page", ["0", "-1", "x", "²", "99999", ""])
def test_an_invalid_page_number_is_the_first_page(page: str) -> None:
    assert ListQuery.of({"page": page}).page == 1


def test_an_address_has_only_the_filters_in_use() -> None:
    query = ListQuery.of({"q": "a b", "class": "x&y", "page": "3"})
    assert query.address() == "/?q=a+b&class=x%26y"
    assert query.address(page=2) == "/?q=a+b&class=x%26y&page=2"
    assert ListQuery().address() == "/"
    assert len(ListQuery.of({"q": "x" * 999}).q) == MAX_LENGTH
