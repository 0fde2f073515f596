"""Which messages of one log are unusual, of those that no rule names: on one rank only, or new at the end."""

from __future__ import annotations

from typing import Final

from epicenter.rules.event_time.ordering import onset_order
from epicenter.rules.model.signals import Signal
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.model.unusual import Unusual
from epicenter.rules.report.unusual_text import speakers_text, when_text
from epicenter.rules.triage.story import Story, UnnamedMessage

CLOSE_NS: Final = 600 * NS_PER_S
"""A message that first came within this time before the end of a longer log may be why it ended."""


def new_at_the_end(story: Story) -> Signal | None:
    """The first line that no rule names and whose message came only after the last step, if steps are known.

    One that only one of several ranks or nodes prints comes before those that all print. Words alone don't count.
    """
    has_steps, failures = story.steps.last is not None, [m for m in story.unnamed.values() if m.first.role != "context"]
    new = [message for message in failures if not has_steps or _follows_the_steps(story, message)]
    found = min(new, key=lambda message: (not _is_alone(story, message), onset_order(message.first)), default=None)
    return found.first if found else None


def rarest_first(story: Story) -> list[UnnamedMessage]:
    """The most unusual messages first, then the rarest; of equally rare ones the newest."""

    def order(message: UnnamedMessage) -> tuple[int, int]:
        is_late = _follows_the_steps(story, message) or bool(_until_end_s(story, message))
        return -(_is_alone(story, message) + is_late), message.count

    newest_first = reversed(story.unnamed.values())
    return sorted(newest_first, key=order)


def unusual_texts(story: Story, message: UnnamedMessage) -> tuple[str, ...]:
    """What is unusual about a message, in words."""
    texts = list(speakers_text(_speakers(story, message)))
    if _follows_the_steps(story, message):
        texts.append("first seen after the last step")
    if until_end_s := _until_end_s(story, message):
        texts.append(f"first seen {when_text(until_end_s, 'before the end', '')}")
    return tuple(texts)


def _speakers(story: Story, message: UnnamedMessage) -> Unusual:
    return Unusual(
        lines=message.count,
        node=message.first.node,
        rank=message.first.rank,
        nodes=len(message.nodes),
        of_nodes=len(story.nodes),
        ranks=len(message.ranks),
        of_ranks=len(story.ranks),
    )


def _is_alone(story: Story, message: UnnamedMessage) -> bool:
    return _speakers(story, message).is_alone


def _follows_the_steps(story: Story, message: UnnamedMessage) -> bool:
    steps = story.steps
    return steps.last is not None and story.follows(message.first, steps.last_position, steps.last_time_ns)


def _until_end_s(story: Story, message: UnnamedMessage) -> int | None:
    """How long before the end of a longer log it first came; None if long before, or if that is not known."""
    first_ns, begin_ns, end_ns = story.time_of(message.first), story.first_ns, story.newest_ns
    if first_ns is None or begin_ns is None or end_ns is None:
        return None
    is_close = end_ns - first_ns <= min(CLOSE_NS, first_ns - begin_ns)
    return (end_ns - first_ns) // NS_PER_S if is_close else None
