"""`epicenter ack` and `epicenter silences …`: operator actions from a terminal."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from http import HTTPStatus
from time import time_ns
from typing import TYPE_CHECKING, Any

import click
import msgspec

from epicenter.rules.alerts.silences import MATCHERS, Silence
from epicenter.rules.errors import InputError
from epicenter.rules.model.times import iso_from_ns
from epicenter.stream.cli.groups import SuggestingGroup
from epicenter.stream.cli.options import CONFIG, DATA_DIR, JSON, STORE, settings_of

if TYPE_CHECKING:
    from epicenter.sinks.clickhouse.client import Client
    from epicenter.stream.settings import Settings


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


WHO = click.option("--who", default=_login, show_default="your login name", help="Your name, as others see it.")


@click.command()
@click.argument("incident_id", metavar="INCIDENT")
@JSON
@CONFIG
@WHO
@click.option("--note", default="", help="What you are doing about the incident.")
@click.option("--undo", is_flag=True, help="Remove your acknowledgement.")
@DATA_DIR
@STORE
def ack(
    incident_id: str, as_json: bool, config: Any, who: str, note: str, undo: bool, data_dir: Any, store: str | None
) -> None:
    """Acknowledge an incident. Stops its reminders and escalation. Give its id, the start of it, or `newest`.

    Example: epicenter ack 3f2a --who ada --note "case 4711 is open"
    """
    from epicenter.rules.model.notification import Acknowledgement
    from epicenter.sinks import operator_actions
    from epicenter.stream.store.lookup import checked_id

    form = operator_actions.AcknowledgementForm(who, note, undo)
    acknowledgement = _submit(
        settings_of(config, data_dir=data_dir, store=store),
        f"api/incidents/{checked_id(incident_id)}/acknowledgement",
        form,
        lambda client: operator_actions.acknowledge(client, incident_id, form, time_ns()),
        Acknowledgement,
    )
    what = "acknowledgement removed by" if acknowledgement.is_taken_back else "acknowledged by"
    _print(
        acknowledgement,
        as_json,
        f"incident {acknowledgement.incident_id}: {what} {acknowledgement.who}{f': {note}' if note else ''}",
    )


@click.group(cls=SuggestingGroup)
def silences() -> None:
    """List, add and end silences.

    Example: epicenter silences list
    """


@silences.command("list")
@JSON
@CONFIG
@click.option("--all", "is_all", is_flag=True, help="List ended silences too.")
@DATA_DIR
@STORE
def list_command(as_json: bool, config: Any, is_all: bool, **options: Any) -> None:
    """List active silences, latest end first.

    Example: epicenter silences list --json
    """
    from epicenter.sinks.clickhouse.operator_actions import list_silences
    from epicenter.stream.process.logs import print_message
    from epicenter.stream.store.lookup import from_page, from_store

    settings, now_ns = settings_of(config, **options), time_ns()
    answer = from_page(settings, f"api/silences?all={int(is_all)}")
    if answer is None:
        found = from_store(settings, lambda client: list_silences(client, 0 if is_all else now_ns))
    else:
        found = msgspec.convert(answer, list[Silence])
    for silence in found:
        _print(silence, as_json, _silence_line(silence, now_ns))
    if not found:
        print_message("no silences" if is_all else "no active silences")


@silences.command("add")
@JSON
@CONFIG
@click.option(
    "--match",
    "matchers",
    multiple=True,
    metavar="LABEL=VALUE",
    help=f"Mute only incidents with this label: {', '.join(MATCHERS)}.",
)
@click.option("--incident", metavar="INCIDENT", help="Mute incidents of the class, node, job and cluster of this one.")
@click.option("--for", "duration", default="", help="Duration: 90m, 4h, 2d. At most 90d.")
@click.option("--until", default="", metavar="TIME", help="End: 2026-03-02T09:00:00Z. Default zone: UTC.")
@click.option("--reason", required=True, help="Reason, as others see it.")
@WHO
@DATA_DIR
@STORE
def add_command(
    as_json: bool,
    matchers: tuple[str, ...],
    incident: str | None,
    duration: str,
    until: str,
    reason: str,
    who: str,
    **options: Any,
) -> None:
    """Mute incidents that match all of the labels, starting now.

    Example: epicenter silences add --match class=xid-79 --match node=n7 --for 4h --reason "drained, case 4711"
    """
    from epicenter.sinks import operator_actions
    from epicenter.stream.cli.incidents import stored

    if not (matchers or incident):
        raise click.UsageError("give --match or --incident")
    settings = settings_of(**options)
    proposed = operator_actions.proposed_matchers(stored(settings, incident)) if incident else {}
    form = operator_actions.SilenceForm(proposed | _matchers(matchers), reason, duration, until, who)
    begun = _submit(
        settings,
        "api/silences",
        form,
        lambda client: operator_actions.silence(client, form, time_ns()),
        Silence,
    )
    _print(begun, as_json, _silence_line(begun, begun.begins_ns))


@silences.command("end")
@click.argument("silence_id", metavar="ID")
@JSON
@CONFIG
@DATA_DIR
@STORE
def end_command(silence_id: str, as_json: bool, **options: Any) -> None:
    """End a silence now, by its id or the start of it.

    Example: epicenter silences end 3f2a
    """
    from epicenter.sinks import operator_actions
    from epicenter.stream.store.lookup import checked_id

    ended = _submit(
        settings_of(**options),
        f"api/silences/{checked_id(silence_id)}/end",
        {},
        lambda client: operator_actions.end_silence(client, silence_id, time_ns()),
        Silence,
    )
    _print(ended, as_json, _silence_line(ended, ended.ends_ns))


def _submit(settings: Settings, path: str, form: object, write: Callable[[Client], Any], kind: type[Any]) -> Any:
    """Send a form to the page that has the store open, or write it to the store; the result, of this kind."""
    from epicenter.sinks.operator_actions import RefusedError, read_form
    from epicenter.stream.store.lookup import from_store, to_page

    try:
        read_form(msgspec.json.encode(form), type(form))
        answer = to_page(settings, path, msgspec.to_builtins(form))
        return from_store(settings, write) if answer is None else msgspec.convert(answer, kind)
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise InputError(str(error)) from error
        raise click.UsageError(str(error)) from error
    except UnicodeEncodeError as error:
        raise click.UsageError("an argument is not UTF-8: write it in UTF-8") from error


def _matchers(texts: Sequence[str]) -> dict[str, str]:
    matchers: dict[str, str] = {}
    for matcher in texts:
        name, equals, value = matcher.partition("=")
        if not (name and equals and value.strip()):
            raise click.BadParameter(f"{matcher!r}: write LABEL=VALUE, such as node=n7", param_hint="--match")
        if name in matchers:
            raise click.BadParameter(f"{name} is given twice: add a silence for each value", param_hint="--match")
        matchers[name] = value
    return matchers


def _silence_line(silence: Silence, now_ns: int) -> str:
    fits = " ".join(f"{name}={value}" for name, value in silence.matchers.items())
    end = f"{'until' if silence.is_active(now_ns) else 'ended'} {iso_from_ns(silence.ends_ns)[:19]}Z"
    return f"{silence.silence_id}  {fits}  {end}  {silence.who}: {silence.reason}"


def _print(action: msgspec.Struct, as_json: bool, line: str) -> None:
    from epicenter.stream.cli.one_machine import print_document
    from epicenter.stream.cli.text.terminal import console, safe

    print_document(msgspec.to_builtins(action), as_json, lambda _: console().print(safe(line)))
