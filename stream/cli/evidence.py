"""`epicenter explain`, `epicenter logs` and `epicenter mcp`: evidence for people and machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from epicenter.rules.errors import ConfigError, InputError
from epicenter.sinks.text.sanitize import sanitize, sanitized_json
from epicenter.stream.cli.options import CONFIG, DATA_DIR, JSON, PATH, STORE, settings_of

if TYPE_CHECKING:
    from epicenter.rules.model.incident import Incident
    from epicenter.stream.store.lines import Found

MIN_BYTES = 6_144
MAX_LINES_AROUND = 200


@click.command()
@click.argument("incident")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
    help="Format of the output.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(MIN_BYTES),
    default=16_384,
    show_default=True,
    help="Print at most this many bytes.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--id", "incident_id", help="Id, or its start, of the incident in a file with several.")
@CONFIG
@DATA_DIR
@STORE
def explain(
    incident: str, form: str, max_bytes: int, incident_id: str | None, config: Path | None, **options: Any
) -> None:
    """Print the evidence of an incident, in a bounded size. Each claim has a reference for `epicenter logs`.

    INCIDENT is a stored id or its start, `newest`, a JSON file as `epicenter replay --json` writes it, or `-`.

    Example: epicenter explain 3f2a --format json
    """
    from epicenter.sinks.evidence.pack import pack_of
    from epicenter.sinks.evidence.render import RENDERERS
    from epicenter.stream.store.evidence import stored_pack

    settings = settings_of(config, **options)
    from_file = _from_file(incident, incident_id or "")
    pack = stored_pack(settings, incident) if from_file is None else pack_of(from_file)
    sys.stdout.buffer.write(RENDERERS[form](pack, max_bytes))


@click.command()
@click.argument("reference", metavar="REF")
@click.option(
    "--before",
    type=click.IntRange(0, MAX_LINES_AROUND),
    default=5,
    show_default=True,
    help="Print this many lines before that line.",
)
@click.option(
    "--after",
    type=click.IntRange(0, MAX_LINES_AROUND),
    default=5,
    show_default=True,
    help="Print this many lines after that line.",
)
@click.option("--incident", type=PATH, help="JSON file with the incident that an incident: reference names.")
@click.option("--raw", "is_raw", is_flag=True, help="Print whole records, not only their text.")
@click.option("--kafka", help="Kafka brokers, as host:port, separated by commas.")
@JSON
@CONFIG
@DATA_DIR
@STORE
def logs(
    reference: str,
    before: int,
    after: int,
    incident: Path | None,
    is_raw: bool,
    as_json: bool,
    config: Path | None,
    **options: Any,
) -> None:
    """Print the log line of a reference, and the lines around it. From the file, else the store, else Kafka.

    REF is FILE:LINE, TOPIC/PARTITION:OFFSET, or a reference from an evidence pack.

    Example: epicenter logs /var/log/kern.log:1041 --before 20
    """
    from epicenter.stream.store.lines import Around, find

    settings = settings_of(config, **options)
    from_file = None if incident is None else _from_file(str(incident), "")
    if incident is not None and from_file is None:
        raise InputError(f"{incident}: no such file")
    try:
        found = find(settings, reference, Around(before, after, is_raw), from_file)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="REF") from error
    if as_json:
        click.echo(sanitized_json(found))
    else:
        _print(found)


class Place(click.ParamType):
    """`PORT`, `HOST:PORT` or `[HOST]:PORT`."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[str, int]:
        """Host and port; the default host is 127.0.0.1."""
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
            self.fail(f"{value!r}: write a port, or a host of this machine and a port, such as 127.0.0.1:8018")
        return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


@click.command()
@click.option(
    "--http", type=Place(), help="Serve HTTP on the loopback. 0: any free port. Default: standard input and output."
)
@click.option("--kafka", help="Kafka brokers, for lines that only Kafka still holds.")
@CONFIG
@DATA_DIR
@STORE
def mcp(http: tuple[str, int] | None, config: Path | None, **options: Any) -> None:
    """Let language models look up incidents, read-only. Speaks the Model Context Protocol.

    Example: epicenter mcp --data-dir /var/lib/epicenter
    """
    from epicenter.stream.process.logs import set_up_logs

    try:
        from epicenter.stream.mcp.server import serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types", "uvicorn"):
            raise
        raise ConfigError(["epicenter mcp: its packages are not installed: pip install 'epicenter[mcp]'"]) from error
    settings = settings_of(config, **options)
    set_up_logs(settings.log_format)
    if http is None:
        serve_stdio(settings)
    else:
        serve_http(settings, *http)


def _from_file(name: str, incident_id: str) -> Incident | None:
    """The incident in a file or on standard input; None if there is no such file."""
    from epicenter.sinks.text.incident_document import incident_of

    if name != "-" and not Path(name).is_file():
        return None
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        documents = _documents(content)
    except OSError as error:
        raise InputError(f"{name}: can't be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{name}: not JSON: {error}") from error
    wanted = [document for document in documents if str(document.get("incident_id", "")).startswith(incident_id)]
    if len(wanted) != 1:
        ids = ", ".join(str(document.get("incident_id", "?"))[:16] for document in documents[:20])
        raise InputError(f"{name}: {len(wanted)} incidents match: choose one with --id: {ids or 'the file is empty'}")
    return incident_of(wanted[0], name)


def _documents(content: bytes) -> list[dict[str, Any]]:
    """The content as one document, a list, or one document a line; a notification counts as its incident."""
    try:
        decoded = [msgspec.json.decode(content)]
    except msgspec.DecodeError:
        decoded = [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    flat = [document for value in decoded for document in (value if isinstance(value, list) else [value])]
    return [_incident_in(document) if isinstance(document, dict) else {} for document in flat]


def _incident_in(document: dict[str, Any]) -> dict[str, Any]:
    incident = document.get("incident", document)
    return incident if isinstance(incident, dict) else {}


def _print(found: Found) -> None:
    from epicenter.stream.process.logs import print_message

    print_message(f"from: {found.found_in}" + (f" ({sanitize(found.note)})" if found.note else ""))
    width = max((len(str(line.number)) for line in found.lines), default=0)
    for line in found.lines:
        mark = ">" if line.is_wanted else " "
        click.echo(f"{mark} {line.number:>{width}}  {sanitize(line.untrusted_log_text)}")
    if found.facts:
        click.echo(sanitize(msgspec.json.format(msgspec.json.encode(found.facts)).decode(), multiline=True))
