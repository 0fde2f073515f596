"""The swimlanes of an incident as geometry: one lane per node, time from left to right, arrows from the root cause.

Pure. The template `lanes.svg` draws the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from epicenter.rules.model.incident import ChainLink, Incident
from epicenter.sinks.page.timescale import Break, Tick, TimeScale, scale_of
from epicenter.sinks.text import humanize

WIDE_PX: Final = 900
NARROW_PX: Final = 352
MAX_LANES: Final = 6
ROW_PX: Final = 28
NARROW_ROW_PX: Final = 38
EARLIER: Final = "earlier"
"""The role of a link that was logged before the root cause began: it is no consequence."""
LANE_GAP_PX: Final = 14
AXIS_PX: Final = 30
CHARACTER_PX: Final = 6.7
NAME_CHARACTER_PX: Final = 7.4
MAX_ARROWS: Final = 12
NO_NODE: Final = "no node"
MERGE_PX: Final = 16
BEND_PX: Final = 12


class Mark(msgspec.Struct, frozen=True):
    """One class of failure on a lane: it began at `x` and was logged at `logged_x`. Close links share a mark.

    An onset that is only estimated lies between `from_x` and `to_x`.
    """

    from_x: float
    x: float
    to_x: float
    logged_x: float
    y: float
    role: str
    failure_class: str
    label: str
    label_x: float
    anchor: str
    label_y: float
    title: str


class Lane(msgspec.Struct, frozen=True):
    """One node, or several folded together: then `node` is empty. The name is at `name_x`, `name_y`."""

    name: str
    node: str
    y: float
    height: float
    name_x: float
    name_y: float
    is_root: bool
    is_folded: bool
    marks: tuple[Mark, ...]


class Arrow(msgspec.Struct, frozen=True):
    """An arrow from the root cause to something it explains; `path` is SVG path data."""

    path: str
    title: str


class Lanes(msgspec.Struct, frozen=True):
    """The whole drawing."""

    width: float
    height: float
    plot_left: float
    plot_bottom: float
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    breaks: tuple[Break, ...]
    arrows: tuple[Arrow, ...]


class _Link(msgspec.Struct, frozen=True):
    lane: str
    role: str
    failure_class: str
    onset_ns: int
    logged_ns: int
    earliest_ns: int
    latest_ns: int


def lay_out(incident: Incident, width: float = WIDE_PX) -> Lanes | None:
    """The drawing of an incident's chain, `width` pixels wide; None when no link has a readable time.

    Lane names are above the lanes in narrow drawings and on the left in wide ones.
    """
    links = _links(incident)
    if not links:
        return None
    is_narrow = width < 600
    names = _lane_names(links)
    folded = _folded(incident, links)
    left = 10.0 if is_narrow else min(220.0, max(len(name) * NAME_CHARACTER_PX + 30 for name in (*names, folded)))
    times = [time for link in links for time in (link.earliest_ns, link.latest_ns, link.onset_ns, link.logged_ns)]
    scale = scale_of(times, left + 6, width - 14)
    lanes: list[Lane] = []
    top = 8.0
    for number, name in enumerate(names):
        lane_links = [link for link in links if link.lane == name]
        lanes.append(_lane(name, lane_links, scale, top, is_root=number == 0, is_narrow=is_narrow))
        top += lanes[-1].height + LANE_GAP_PX
    if folded:
        lanes.append(_lane(folded, [], scale, top, is_root=False, is_narrow=is_narrow, is_folded=True))
        top += lanes[-1].height + LANE_GAP_PX
    return Lanes(
        width=width,
        height=top + AXIS_PX,
        plot_left=left,
        plot_bottom=top,
        lanes=tuple(lanes),
        ticks=scale.ticks(),
        breaks=scale.breaks(),
        arrows=_arrows(incident, lanes, is_narrow),
    )


def _links(incident: Incident) -> list[_Link]:
    root_ns = next((humanize.ns(link.onset) for link in incident.chain if link.role == "root"), None)
    found = (_link(link, root_ns) for link in incident.chain)
    return [link for link in found if link is not None]


def _link(link: ChainLink, root_ns: int | None) -> _Link | None:
    """The link with its onset not before that of the root cause, unless it was logged before: then it is no effect."""
    onset_ns, logged_ns = humanize.ns(link.onset), humanize.ns(link.event_time)
    if onset_ns is None or logged_ns is None:
        return None
    earliest_ns = min(onset_ns, humanize.ns(link.onset_earliest) or onset_ns)
    latest_ns, role = max(onset_ns, humanize.ns(link.onset_latest) or onset_ns), link.role
    if root_ns is not None and onset_ns < root_ns:
        if logged_ns < root_ns:
            role = EARLIER
        else:
            onset_ns, latest_ns = root_ns, max(latest_ns, root_ns)
    logged_ns = max(onset_ns, logged_ns)
    return _Link(link.node or NO_NODE, role, link.failure_class, onset_ns, logged_ns, earliest_ns, latest_ns)


def _lane_names(links: Sequence[_Link]) -> list[str]:
    """The root's lane, then the others in chain order; links without a node are last."""
    root = next((link.lane for link in links if link.role == "root"), links[0].lane)
    others = sorted(dict.fromkeys(link.lane for link in links if link.lane != root), key=lambda name: name == NO_NODE)
    return [root, *others][:MAX_LANES]


def _folded(incident: Incident, links: Sequence[_Link]) -> str:
    shown = set(_lane_names(links))
    more = len({*incident.nodes, *(link.lane for link in links)} - shown - {NO_NODE})
    total = incident.blast_radius.nodes
    more = max(more, total - len(shown - {NO_NODE}))
    return f"and {humanize.count(more, 'more node')}" if more > 0 else ""


def _lane(
    name: str,
    links: Sequence[_Link],
    scale: TimeScale,
    top: float,
    *,
    is_root: bool,
    is_narrow: bool,
    is_folded: bool = False,
) -> Lane:
    head = 20.0 if is_narrow else 0.0
    rows: list[float] = []
    row_px = NARROW_ROW_PX if is_narrow else ROW_PX
    marks = [_mark(group, scale, top + head, rows, is_narrow) for group in _groups(links, scale)]
    height = head + max(1, len(rows)) * row_px - (row_px - 12 if is_folded and is_narrow else 0)
    name_y = top + 14 if is_narrow else top + ROW_PX / 2 + 4
    name_x = 4.0 if is_narrow else 2.0
    node = "" if is_folded or name == NO_NODE else name
    return Lane(name, node, top, height, name_x, name_y, is_root, is_folded, tuple(marks))


def _groups(links: Sequence[_Link], scale: TimeScale) -> Iterable[list[_Link]]:
    """Links of one class that are close enough to share a mark; the root has its own."""
    order = sorted(links, key=lambda link: (link.role != "root", link.failure_class, link.onset_ns))
    groups: list[list[_Link]] = []
    for _, same_class in groupby(order, key=lambda link: (link.role == "root", link.failure_class)):
        for link in same_class:
            last = groups[-1][-1] if groups else None
            is_near = (
                last is not None
                and (last.role == "root", last.failure_class) == (link.role == "root", link.failure_class)
                and scale.x(link.onset_ns) - scale.x(last.onset_ns) < MERGE_PX
                and abs(scale.x(link.logged_ns) - scale.x(last.logged_ns)) < MERGE_PX
            )
            if is_near:
                groups[-1].append(link)
            else:
                groups.append([link])
    return sorted(groups, key=lambda group: (group[0].role != "root", group[0].onset_ns))


def _mark(group: Sequence[_Link], scale: TimeScale, top: float, rows: list[float], is_narrow: bool) -> Mark:
    """One mark with its label in the first row of the lane with room for both; `rows` holds each row's used width."""
    first = group[0]
    delay_ns = first.logged_ns - first.onset_ns
    x = scale.x(first.onset_ns)
    logged_x = scale.x(max(link.logged_ns for link in group)) if delay_ns else x
    is_delayed = logged_x - x > MERGE_PX
    label = first.failure_class + (f" ×{len(group)}" if len(group) > 1 else "")
    label += f", logged {humanize.length(delay_ns)} later" if is_delayed else ""
    width = len(label) * CHARACTER_PX
    from_x = scale.x(min(link.earliest_ns for link in group))
    place = _place_above if is_narrow else _place_next_to
    label_x, anchor, begin, end = place(x, logged_x, width, scale, is_delayed)
    begin = min(begin, from_x)
    row = next((number for number, used_x in enumerate(rows) if used_x + 8 < begin), len(rows))
    rows[row:] = [*([end] if row == len(rows) else [max(end, rows[row])]), *rows[row + 1 :]]
    y = top + (row + 1) * NARROW_ROW_PX - 11 if is_narrow else top + row * ROW_PX + ROW_PX / 2
    is_beside = not is_narrow and (label_x > logged_x or anchor == "end")
    title = f"{first.failure_class} ({first.role}) on {first.lane}: started {humanize.clock(first.onset_ns, 3)}"
    title += f", logged {humanize.clock(first.logged_ns, 3)}" if delay_ns else ""
    label_y = y + 4 if is_beside else y - 12 if is_narrow else y - 8
    to_x = scale.x(max(link.latest_ns for link in group))
    return Mark(from_x, x, to_x, logged_x, y, first.role, first.failure_class, label, label_x, anchor, label_y, title)


def _place_above(
    x: float, logged_x: float, width: float, scale: TimeScale, is_delayed: bool
) -> tuple[float, str, float, float]:
    """As `_place_next_to`, for a label above the mark."""
    label_x = max(4.0, min(x + 8, scale.right + 10 - width))
    return label_x, "start", min(label_x, x - 6), max(logged_x + 8, label_x + width)


def _place_next_to(
    x: float, logged_x: float, width: float, scale: TimeScale, is_delayed: bool
) -> tuple[float, str, float, float]:
    """The label's x and text anchor, and the left and right edge of mark and label together."""
    if logged_x + 12 + width <= scale.right + 10:
        return logged_x + 12, "start", x - 6, logged_x + 12 + width
    if is_delayed and logged_x - x > width + 16:
        return x + 12, "start", x - 6, logged_x + 8
    if x - 12 - width >= 4:
        return x - 12, "end", x - 12 - width, logged_x + 8
    return 4.0, "start", 0.0, max(logged_x + 8, 4 + width)


def _arrows(incident: Incident, lanes: Sequence[Lane], is_narrow: bool) -> tuple[Arrow, ...]:
    """Arrows to the first mark on each lane that the root explains or that cascades from it, and to the folded lane."""
    root = next((mark for lane in lanes for mark in lane.marks if mark.role == "root"), None)
    if root is None:
        return ()
    reasons, independent = _explained(incident), _independent(incident)
    arrows: list[Arrow] = []
    for lane in lanes:
        effects = [
            mark
            for mark in lane.marks
            if mark is not root
            and mark.role != EARLIER
            and (mark.role == "cascade" or mark.failure_class in reasons)
            and (mark.failure_class, lane.name) not in independent
        ]
        if lane.is_folded:
            arrows.append(Arrow(_straight(root, lane.y + (4 if is_narrow else lane.height / 2)), lane.name))
        elif lane.is_root:
            effects = [mark for mark in effects if mark.y != root.y]
        arrows += [Arrow(_path(root, mark), _why(root, mark, reasons)) for mark in effects[:1]]
    return tuple(arrows[:MAX_ARROWS])


def _explained(incident: Incident) -> dict[str, str]:
    """Why the root cause explains each other class; empty for incidents of older versions."""
    return {effect.failure_class: effect.why for effect in incident.root_cause.explains}


def _independent(incident: Incident) -> set[tuple[str, str]]:
    """Class and node of candidates that nothing explains: no arrow leads to them."""
    return {(cause.failure_class, cause.node) for cause in incident.candidates[1:] if not cause.explained_by}


def _why(root: Mark, mark: Mark, reasons: Mapping[str, str]) -> str:
    reason = reasons.get(mark.failure_class)
    return f"{root.failure_class} → {mark.failure_class}" + (f": {reason}" if reason else "")


def _path(root: Mark, mark: Mark) -> str:
    """An SVG path down from the root: straight to a mark that was pending at that time, else along the lane."""
    if mark.x - 8 <= root.x <= mark.logged_x and mark.logged_x - mark.x > MERGE_PX:
        return _straight(root, mark.y)
    if abs(mark.x - root.x) < 20:
        side, end_x = min(root.x, mark.x) - 20, mark.x - 8
        return f"M{root.x:g} {root.y + 8:g}C{side:g} {root.y + 12:g} {side:g} {mark.y:g} {end_x:g} {mark.y:g}"
    way = 1 if mark.x > root.x else -1
    end_x = mark.label_x - len(mark.label) * CHARACTER_PX - 6 if mark.anchor == "end" else mark.x - 8 * way
    down, bend_x = mark.y - BEND_PX, root.x + BEND_PX * way
    return f"M{root.x:g} {root.y + 8:g}V{down:g}Q{root.x:g} {mark.y:g} {bend_x:g} {mark.y:g}H{end_x:g}"


def _straight(root: Mark, to_y: float) -> str:
    return f"M{root.x:g} {root.y + 8:g}V{to_y - 3:g}"
