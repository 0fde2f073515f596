"""Sentences that hold commands between backticks. Pure."""

from __future__ import annotations


def command_parts(text: str) -> list[tuple[str, bool]]:
    """The sentence cut into parts, each with whether it is a command; a backtick without its partner is text."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    parts = [(piece, number % 2 == 1) for number, piece in enumerate(pieces)]
    return [part for part in parts if part[0]]
