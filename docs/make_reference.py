"""Code -> docs/reference: every command, setting, metric and address, and JSON schemas for editors and programs."""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from aiohttp import web
from click.testing import CliRunner
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from docs.reference_texts import API, MADE, METRICS, SETTINGS
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.times import NS_PER_S
from epicenter.rules.packs.spec import PackSpec
from epicenter.rules.triage.document import Triage
from epicenter.sinks import operator_actions
from epicenter.sinks.evidence.questions import QUESTIONS
from epicenter.sinks.notify.config import AlertsSpec
from epicenter.sinks.page.dead_letters import FORMER_PATH, dead_letter_routes
from epicenter.sinks.page.live import Feed
from epicenter.sinks.page.server import page
from epicenter.stream.cli.main import cli
from epicenter.stream.local.page import metrics_route
from epicenter.stream.mcp.server import build
from epicenter.stream.metrics import FORMER_METRICS, ROWS
from epicenter.stream.settings import PREFIX, Settings

FOLDER = Path(__file__).parent / "reference"
FORMS = {
    "feedback": operator_actions.FeedbackForm,
    "acknowledgement": operator_actions.AcknowledgementForm,
    "silence": operator_actions.SilenceForm,
}
A_LINE = "[ 8040.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."


def reference() -> dict[str, str]:
    """File name -> its content."""
    return {
        "commands.md": commands(),
        "settings.md": settings(),
        "metrics.md": metrics(),
        "api.md": api(),
        "rule-pack.schema.json": editor_schema(PackSpec, "A rule pack of epicenter"),
        "alerts.schema.json": editor_schema(AlertsSpec, "Routes and targets of epicenter's notifications: alerts.yaml"),
        "incident.schema.json": document_schema(Incident),
        "triage.schema.json": document_schema(Triage),
    }


def commands() -> str:
    """Every command with its arguments and options."""
    also = "Every command also has `--help`. Exit codes: [README](../../README.md#exit-codes)."
    lines = ["# Commands", "", MADE, "", also, ""]
    for names, command in walk(cli, ("epicenter",)):
        usage = " ".join(command.collect_usage_pieces(click.Context(command)))
        lines += [f"## {' '.join(names)}", "", f"`{' '.join(names)} {usage}`", "", *help_lines(command.help or "")]
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        lines += [*table(("option", "value", "default", "meaning"), map(option_row, options)), ""] if options else []
    return "\n".join(lines)


def walk(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Commands that do something, in order of their names."""
    if not isinstance(command, click.Group):
        yield names, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if found := command.get_command(context, name):
            yield from walk(found, (*names, name))


def help_lines(help_text: str) -> list[str]:
    """Help as Markdown: its example is code."""
    text = inspect.cleandoc(help_text).replace("\f", "")
    return [re.sub(r"^Example: (.*)", r"Example: `\1`", line) for line in text.splitlines()] + [""]


def option_row(option: click.Option) -> tuple[str, ...]:
    """An option's names, value, default and meaning."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    context = click.Context(click.Command("none"))
    is_range = isinstance(option.type, click.IntRange | click.FloatRange)
    metavar = option.type._describe_range() if is_range else option.make_metavar(context).strip("[]")
    value = "" if option.is_flag else metavar
    default = shown_default(option)
    return names, f"`{value}`" if value else "", default, option.help or ""


def shown_default(option: click.Option) -> str:
    """The default that an option's help shows."""
    if isinstance(option.show_default, str):
        return option.show_default
    return str(option.default) if option.show_default and not option.is_flag else ""


def settings() -> str:
    """Every setting, with its name in a file and in the environment."""
    rows = table(("setting", "environment", "type", "default", "meaning"), setting_rows())
    return "\n".join([SETTINGS, *rows, ""])


def setting_rows() -> Iterator[tuple[str, ...]]:
    """A row for each setting, in the order of the code."""
    shown = Settings.model_json_schema(by_alias=True)["properties"]
    for field_name, field in Settings.model_fields.items():
        name = field.alias or field_name
        is_duration = field_name.endswith("_ns")
        is_secret = SecretStr in (field.annotation, *get_args(field.annotation))
        yield (
            f"`{name}`",
            f"`{PREFIX}{name.upper()}`",
            "secret" if is_secret else "duration" if is_duration else type_of(shown[name]),
            "" if is_secret else default_of(field, is_duration),
            field.description or "",
        )


def type_of(schema: dict[str, Any]) -> str:
    """A JSON schema's type in a word or two."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    schema = kinds[0]
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return "list of " + type_of(schema["items"])
    words = {"string": "text", "boolean": "true or false"}
    return "path" if schema.get("format") == "path" else words.get(schema["type"], schema["type"])


def default_of(field: FieldInfo, is_duration: bool) -> str:
    """A default as it is written in a file."""
    default = field.default
    if field.default_factory:
        return "in the user's folder for data"
    if default in (None, "", ()):
        return ""
    if is_duration:
        return f"`{default / NS_PER_S:g}s`"
    if isinstance(default, bool):
        return "`true`" if default else "`false`"
    return f"`{','.join(default)}`" if isinstance(default, tuple) else f"`{default}`"


def metrics() -> str:
    """Every metric that a worker exposes."""
    rows = (
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), meaning)
        for name, kind, labels, meaning in described()
    )
    return "\n".join([METRICS, *table(("metric", "kind", "labels", "meaning"), rows), ""])


def described() -> list[tuple[str, str, tuple[str, ...], str]]:
    """Name, kind, labels and meaning of each, under its present and its former name."""
    present = {row.name: (row.name, row.kind.__name__.lower(), row.labels, row.meaning) for row in ROWS}
    former = [(name, *present[now][1:3], f"Deprecated: use `{now}`.") for name, (now, _) in FORMER_METRICS.items()]
    return sorted([*present.values(), *former])


def api() -> str:
    """Addresses, bodies, documents and tools for programs."""
    questions = ((f"`{name}`", first_line(question)) for name, question in QUESTIONS.items())
    return API.substitute(
        made=MADE,
        routes="\n".join(table(("method", "address", "what"), route_rows())),
        forms="\n".join(table(("form", "field", "type", "needed"), form_rows())),
        questions="\n".join(table(("question", "what"), questions)),
        match=a_match(),
        tools="\n".join(table(("tool", "arguments", "what"), tool_rows())),
    )


def route_rows() -> Iterator[tuple[str, ...]]:
    """Method, address and meaning of every address of the page."""
    application = page(no_store, dict, Feed(), token="unused")
    application.add_routes([metrics_route(no_store), *dead_letter_routes(no_store, no_store)])
    for route in application.router.routes():
        is_file = isinstance(route.resource, web.StaticResource)
        is_former = route.resource is not None and route.resource.canonical.startswith(FORMER_PATH)
        if route.method != "HEAD" and route.resource and not is_file and not is_former:
            yield route.method, f"`{route.resource.canonical}`", first_line(route.handler)


async def no_store(*question: Any) -> Any:
    """Replaces the store, which is never queried here."""


def form_rows() -> Iterator[tuple[str, ...]]:
    """Every field of the forms."""
    for name, form in FORMS.items():
        for field in msgspec.structs.fields(form):
            yield name, f"`{field.name}`", word_of(msgspec.json.schema(field.type)), "yes" if field.required else ""


def word_of(schema: dict[str, Any]) -> str:
    """The type, with its maximum length."""
    longest = f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""
    return {"string": "text", "object": "names to texts"}.get(schema["type"], schema["type"]) + longest


def tool_rows() -> Iterator[tuple[str, ...]]:
    """Every tool with its arguments."""
    for tool in build(Settings())._tool_manager.list_tools():
        yield (
            f"`{tool.name}`",
            ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {})),
            tool.description,
        )


def a_match() -> str:
    """The output of `epicenter match --json` for a line."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kern.log").write_text(A_LINE + "\n")
        found = CliRunner().invoke(cli, ["match", "--json", f"{folder}/kern.log"], catch_exceptions=False)
        return found.stdout.strip().replace(f"{folder}/", "")


def first_line(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; bars in cells are escaped."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


def editor_schema(model: type[BaseModel], title: str) -> str:
    """JSON Schema of a file that people write."""
    schema = without_defaults(model.model_json_schema(by_alias=True))
    return as_text({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title})


def without_defaults(schema: Any) -> Any:
    """The same without defaults, which pydantic gives as stored (nanoseconds), not as written."""
    if isinstance(schema, dict):
        return {name: without_defaults(part) for name, part in schema.items() if name != "default"}
    return [without_defaults(part) for part in schema] if isinstance(schema, list) else schema


def document_schema(kind: type[msgspec.Struct]) -> str:
    """JSON Schema of a command's output."""
    return as_text({"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kind)})


def as_text(schema: dict[str, Any]) -> str:
    """JSON as it is stored."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for file, text in reference().items():
        (FOLDER / file).write_text(text, "utf-8")
