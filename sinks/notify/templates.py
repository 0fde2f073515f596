"""Texts that people write in place of ours: Jinja templates in a sandbox, tried out when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from epicenter.rules.model.notification import Notification
from epicenter.sinks.log import get_logger
from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.message import Inert, Message, default_message
from epicenter.sinks.notify.samples import samples
from epicenter.sinks.text import humanize
from epicenter.sinks.text.sanitize import sanitize

log: Final = get_logger(__name__)
MAX_BODY_LENGTH: Final = 40_000
_FROM_A_TEMPLATE: Final = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    RecursionError,
)


class _Lines(str):
    """A text of ours in several lines, inert already."""


class Writer:
    """Writes the messages of one target: with its templates, or as everybody gets them."""

    def __init__(self, target: str, spec: TemplateSpec | None = None, inert: Inert = sanitize):
        self._target, self._inert = target, inert
        environment = _environment(inert)
        self._templates = {name: environment.from_string(text) for name, text in _texts(spec)}

    def write(self, notification: Notification) -> Message:
        """The message; the default one when a template raises, which is told in a log line."""
        try:
            return self.attempt(notification)
        except _FROM_A_TEMPLATE as error:
            log.warning("alert_template_failed", target=self._target, error=str(error)[:200])
            return default_message(notification, self._inert)

    def attempt(self, notification: Notification) -> Message:
        """The message; raises what a template raises."""
        message = default_message(notification, self._inert)
        given = {name: _render(template, notification, message) for name, template in self._templates.items()}
        title = " ".join(given.get("title", message.title).split()) or message.title
        return Message(title, () if "body" in given else message.facts, given.get("body", message.body))


def template_faults(target: str, spec: TemplateSpec) -> Iterator[tuple[str, str]]:
    """What is wrong with the templates of a target: `title` or `body`, and why."""
    for name, _ in _texts(spec):
        alone = spec.model_copy(update={"body" if name == "title" else "title": None})
        if fault := _fault(target, alone):
            yield name, fault


def _fault(target: str, spec: TemplateSpec) -> str:
    try:
        writer = Writer(target, spec)
    except TemplateSyntaxError as error:
        return f"its line {error.lineno} is no Jinja template: {error.message}"
    for sample in samples():
        try:
            writer.attempt(sample)
        except _FROM_A_TEMPLATE as error:
            return f"fails for a notification of kind {sample.kind}: {error}; known are {', '.join(KNOWN)}"
    return ""


def _texts(spec: TemplateSpec | None) -> list[tuple[str, str]]:
    texts = {"title": spec.title, "body": spec.body} if spec else {}
    return [(name, text) for name, text in texts.items() if text is not None]


def _environment(inert: Inert) -> ImmutableSandboxedEnvironment:
    def finalize(value: Any) -> str:
        return str(value) if isinstance(value, _Lines) else inert(str(value))

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, finalize=finalize, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals = {"words": humanize}
    return environment


KNOWN: Final = ("notification", "incident", "title", "body", "facts", "link")
"""The variables of a template. `facts` leads from the name of each fact of the default message to its text."""


def _render(template: Template, notification: Notification, message: Message) -> str:
    document = msgspec.to_builtins(notification)
    text = template.render(
        notification=document,
        incident=document["incident"],
        title=_Lines(message.title),
        body=_Lines(message.body),
        facts={name: _Lines(text) for name, text in message.facts},
        link=_Lines(notification.link),
    )
    return text[:MAX_BODY_LENGTH].strip()
