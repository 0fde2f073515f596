"""Messages as Slack blocks. All text is in `rich_text` elements, in which Slack parses no markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from epicenter.rules.model.incident import Incident
from epicenter.rules.model.notification import Notification
from epicenter.sinks.notify.message import Message, bounded, cut
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.sinks.text.sanitize import sanitize

MAX_FALLBACK_LENGTH: Final = 700
MAX_BODY_LENGTH: Final = 2_900
MAX_FACT_LENGTH: Final = 500
MAX_LINK_LENGTH: Final = 3_000
MAX_SHOWN_LINKS: Final = 15
MAX_SHOWN_TEXT: Final = 150

Block = dict[str, Any]


def head(message: Message, link: str) -> dict[str, Any]:
    """The group's message: the title, then the facts or the template's body."""
    parts = [_text(f"{message.title}\n", bold=True)]
    if message.facts:
        for number, (name, text) in enumerate(message.facts):
            parts += [_text(("\n" if number else "") + f"{name}: ", bold=True), _value(name, text, link)]
    else:
        parts += [
            _text(cut(message.body, MAX_BODY_LENGTH) or " "),
            *([_text("\n"), _link(link)] if _is_link(link) else []),
        ]
    return _message(f"{message.title}\n{message.body}", [_rich({"type": "rich_text_section", "elements": parts})])


def chain(incident: Incident) -> dict[str, Any] | None:
    """The causal chain line by line; None if it is empty."""
    if not incident.chain:
        return None
    hidden = len(incident.chain) - MAX_SHOWN_LINKS
    lines = [*_chain_lines(incident), *([f"… and {hidden:,} more"] if hidden > 0 else [])]
    heading = {"type": "rich_text_section", "elements": [_text("Causal chain (UTC)\n", bold=True)]}
    quoted = {"type": "rich_text_preformatted", "elements": [_text(cut("\n".join(lines), MAX_BODY_LENGTH))]}
    return _message("Causal chain", [_rich(heading, quoted)])


def change(notification: Notification, message: Message) -> dict[str, Any]:
    """One line for the thread about the change."""
    reason = f": {bounded(notification.reason, MAX_FACT_LENGTH)}" if notification.reason else ""
    parts = [_text(message.title, bold=True), *([_text(reason)] if reason else [])]
    return _message(message.title + reason, [_rich({"type": "rich_text_section", "elements": parts})])


def escaped(text: str) -> str:
    """Text escaped for fields in which Slack parses markup: no mentions or links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _message(fallback: str, blocks: list[Block]) -> dict[str, Any]:
    return {
        "text": escaped(cut(fallback, MAX_FALLBACK_LENGTH)),
        "blocks": blocks,
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _chain_lines(incident: Incident) -> Iterator[str]:
    for link in IncidentView(incident).chain[:MAX_SHOWN_LINKS]:
        what = f"{link.began[:19]} {link.role} {link.failure_class}{link.where}"
        yield f"{bounded(what, MAX_SHOWN_TEXT)}\n    {bounded(link.text, MAX_SHOWN_TEXT)}"


def _rich(*elements: Block) -> Block:
    return {"type": "rich_text", "elements": list(elements)}


def _value(name: str, text: str, link: str) -> Block:
    return _link(link) if name == "Link" and _is_link(link) else _text(cut(text, MAX_FACT_LENGTH))


def _text(text: str, bold: bool = False) -> Block:
    return {"type": "text", "text": text, **({"style": {"bold": True}} if bold else {})}


def _link(url: str) -> Block:
    return {"type": "link", "url": url, "text": "Open incident"}


def _is_link(link: str) -> bool:
    return link.startswith(("https://", "http://")) and len(link) <= MAX_LINK_LENGTH and link == sanitize(link)
