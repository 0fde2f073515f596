"""The swim-lanes as geometry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicenter.rules.model.incident import BlastRadius, ChainLink, Explanation, Incident, RankedCause
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.sinks.page.lanes import CHARACTER_PX, MAX_LANES, NARROW_PX, WIDE_PX, Lanes, lay_out
from epicenter.sinks.page.timescale import BREAK_PX, scale_of, tick_times
from tests.unit.sinks.clickhouse.test_rows import an_incident

START_NS = 1_772_442_000 * NS_PER_S
MINUTE_NS = 60 * NS_PER_S


def link(onset_s: float, node: str, failure_class: str, role: str, logged_s: float | None = None) -> ChainLink:
    onset_ns = START_NS + round(onset_s * NS_PER_S)
    logged_ns = onset_ns if logged_s is None else START_NS + round(logged_s * NS_PER_S)
    return ChainLink(iso_from_ns(logged_ns), iso_from_ns(onset_ns), node, None, failure_class, role, "")


def a_chain(
    chain: Sequence[ChainLink],
    explains: tuple[Explanation, ...] = (),
    nodes: int = 0,
    candidates: Sequence[RankedCause] = (),
) -> Incident:
    """An incident with this chain."""
    names = sorted({link.node for link in chain} - {""})
    return msgspec.structs.replace(
        an_incident(),
        chain=tuple(chain),
        nodes=tuple(names),
        root_cause=msgspec.structs.replace(an_incident().root_cause, explains=explains),
        blast_radius=BlastRadius(nodes=nodes or len(names), ranks=0, jobs=0),
        candidates=tuple(candidates),
    )


def a_candidate(failure_class: str, node: str, *reasons: str) -> RankedCause:
    return RankedCause(failure_class, "r", node, None, "", 0.5, reasons)


XID = link(0, "n1", "xid-79", "root")
CHAIN = [
    XID,
    link(0.1, "n1", "xid-154", "confirmation"),
    link(0.2, "n2", "nccl-timeout", "cascade", logged_s=600),
    link(602, "n3", "sigabrt", "cascade"),
    link(605, "", "subprocess-fail", "teardown"),
]


def drawn(incident: Incident, width: float = WIDE_PX) -> Lanes:
    found = lay_out(incident, width)
    assert found
    return found


@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_root_lane_is_first_and_lane_without_node_last(width: float) -> None:
    lanes = drawn(a_chain([link(-5, "n0", "straggler", "cascade"), *CHAIN]), width).lanes
    assert [lane.name for lane in lanes] == ["n1", "n0", "n2", "n3", "no node"]
    assert [lane.is_root for lane in lanes] == [True, False, False, False, False]


def test_further_nodes_are_folded_and_counted() -> None:
    chain = [XID, *(link(number, f"m{number}", "nccl-error", "cascade") for number in range(1, 20))]
    lanes = drawn(a_chain(chain, nodes=1_025)).lanes
    assert len(lanes) == MAX_LANES + 1
    assert (lanes[-1].name, lanes[-1].is_folded, lanes[-1].marks) == ("and 1,019 more nodes", True, ())


def test_delayed_mark_reaches_from_onset_to_log_line() -> None:
    (mark,) = drawn(a_chain(CHAIN)).lanes[1].marks
    assert mark.logged_x - mark.x > 100
    assert mark.label == "nccl-timeout, logged 10 min later"


@pytest.mark.parametrize("width", [WIDE_PX, NARROW_PX])
def test_effect_dated_back_before_its_cause_is_drawn_from_the_cause_on(width: float) -> None:
    lanes = drawn(a_chain([link(-5, "n2", "hang", "cascade", logged_s=60), *CHAIN]), width).lanes
    root = lanes[0].marks[0]
    hang = next(mark for lane in lanes for mark in lane.marks if mark.failure_class == "hang")
    assert (hang.role, hang.x, hang.to_x) == ("cascade", root.x, root.x)
    assert hang.from_x < root.x < hang.logged_x


def test_estimated_onset_has_its_interval() -> None:
    late = link(20, "n2", "nccl-timeout", "cascade", logged_s=600)
    limits = [iso_from_ns(START_NS + second * NS_PER_S) for second in (12, 28)]
    late = msgspec.structs.replace(late, onset_earliest=limits[0], onset_latest=limits[1])
    mark = drawn(a_chain([XID, late])).lanes[1].marks[0]
    assert mark.from_x < mark.x < mark.to_x < mark.logged_x


def test_link_logged_before_the_cause_began_is_no_effect() -> None:
    earlier = link(-60, "n2", "pcie-aer-corrected", "cascade")
    drawing = drawn(a_chain([earlier, *CHAIN], (Explanation("pcie-aer-corrected", "n2", "x"),)))
    mark = next(mark for lane in drawing.lanes for mark in lane.marks if mark.failure_class == "pcie-aer-corrected")
    assert mark.role == "earlier" and mark.x < drawing.lanes[0].marks[0].x
    assert not any("pcie-aer-corrected" in arrow.title for arrow in drawing.arrows)


def test_only_lanes_of_one_node_have_a_node_to_link_to() -> None:
    lanes = drawn(a_chain(CHAIN, nodes=9)).lanes
    assert [lane.node for lane in lanes] == ["n1", "n2", "n3", "", ""]


def test_close_links_of_one_class_share_a_mark() -> None:
    chain = [XID, *(link(5 + number / 100, "n2", "nccl-error", "cascade") for number in range(3))]
    (mark,) = drawn(a_chain(chain)).lanes[1].marks
    assert mark.label == "nccl-error ×3"


def test_long_quiet_stretch_is_cut_short() -> None:
    drawing = drawn(a_chain(CHAIN))
    (gap,) = drawing.breaks
    assert (round(gap.right - gap.left), gap.label) == (BREAK_PX, "10 min")
    assert {tick.label for tick in drawing.ticks} >= {"09:00:00", "09:10:05"}


def test_arrows_lead_to_explained_classes_and_folded_nodes() -> None:
    explains = (Explanation("nccl-timeout", "n2", "the others wait"),)
    titles = [arrow.title for arrow in drawn(a_chain(CHAIN, explains, nodes=9)).arrows]
    assert titles == ["xid-79 → nccl-timeout: the others wait", "xid-79 → sigabrt", "and 6 more nodes"]


def test_no_arrow_leads_to_an_unexplained_candidate() -> None:
    candidates = [a_candidate("xid-79", "n1"), a_candidate("sigabrt", "n3")]
    titles = [arrow.title for arrow in drawn(a_chain(CHAIN, candidates=candidates)).arrows]
    assert titles == ["xid-79 → nccl-timeout"]


def test_arrows_without_explanations_follow_roles() -> None:
    candidates = [a_candidate(name, "n3", "explained by xid-79") for name in ("xid-79", "sigabrt")]
    incident = a_chain(CHAIN, candidates=candidates)
    root = msgspec.structs.replace(incident.root_cause, reasons=("it explains nccl-timeout: the others wait",))
    titles = [arrow.title for arrow in drawn(msgspec.structs.replace(incident, root_cause=root)).arrows]
    assert titles == ["xid-79 → nccl-timeout"]


def test_no_readable_time_gives_no_drawing() -> None:
    assert lay_out(a_chain([])) is None
    assert lay_out(a_chain([msgspec.structs.replace(XID, onset="soon")])) is None


LINKS = st.builds(
    link,
    st.floats(0, 4_000),
    st.sampled_from(["n1", "node-with-a-long-name.example", "n3", ""]),
    st.sampled_from(["xid-79", "nccl-timeout", "elastic-worker-failed"]),
    st.sampled_from(["cascade", "confirmation", "teardown"]),
    st.none() | st.floats(0, 9_000),
)


@given(st.lists(LINKS, max_size=25), st.sampled_from([WIDE_PX, NARROW_PX]))
def test_marks_and_labels_are_inside_and_do_not_overlap(links: list[ChainLink], width: float) -> None:
    drawing = drawn(a_chain([XID, *links]), width)
    for lane in drawing.lanes:
        boxes = []
        for mark in lane.marks:
            assert drawing.plot_left <= mark.x <= mark.logged_x <= width
            assert lane.y <= mark.y <= lane.y + lane.height
            length = len(mark.label) * CHARACTER_PX
            begin = mark.label_x - length if mark.anchor == "end" else mark.label_x
            if width == WIDE_PX:
                assert begin >= 0 and begin + length <= width
            boxes.append((mark.y, begin, begin + length))
        for (y, begin, end), (other_y, other_begin, other_end) in combinations(boxes, 2):
            assert y != other_y or end <= other_begin or other_end <= begin
    for arrow in drawing.arrows:
        assert arrow.path.startswith("M")


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=40))
def test_scale_keeps_order_and_uses_the_whole_width(times_ns: list[int]) -> None:
    scale = scale_of(times_ns, 100, 1_000)
    places = [scale.x(time_ns) for time_ns in sorted(times_ns)]
    assert places == sorted(places)
    assert all(100 <= x <= 1_000.1 for x in places)
    labels = [tick.label_x for tick in scale.ticks()]
    assert labels == sorted(labels) and labels
    assert round(scale.right) == 1_000


@pytest.mark.parametrize(
    ("length_s", "most", "expected_s"),
    [
        (10, 6, [0, 2, 4, 6, 8, 10]),
        (600, 6, [0, 120, 240, 360, 480, 600]),
        (0.01, 6, [0, 0.002, 0.004, 0.006, 0.008, 0.01]),
        (7_200, 4, [0, 3_600, 7_200]),
        (40 * 86_400, 4, [0, 1_209_600, 2_419_200]),
    ],
)
def test_ticks_are_round_and_few(length_s: float, most: int, expected_s: list[float]) -> None:
    found = tick_times(0, round(length_s * NS_PER_S), most)
    assert [time_ns / NS_PER_S for time_ns in found] == expected_s
