"""The text of a notification: cause, place, confidence, cost, next step, link, in that order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from epicenter.rules.model.job_names import jobs_in_words
from epicenter.rules.model.notification import Action, Brief, Notification
from epicenter.sinks.text import humanize
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.sinks.text.sanitize import sanitize

MAX_FACT_LENGTH: Final = 600
MAX_TITLE_LENGTH: Final = 250
MAX_HEAD_LENGTH: Final = 40
MAX_SHOWN_OTHERS: Final = 10
_PARTIAL_ESCAPE: Final = re.compile(r"\\(x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$")
_FULL_WIDTH: Final = 0xFEE0
_MARKUP: Final = re.compile(r"[@<>\[\]*`~|#&\\]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)

Sanitizer = Callable[[str], str]
Fact = tuple[str, str]


class Message(msgspec.Struct, frozen=True):
    """A one-line title with facts (name and text) or, from a template, a body.

    Texts are sanitized for their target.
    """

    title: str
    facts: tuple[Fact, ...]
    body: str


def default_message(notification: Notification, sanitizer: Sanitizer = sanitize) -> Message:
    """The message when no template replaces it."""
    shown = facts(notification, sanitizer)
    return Message(title(notification, sanitizer), shown, "\n".join(f"{name}: {text}" for name, text in shown))


def title(notification: Notification, sanitizer: Sanitizer = sanitize) -> str:
    """`Opened, critical: GPU has fallen off the bus on n1 (and 2 more)`."""
    incident = notification.incident
    others = len(notification.also) + notification.more
    more = f" (and {others:,} more)" if others else ""
    head = bounded(f"{notification.kind.capitalize()}, {incident.severity}", MAX_HEAD_LENGTH, sanitizer) + ": "
    return head + bounded(incident.title, MAX_TITLE_LENGTH - len(head) - len(more), sanitizer) + more


def facts(notification: Notification, sanitizer: Sanitizer = sanitize) -> tuple[Fact, ...]:
    """The message's facts in order; the link is unchanged."""
    incident = notification.incident
    view = IncidentView(incident)
    first, *others = view.next_steps or ("",)
    texts = {
        "Cause": _cause(view),
        "Where": view.place or "not known",
        "Confidence": view.cause.confidence_percent,
        "Cost": view.lost_since or "not known",
        "Next step": first or "check the evidence",
        "Link": "",
        "Reach": ", ".join(filter(None, (view.reach, jobs_in_words(incident.jobs, humanize.MAX_NAMES)))),
        "Cluster": incident.cluster,
        "Why now": notification.reason,
        "After that": " ".join(others),
        "Action": action_line(notification.action),
        "Also": _others(notification),
        "Incident": f"{incident.incident_id}, revision {incident.revision}, {incident.status}",
    }
    shown = {name: bounded(text, MAX_FACT_LENGTH, sanitizer) for name, text in texts.items()} | {
        "Link": notification.link
    }
    return tuple((name, text) for name, text in shown.items() if text)


def action_line(action: Action) -> str:
    """`drain-node n1, n2 (dry run; too many today)`; empty if there is no action."""
    if action.kind == "none":
        return ""
    parts = [
        humanize.names(action.nodes),
        action.gpu and f"GPU {action.gpu}",
        jobs_in_words(action.jobs, humanize.MAX_NAMES),
    ]
    parts += [f"without {humanize.names(action.exclude_nodes)}"] if action.exclude_nodes else []
    parts += [f"from step {action.resume_step}"] if action.resume_step is not None else []
    permission = "dry run" if action.is_dry_run else "allowed" if action.is_allowed else "not allowed"
    return f"{action.kind} {', '.join(filter(None, parts))} ({'; '.join(filter(None, (permission, action.why)))})"


def cut(text: str, max_length: int) -> str:
    """At most `max_length` characters; a cut ends in `…` and never splits an escape such as `\\x1b`."""
    return text if len(text) <= max_length else _PARTIAL_ESCAPE.sub("", text[: max(0, max_length - 1)]) + "…"


def bounded(text: str, max_length: int, sanitizer: Sanitizer = sanitize) -> str:
    """At most `max_length` characters, sanitized; only that much of the text is processed."""
    return cut(sanitizer(text[: max_length + 1]), max_length)


def without_markup(text: str) -> str:
    """Sanitized text without mentions, links or markup for any service: `@here` becomes `＠here`."""
    return _MARKUP.sub(lambda found: chr(ord(found[0]) + _FULL_WIDTH), sanitize(text))


def _cause(view: IncidentView) -> str:
    """The class, the rule and the verbatim log line."""
    line = cut(view.cause_line, MAX_FACT_LENGTH // 2)
    return f"{view.cause.failure_class} ({view.cause.rule})" + (f": “{line}”" if line else "")


def _others(notification: Notification) -> str:
    shown = [_brief(brief) for brief in notification.also[:MAX_SHOWN_OTHERS]]
    left = len(notification.also) - len(shown) + notification.more
    return "; ".join([*shown, *([f"{left:,} more"] if left else [])])


def _brief(brief: Brief) -> str:
    return f"{cut(brief.title, 120)} ({brief.severity}, {brief.status})"
