"""How unusual a message is, in words, only as far as it is known."""

from __future__ import annotations

from collections.abc import Iterator

from epicenter.rules.model.unusual import Unusual


def unusual_texts(unusual: Unusual) -> tuple[str, ...]:
    """`first seen in this cluster`, `only on n3 of 64 nodes`, `2 minutes before the job stopped`."""
    return tuple(_texts(unusual))


def _texts(unusual: Unusual) -> Iterator[str]:
    if unusual.first_in:
        yield f"first seen in this {unusual.first_in}"
    elif unusual.first_in is None:
        yield "not known whether it came before"
    if unusual.lines > 1:
        yield f"{unusual.lines} lines so far"
    yield from speakers_text(unusual)
    if unusual.healthy_hours:
        yield f"also in {_count(unusual.healthy_hours, 'earlier hour')} without an incident"
    if unusual.stops:
        yield f"before {_count(unusual.stops, 'other job')} stopped too"
    if unusual.until_stop_s is not None:
        yield when_text(unusual.until_stop_s, "before the job stopped", "after the job stopped")


def speakers_text(unusual: Unusual) -> Iterator[str]:
    """Which rank or node alone says it; nothing if several do."""
    if unusual.ranks == 1 and (unusual.of_ranks or 0) > 1:
        yield f"only on rank {unusual.rank} of {unusual.of_ranks}"
    elif unusual.nodes == 1 and (unusual.of_nodes or 0) > 1:
        yield f"only on {unusual.node} of {unusual.of_nodes} nodes"


def when_text(seconds: int, before: str, after: str) -> str:
    """`2 minutes before the job stopped`; a negative time lies after that."""
    span = abs(seconds)
    size, unit = (1, "second") if span < 120 else (60, "minute") if span < 7200 else (3600, "hour")
    return f"{_count(span // size, unit)} {before if seconds >= 0 else after}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
