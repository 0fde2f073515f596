"""The draft of a post-mortem: all sections, and log text stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from epicenter.rules.model.incident import ChainLink, Change, Cost, Evidence, Incident, RankedCause, Recurrence
from epicenter.sinks.page import postmortem
from epicenter.sinks.text.incident_view import IncidentView
from epicenter.sinks.text.markdown import code_block, code_span, inline
from epicenter.sinks.text.story import story_of
from tests.unit.sinks.clickhouse.test_rows import an_incident

NASTY = "<script>alert(1)</script> [a](javascript:x) `b` ```c\n``` | \x1b[31m \u202e <https://evil.example> # x"
A_TIME = "2026-03-02T09:00:01.500000000Z"
ALLOWED_TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "p",
        "section",
        "h2",
        "dl",
        "dt",
        "dd",
        "ul",
        "ol",
    ),
    *("li", "div", "table", "thead", "tbody", "tr", "th", "td", "code", "figure", "figcaption", "pre"),
}


DRAWN_TAGS = {"svg", "desc", "defs", "marker", "path", "g", "rect", "text", "circle"}


class Page(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def a_full_incident(text: str = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.") -> Incident:
    """An incident with content for every section, and this text wherever log text may appear."""
    return msgspec.structs.replace(
        an_incident(),
        title=text,
        jobs=(text,),
        chain=(ChainLink(A_TIME, "2026-03-02T09:00:01Z", text, 3, "xid-79", "root", text),),
        evidence=(Evidence(text, 7, text, "nccl-timeout", text), Evidence("kern.log", 9, "n1", "xid-79", text)),
        candidates=(
            RankedCause("xid-79", "r", "n1", None, "", 0.9, ("first",)),
            RankedCause("nccl-timeout", "r", text, 3, "", 0.1, (text,)),
        ),
        missing=(text,),
        history=(Change(A_TIME, text),),
        recurrence=Recurrence(3, 400, ("xid-79",), ("n1",), ("00000000000000a0",)),
        cost=Cost(120, 42.5, 64, 300),
    )


def with_root(incident: Incident, **changed: Any) -> Incident:
    """The same with another root cause."""
    return msgspec.structs.replace(incident, root_cause=msgspec.structs.replace(incident.root_cause, **changed))


def test_story_has_every_section_and_starts_with_the_cause() -> None:
    story = story_of(a_full_incident())
    wanted = [
        "Impact",
        "Root cause",
        "Next steps",
        "Timeline",
        "Evidence",
        "Other candidates and missing evidence",
        "Recurrence",
    ]
    assert [section.title for section in story.sections] == wanted
    assert story.summary.startswith("The cause is ")
    assert "42.5 GPU-hours, 120 steps since the checkpoint of step 300" in story.summary


def test_low_confidence_is_hedged() -> None:
    guess = with_root(a_full_incident(), confidence=0.4)
    assert story_of(guess).summary.startswith("The cause is probably ")
    assert " probably came first at 09:00:01 UTC" in IncidentView(guess).headline


def test_lines_of_the_root_cause_come_first_in_the_evidence() -> None:
    incident = with_root(a_full_incident(), failure_class="xid-79", node="n1")
    evidence = next(section for section in story_of(incident).sections if section.title == "Evidence")
    assert getattr(evidence.blocks[0], "place", "").startswith("kern.log:9 ")


def test_sections_without_content_are_left_out() -> None:
    bare = msgspec.structs.replace(an_incident(), evidence=(), missing=(), candidates=(), recurrence=None)
    titles = {section.title for section in story_of(bare).sections}
    assert titles.isdisjoint({"Evidence", "Other candidates and missing evidence", "Recurrence"})


def test_long_node_list_is_cut() -> None:
    wide = msgspec.structs.replace(a_full_incident(), nodes=tuple(f"n{number}" for number in range(1_024)))
    assert "n23 and 1,000 more" in postmortem.markdown(wide)


def test_markdown_holds_no_html_link_or_control_character_of_a_log() -> None:
    text = postmortem.markdown(a_full_incident(NASTY))
    assert "\x1b" not in text and "\u202e" not in text
    page = Page(MarkdownIt("gfm-like", {"linkify": False}).render(text))
    assert {tag for tag, _ in page.tags} <= ALLOWED_TAGS | {"strong", "hr", "br"}
    assert page.text.count("<script>alert(1)</script>") >= 8


def test_urls_in_a_log_are_not_links() -> None:
    assert inline("see https://evil.example or WWW.evil.example") == r"see https\://evil.example or WWW\.evil.example"


@given(st.text() | st.text(st.sampled_from("-+#=.)19a `*_[]<>|~&;!:\\\n\t")))
@example("__0__")
@example("--")
def test_any_text_stays_text_in_markdown(text: str) -> None:
    renderer = MarkdownIt("gfm-like", {"linkify": False})
    page = Page(renderer.render(f"- {inline(text)}\n\n| a |\n| - |\n| {code_span(text)} |\n\n{code_block(text)}"))
    assert {tag for tag, _ in page.tags} <= {
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "code",
        "pre",
        "p",
    }


def test_html_is_self_contained_and_has_no_scripts() -> None:
    text = postmortem.html(a_full_incident(NASTY))
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= ALLOWED_TAGS | DRAWN_TAGS
    assert "svg" in {tag for tag, _ in page.tags}
    assert not [
        name for _, attributes in page.tags for name in attributes if name in ("src", "href") or name[:2] == "on"
    ]
    assert "default-src 'none'" in text and "\x1b" not in text and "\u202e" not in text
    assert page.text.count("<script>alert(1)</script>") >= 8


def test_html_has_the_content_of_markdown() -> None:
    html, markdown = Page(postmortem.html(a_full_incident())).text, postmortem.markdown(a_full_incident())
    for content in ("kern.log:9", "It affects", "42.5 GPU-hours", *postmortem.QUESTIONS):
        assert content in html and content in markdown
