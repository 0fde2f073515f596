"""What a notification says to people: cause, where, confidence, cost, next step, link, in that order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from epicenter.rules.model.notification import Action, Brief, Notification
from epicenter.sinks.text import humanize
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.sinks.text.sanitize import sanitize

MAX_FACT_LENGTH: Final = 600
MAX_TITLE_LENGTH: Final = 250
MAX_HEAD_LENGTH: Final = 40
MAX_SHOWN_OTHERS: Final = 10
_PART_OF_AN_ESCAPE: Final = re.compile(r"\\(x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$")
_FULL_WIDTH: Final = 0xFEE0
_LIVE: Final = re.compile(r"[@<>\[\]*`~|#&\\]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)

Inert = Callable[[str], str]
Fact = tuple[str, str]


class Message(msgspec.Struct, frozen=True):
    """A title in one line, then either facts (a name and its text) or, from a template, a body.

    The texts are inert for the target that they were made for.
    """

    title: str
    facts: tuple[Fact, ...]
    body: str


def default_message(notification: Notification, inert: Inert = sanitize) -> Message:
    """What people are told unless a template says otherwise."""
    told = facts(notification, inert)
    return Message(title(notification, inert), told, "\n".join(f"{name}: {text}" for name, text in told))


def title(notification: Notification, inert: Inert = sanitize) -> str:
    """`Opened, critical: GPU has fallen off the bus on n1 (and 2 more)`."""
    incident = notification.incident
    others = len(notification.also) + notification.more
    more = f" (and {others:,} more)" if others else ""
    head = bounded(f"{notification.kind.capitalize()}, {incident.severity}", MAX_HEAD_LENGTH, inert) + ": "
    return head + bounded(incident.title, MAX_TITLE_LENGTH - len(head) - len(more), inert) + more


def facts(notification: Notification, inert: Inert = sanitize) -> tuple[Fact, ...]:
    """The names and texts of the message, in their order; the link is as it was given."""
    incident = notification.incident
    view = IncidentView(incident)
    first, *others = view.next_steps or ("",)
    told = {
        "Cause": _cause(view),
        "Where": view.place or "not told",
        "Confidence": view.cause.confidence_percent,
        "Cost": view.lost_since or "not known",
        "Next step": first or "read the evidence",
        "Link": "",
        "Reach": ", ".join(filter(None, (view.reach, _jobs(incident.jobs)))),
        "Cluster": incident.cluster,
        "Why now": notification.reason,
        "After that": " ".join(others),
        "Action": action_line(notification.action),
        "Also": _others(notification),
        "Incident": f"{incident.incident_id}, revision {incident.revision}, {incident.status}",
    }
    shown = {name: bounded(text, MAX_FACT_LENGTH, inert) for name, text in told.items()} | {"Link": notification.link}
    return tuple((name, text) for name, text in shown.items() if text)


def action_line(action: Action) -> str:
    """`drain-node n1, n2 (dry run; too many today)`; empty when nothing is to be done."""
    if action.kind == "none":
        return ""
    on = [humanize.names(action.nodes), action.gpu and f"GPU {action.gpu}", _jobs(action.jobs)]
    on += [f"without {humanize.names(action.exclude_nodes)}"] if action.exclude_nodes else []
    on += [f"from step {action.resume_step}"] if action.resume_step is not None else []
    leave = "dry run" if action.is_dry_run else "allowed" if action.is_allowed else "not allowed"
    return f"{action.kind} {', '.join(filter(None, on))} ({'; '.join(filter(None, (leave, action.why)))})"


def cut(text: str, most: int) -> str:
    """At most so many characters, with `…` where some are missing, and no escape such as `\\x1b` cut in two."""
    return text if len(text) <= most else _PART_OF_AN_ESCAPE.sub("", text[: max(0, most - 1)]) + "…"


def bounded(text: str, most: int, inert: Inert = sanitize) -> str:
    """At most so many characters, inert; a text of megabytes costs no more than a long one."""
    return cut(inert(text[: most + 1]), most)


def disarmed(text: str) -> str:
    """Inert, and nothing in it is a mention, a link or markup wherever it may end up: `@here` becomes `＠here`."""
    return _LIVE.sub(lambda found: chr(ord(found[0]) + _FULL_WIDTH), sanitize(text))


def _cause(view: IncidentView) -> str:
    """The class, the rule, and the line word for word."""
    line = cut(view.cause_line, MAX_FACT_LENGTH // 2)
    return f"{view.cause.failure_class} ({view.cause.rule})" + (f": “{line}”" if line else "")


def _jobs(jobs: tuple[str, ...]) -> str:
    return f"{'job' if len(jobs) == 1 else 'jobs'} {humanize.names(jobs)}" if jobs else ""


def _others(notification: Notification) -> str:
    shown = [_brief(one) for one in notification.also[:MAX_SHOWN_OTHERS]]
    left = len(notification.also) - len(shown) + notification.more
    return "; ".join([*shown, *([f"{left:,} more"] if left else [])])


def _brief(brief: Brief) -> str:
    return f"{cut(brief.title, 120)} ({brief.severity}, {brief.status})"
