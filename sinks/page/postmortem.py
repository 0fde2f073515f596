"""A draft post-mortem: everything known about an incident, and the questions for people to answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from markupsafe import Markup

from epicenter.rules.model.incident import Incident
from epicenter.sinks.page import render
from epicenter.sinks.page.lanes import NARROW_PX, WIDE_PX, lay_out
from epicenter.sinks.text.markdown import story_markdown
from epicenter.sinks.text.story import Points, Section, Story, story_of

QUESTIONS: Final = (
    "Is the root cause correct? What evidence speaks against it?",
    "How was the incident detected, and how long did that take?",
    "What was done, by whom, and what helped?",
    "Why did it happen, and why did it spread this far?",
    "What will change, who owns it, and by when?",
)

_STYLE: Final = "\n".join(
    (Path(__file__).with_name("static") / name).read_text("utf-8") for name in ("colours.css", "lanes.css")
)


def markdown(incident: Incident) -> str:
    """The draft as Markdown."""
    return story_markdown(_draft(incident))


def html(incident: Incident) -> str:
    """The draft as one self-contained HTML file without scripts."""
    story = _draft(incident)
    return render.html(
        "postmortem.html",
        story=story,
        sentence=story.summary,
        drawings=[drawing for width in (WIDE_PX, NARROW_PX) if (drawing := lay_out(incident, width))],
        style=Markup(_STYLE),
    )


def _draft(incident: Incident) -> Story:
    story = story_of(incident)
    return Story(story.title, story.summary, (*story.sections, Section("Open questions", (Points(QUESTIONS),))))
