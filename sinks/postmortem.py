"""The draft of a post-mortem: all that is known of an incident, and the questions that people have to answer."""

from __future__ import annotations

from typing import Final

from jinja2 import Environment, PackageLoader

from sinks.inert import make_inert
from sinks.markdown import story_markdown
from sinks.story import Document, Points, Section, Story, story_of

QUESTIONS: Final = (
    "Is the cause right? What speaks against it?",
    "How was it noticed, and how long did that take?",
    "What was done, by whom, and what helped?",
    "Why could it happen, and reach so far?",
    "What changes, who does it, by when?",
)

_templates = Environment(
    loader=PackageLoader("sinks"), autoescape=True, trim_blocks=True, lstrip_blocks=True, auto_reload=False
)
_templates.filters["inert"] = make_inert
_templates.tests["block"] = lambda block, name: type(block).__name__ == name


def markdown(document: Document) -> str:
    """The draft as Markdown."""
    return story_markdown(_draft(document))


def html(document: Document) -> str:
    """The draft as one HTML file that needs no other and runs nothing."""
    return _templates.get_template("postmortem.html").render(story=_draft(document))


def _draft(document: Document) -> Story:
    story = story_of(document)
    return Story(story.title, story.summary, (*story.sections, Section("To be answered", (Points(QUESTIONS),))))
