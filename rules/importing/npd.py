"""Monitor configurations of node-problem-detector (JSON): `rules` with type, reason, pattern and condition."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from epicenter.rules.documents.document import Document, line_of
from epicenter.rules.importing.draft import Drafts
from epicenter.rules.importing.pattern import adapted

_HINT = "no log line clears a condition: write `clears` into the rule that matches its end"


class NpdRule(BaseModel):
    """One rule; `condition` belongs to permanent ones."""

    type: Literal["temporary", "permanent"]
    reason: str
    pattern: str
    condition: str = ""


class NpdMonitor(BaseModel):
    """A system log monitor. Keys that are not here are about reading logs, which rules don't need."""

    model_config = ConfigDict(extra="ignore")

    plugin: str = ""
    source: str = ""
    rules: tuple[NpdRule, ...]


def import_npd(document: Document, drafts: Drafts) -> None:
    """Import every rule that matches single lines."""
    if isinstance(document.content, dict) and document.content.get("plugin") == "custom":
        drafts.lose(f"{document.file}:1", "the monitor", "not imported: it runs programs and matches no lines")
        return
    monitor = document.checked(NpdMonitor, "monitor of node-problem-detector", drafts.problems)
    if monitor is None:
        return
    drafts.lose_keys(f"{document.file}:1", "the monitor", document.content, NpdMonitor.model_fields)
    is_kernel = monitor.plugin == "kmsg" or monitor.source == "kernel-monitor"
    for number, rule in enumerate(monitor.rules):
        place = f"{document.file}:{line_of(document.lines, ('rules', number))}"
        fields = {"source": "kernel"} if is_kernel else {}
        if rule.type == "permanent":
            fields["severity"] = "error"
            drafts.lose(place, rule.reason, f"permanent condition {rule.condition}: {_HINT}")
        # node-problem-detector matches a pattern against the end of its buffer
        ends_open = rule.pattern.endswith((".*", "$"))
        try:
            drafts.line(place, rule.reason, adapted(rule.pattern if ends_open else f"{rule.pattern}$"), **fields)
        except ValueError as error:
            drafts.lose(place, rule.reason, f"not imported: {error}")
