"""The order in which inputs are taken: by event time, then by what they say; when they arrived means nothing."""

from __future__ import annotations

from rules.model import Beat, Match, Seat, Signal

Order = tuple[int, int, str, str, str, int, int, str, str]


def match_order(match: Match) -> Order:
    """Matches come after what beats and seats tell of the same moment."""
    event = match.event
    rank = -1 if event.rank is None else event.rank
    place = event.position
    who = (event.node, event.source, event.job, rank)
    return (event.event_time_ns, 1, *who, place.offset, match.match_id, place.source)


def beat_order(beat: Beat) -> Order:
    """Beats come first of their moment."""
    step, rank = -1 if beat.step is None else beat.step, -1 if beat.rank is None else beat.rank
    rest = f"{beat.phase}/{beat.world_size}/{beat.saved_step}"
    return (beat.event_time_ns, 0, beat.node, beat.source, beat.job, step, rank, beat.cluster, rest)


def seat_order(seat: Seat) -> Order:
    """Beside beats: a line that tells who sits where comes before what else happens at that time."""
    rank, local_rank = (-1 if one is None else one for one in (seat.rank, seat.local_rank))
    size = seat.world_size or 0
    world = str(size if seat.is_start else -size)
    rest = (rank, local_rank, seat.cluster, f"{seat.gpu}/{seat.address}/{seat.pod}")
    return (seat.time_ns, 0, seat.node, world, seat.job, *rest)


def onset_order(signal: Signal) -> tuple[int, int, str, str, int, str]:
    """Earliest onset first, then the order in a plain file; the rest makes the order the same everywhere."""
    line = signal.position.offset if signal.log and signal.position else 0
    return (signal.onset_ns, signal.event_time_ns, signal.node, signal.log, line, signal.signal_id)
