"""Users' message templates: sandboxed Jinja, tested when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, Final

import msgspec
from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError

from epicenter.rules.model.notification import Notification
from epicenter.sinks.log import get_logger
from epicenter.sinks.notify.bounded_jinja import BoundedEnvironment, BoundError
from epicenter.sinks.notify.config import TemplateSpec
from epicenter.sinks.notify.message import Message, Sanitizer, default_message
from epicenter.sinks.notify.samples import samples
from epicenter.sinks.text import humanize
from epicenter.sinks.text.sanitize import sanitize

log: Final = get_logger(__name__)
MAX_BODY_LENGTH: Final = 40_000
_TEMPLATE_ERRORS: Final = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    RecursionError,
)


class _Sanitized(str):
    """Text that is already sanitized and may have several lines."""


class Writer:
    """Writes one target's messages, with its templates or the defaults."""

    def __init__(self, target: str, spec: TemplateSpec | None = None, sanitizer: Sanitizer = sanitize):
        self._target, self._sanitizer = target, sanitizer
        self._environment = _environment(sanitizer)
        self._templates = {name: self._environment.from_string(text) for name, text in _texts(spec)}

    def write(self, notification: Notification) -> Message:
        """The message; if a template fails, the default one, with a log line."""
        try:
            return self.write_strictly(notification)
        except _TEMPLATE_ERRORS as error:
            log.warning("alert_template_failed", target=self._target, error=str(error)[:200])
            return default_message(notification, self._sanitizer)

    def write_strictly(self, notification: Notification) -> Message:
        """The message; raises what a template raises."""
        message = default_message(notification, self._sanitizer)
        self._environment.begin()
        rendered = {name: _render(template, notification, message) for name, template in self._templates.items()}
        title = " ".join(rendered.get("title", message.title).split()) or message.title
        return Message(title, () if "body" in rendered else message.facts, rendered.get("body", message.body))


def template_faults(target: str, spec: TemplateSpec) -> Iterator[tuple[str, str]]:
    """Problems in a target's templates: `title` or `body`, and the reason."""
    for name, _ in _texts(spec):
        alone = spec.model_copy(update={"body" if name == "title" else "title": None})
        if fault := _fault(target, alone):
            yield name, fault


def _fault(target: str, spec: TemplateSpec) -> str:
    try:
        writer = Writer(target, spec)
    except TemplateSyntaxError as error:
        return f"line {error.lineno} is not valid Jinja: {error.message}"
    except BoundError as error:
        return str(error)
    except (ValueError, RecursionError, SyntaxError, MemoryError):
        return "is not valid Jinja: it is nested too deeply, or a number has too many digits"
    for sample in samples():
        try:
            writer.write_strictly(sample)
        except _TEMPLATE_ERRORS as error:
            return f"fails for a notification of kind {sample.kind}: {error}; the variables are {', '.join(VARIABLES)}"
    return ""


def _texts(spec: TemplateSpec | None) -> list[tuple[str, str]]:
    texts = {"title": spec.title, "body": spec.body} if spec else {}
    return [(name, text) for name, text in texts.items() if text is not None]


def _environment(sanitizer: Sanitizer) -> BoundedEnvironment:
    def finalize(value: Any) -> str:
        return environment.counted(str(value) if isinstance(value, _Sanitized) else sanitizer(str(value)))

    environment = BoundedEnvironment(undefined=StrictUndefined, finalize=finalize, trim_blocks=True, lstrip_blocks=True)
    helpers = {name: helper for name, helper in vars(humanize).items() if isinstance(helper, FunctionType)}
    environment.globals = {"words": SimpleNamespace(**helpers)}
    return environment


VARIABLES: Final = ("notification", "incident", "title", "body", "facts", "link")
"""The variables of a template; `facts` maps the fact names of the default message to their texts."""


def _render(template: Template, notification: Notification, message: Message) -> str:
    document = msgspec.to_builtins(notification)
    text = template.render(
        notification=document,
        incident=document["incident"],
        title=_Sanitized(message.title),
        body=_Sanitized(message.body),
        facts={name: _Sanitized(text) for name, text in message.facts},
        link=_Sanitized(notification.link),
    )
    return text[:MAX_BODY_LENGTH].strip()
