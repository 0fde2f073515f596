"""The swim-lanes of an incident, as geometry: one lane a node, time from left to right, arrows from the root cause.

Pure: the incident and a width go in, numbers and words come out; the template `lanes.svg` draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from epicenter.rules.model.incident import Incident
from epicenter.sinks.page.timescale import Break, Tick, TimeScale, scale_of
from epicenter.sinks.text import humanize

WIDE_PX: Final = 1080
NARROW_PX: Final = 352
MAX_LANES: Final = 6
ROW_PX: Final = 30
LANE_GAP_PX: Final = 14
AXIS_PX: Final = 30
LETTER_PX: Final = 6.7
NAME_LETTER_PX: Final = 7.4
MAX_ARROWS: Final = 12
NEAR_PX: Final = 16
BEND_PX: Final = 12


class Mark(msgspec.Struct, frozen=True):
    """What one class of failure did on a lane: it began at `x`, was told at `told_x`, `count` lines that lie close."""

    x: float
    told_x: float
    y: float
    role: str
    failure_class: str
    label: str
    label_x: float
    anchor: str
    label_y: float
    title: str


class Lane(msgspec.Struct, frozen=True):
    """A node, or several folded into one; `name_x`, `name_y` is where its name stands."""

    name: str
    y: float
    height: float
    name_x: float
    name_y: float
    is_root: bool
    is_folded: bool
    marks: tuple[Mark, ...]


class Arrow(msgspec.Struct, frozen=True):
    """From the root cause to something that it explains; `path` is SVG path data."""

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
    told_ns: int


def lay_out(incident: Incident, width: float = WIDE_PX) -> Lanes | None:
    """The drawing of an incident's chain at a width in pixels; None when no link of it tells a readable time.

    Narrow drawings have the names of the lanes above them, wide ones have them on the left.
    """
    links = _links(incident)
    if not links:
        return None
    is_narrow = width < 600
    names = _lane_names(links)
    folded = _folded(incident, links)
    left = 10.0 if is_narrow else min(220.0, max(len(name) * NAME_LETTER_PX + 30 for name in (*names, folded)))
    scale = scale_of([time for link in links for time in (link.onset_ns, link.told_ns)], left + 6, width - 14)
    lanes: list[Lane] = []
    top = 8.0
    for number, name in enumerate(names):
        mine = [link for link in links if link.lane == name]
        lanes.append(_lane(name, mine, scale, top, is_root=number == 0, is_narrow=is_narrow))
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
        arrows=_arrows(incident, lanes),
    )


def _links(incident: Incident) -> list[_Link]:
    found: list[_Link] = []
    for link in incident.chain:
        onset_ns, told_ns = humanize.ns(link.onset), humanize.ns(link.event_time)
        if onset_ns is not None and told_ns is not None:
            lane = link.node or "no node"
            found.append(_Link(lane, link.role, link.failure_class, onset_ns, max(onset_ns, told_ns)))
    return found


def _lane_names(links: Sequence[_Link]) -> list[str]:
    """The root's lane, then the others in the order in which they come into it; those without a node last."""
    root = next((link.lane for link in links if link.role == "root"), links[0].lane)
    others = sorted(dict.fromkeys(link.lane for link in links if link.lane != root), key=lambda name: name == "no node")
    return [root, *others][:MAX_LANES]


def _folded(incident: Incident, links: Sequence[_Link]) -> str:
    shown = set(_lane_names(links))
    more = len({*incident.nodes, *(link.lane for link in links)} - shown - {"no node"})
    total = incident.blast_radius.nodes
    more = max(more, total - len(shown - {"no node"}))
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
    marks = [_mark(group, scale, top + head, rows) for group in _groups(links, scale)]
    height = head + max(1, len(rows)) * ROW_PX - (ROW_PX - 12 if is_folded and is_narrow else 0)
    name_y = top + 14 if is_narrow else top + ROW_PX / 2 + 4
    name_x = 4.0 if is_narrow else 2.0
    return Lane(name, top, height, name_x, name_y, is_root, is_folded, tuple(marks))


def _groups(links: Sequence[_Link], scale: TimeScale) -> Iterable[list[_Link]]:
    """Links of one class that lie so close that they are one mark; the root's stays alone."""
    order = sorted(links, key=lambda link: (link.role != "root", link.failure_class, link.onset_ns))
    groups: list[list[_Link]] = []
    for _, alike in groupby(order, key=lambda link: (link.role == "root", link.failure_class)):
        for link in alike:
            last = groups[-1][-1] if groups else None
            is_near = (
                last is not None
                and (last.role == "root", last.failure_class) == (link.role == "root", link.failure_class)
                and scale.x(link.onset_ns) - scale.x(last.onset_ns) < NEAR_PX
                and abs(scale.x(link.told_ns) - scale.x(last.told_ns)) < NEAR_PX
            )
            if is_near:
                groups[-1].append(link)
            else:
                groups.append([link])
    return sorted(groups, key=lambda group: (group[0].role != "root", group[0].onset_ns))


def _mark(group: Sequence[_Link], scale: TimeScale, top: float, rows: list[float]) -> Mark:
    """One mark with its label, in the first row of the lane in which both have room; `rows` are taken up to an x."""
    first = group[0]
    waited_ns = first.told_ns - first.onset_ns
    x = scale.x(first.onset_ns)
    told_x = scale.x(max(link.told_ns for link in group)) if waited_ns else x
    is_waiting = told_x - x > NEAR_PX
    label = first.failure_class + (f" ×{len(group)}" if len(group) > 1 else "")
    label += f", waited {humanize.length(waited_ns)}" if is_waiting else ""
    width = len(label) * LETTER_PX
    label_x, anchor, begin, end = _label_place(x, told_x, width, scale, is_waiting)
    row = next((number for number, taken in enumerate(rows) if taken + 8 < begin), len(rows))
    rows[row:] = [*([end] if row == len(rows) else [max(end, rows[row])]), *rows[row + 1 :]]
    y = top + row * ROW_PX + ROW_PX / 2
    is_beside = label_x > told_x or anchor == "end"
    title = f"{first.failure_class} ({first.role}) on {first.lane}: began {humanize.clock(first.onset_ns, 3)}"
    title += f", told {humanize.clock(first.told_ns, 3)}" if waited_ns else ""
    label_y = y + 4 if is_beside else y - 8
    return Mark(x, told_x, y, first.role, first.failure_class, label, label_x, anchor, label_y, title)


def _label_place(
    x: float, told_x: float, width: float, scale: TimeScale, is_waiting: bool
) -> tuple[float, str, float, float]:
    """Where the label starts, which end of it that is, and from where to where mark and label reach."""
    if told_x + 12 + width <= scale.right + 10:
        return told_x + 12, "start", x - 6, told_x + 12 + width
    if is_waiting and told_x - x > width + 16:
        return x + 12, "start", x - 6, told_x + 8
    if x - 12 - width >= 4:
        return x - 12, "end", x - 12 - width, told_x + 8
    return 4.0, "start", 0.0, max(told_x + 8, 4 + width)


def _arrows(incident: Incident, lanes: Sequence[Lane]) -> tuple[Arrow, ...]:
    """To the first mark on each lane of what the root explains, or is by its role a consequence; and to the fold."""
    root = next((mark for lane in lanes for mark in lane.marks if mark.role == "root"), None)
    if root is None:
        return ()
    reasons, independent = _explained(incident), _independent(incident)
    arrows: list[Arrow] = []
    for lane in lanes:
        told = [
            mark
            for mark in lane.marks
            if mark is not root
            and (mark.role == "cascade" or mark.failure_class in reasons)
            and (mark.failure_class, lane.name) not in independent
        ]
        if lane.is_folded:
            arrows.append(Arrow(_straight(root, lane.y + lane.height / 2), lane.name))
        elif lane.is_root:
            told = [mark for mark in told if mark.y != root.y]
        arrows += [Arrow(_path(root, mark), _why(root, mark, reasons)) for mark in told[:1]]
    return tuple(arrows[:MAX_ARROWS])


def _explained(incident: Incident) -> dict[str, str]:
    """How the root cause explains each other class; empty for incidents of versions that did not write it."""
    return {effect.failure_class: effect.why for effect in incident.root_cause.explains}


def _independent(incident: Incident) -> set[tuple[str, str]]:
    """Class and node of candidates that nothing explains, as far as is known: no arrow may lead to them."""
    return {(cause.failure_class, cause.node) for cause in incident.candidates[1:] if not cause.explained_by}


def _why(root: Mark, mark: Mark, reasons: Mapping[str, str]) -> str:
    reason = reasons.get(mark.failure_class)
    return f"{root.failure_class} → {mark.failure_class}" + (f": {reason}" if reason else "")


def _path(root: Mark, mark: Mark) -> str:
    """Down the root's own time: straight to what waited then, else along the lane to just before the mark."""
    if mark.x - 8 <= root.x <= mark.told_x and mark.told_x - mark.x > NEAR_PX:
        return _straight(root, mark.y)
    if abs(mark.x - root.x) < 20:
        side, end_x = min(root.x, mark.x) - 20, mark.x - 8
        return f"M{root.x:g} {root.y + 8:g}C{side:g} {root.y + 12:g} {side:g} {mark.y:g} {end_x:g} {mark.y:g}"
    way = 1 if mark.x > root.x else -1
    end_x = mark.label_x - len(mark.label) * LETTER_PX - 6 if mark.anchor == "end" else mark.x - 8 * way
    down, bend_x = mark.y - BEND_PX, root.x + BEND_PX * way
    return f"M{root.x:g} {root.y + 8:g}V{down:g}Q{root.x:g} {mark.y:g} {bend_x:g} {mark.y:g}H{end_x:g}"


def _straight(root: Mark, to_y: float) -> str:
    return f"M{root.x:g} {root.y + 8:g}V{to_y - 3:g}"
