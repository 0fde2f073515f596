"""An incident's way through the alert routes, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.text.humanize import length
from epicenter.stream.cli.text.layout import Line, print_hanging
from epicenter.stream.cli.text.terminal import SEVERITY_STYLES, console, safe


def print_routed(document: Mapping[str, Any]) -> None:
    """Print a result of `stream.alerts.route.routed`."""
    print_hanging(console(), _lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[Line]:
    severity = document["severity"]
    style = SEVERITY_STYLES.get(severity, "")
    title = f"[{style}]{safe(severity)}[/]  {safe(document['title'])}" if style else safe(document["title"])
    yield Line("", f"{safe(document['incident_id'])}  {safe(document['status'])}  {title}")
    for route_target in document["legs"]:
        yield Line("  notifies    ", _route_target(route_target))
    if not document["legs"]:
        yield Line("  notifies    ", "no one")
    for reason in document["reasons"]:
        yield Line("  because     ", safe(reason))
    if document["held_s"]:
        yield Line("  pending     ", f"for {_length(document['held_s'])}, in case later lines refute the verdict")
    for name, why in document["mutes"].items():
        if why:
            yield Line(f"  {name:<12}", f"[yellow]{safe(why)}[/]")
    for name, values in document["labels"].items():
        yield Line("  label       ", f"{name}: {safe(', '.join(values))}")
    yield Line("  action      ", _action(document["action"]))


def _route_target(route_target: Mapping[str, Any]) -> str:
    when = f"after {_length(route_target['after_s'])} without acknowledgement" if route_target["after_s"] else "at once"
    group = ", ".join(f"{name} {'+'.join(values) or 'unknown'}" for name, values in route_target["group"].items())
    wait = f", waits {_length(route_target['group_wait_s'])} for others" if route_target["group_wait_s"] else ""
    pace = (
        f"updates {_length(route_target['update_interval_s'])} apart, "
        f"repeated every {_length(route_target['repeat_interval_s'])}{wait}"
    )
    place = f"by {route_target['route']}, group: {group or 'everything'}"
    return safe(f"{route_target['target']} {when}, {place}; {pace}")


def _action(action: Mapping[str, Any]) -> str:
    parts = {
        "nodes": action["nodes"],
        "GPU": [action["gpu"]] if action["gpu"] else [],
        "jobs": action["jobs"],
        "without": action["exclude_nodes"],
        "from step": [] if action["resume_step"] is None else [str(action["resume_step"])],
    }
    matchers = "".join(f", {name} {', '.join(values)}" for name, values in parts.items() if values)
    leave = "allowed" if action["is_allowed"] else "not allowed"
    dry = " (dry run)" if action["is_dry_run"] and action["is_allowed"] else ""
    return safe(f"{action['kind']}{matchers}: {leave}{dry}: {action['why']}")


def _length(length_s: float) -> str:
    return length(round(length_s * NS_PER_S))
