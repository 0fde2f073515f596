"""Made-up credentials around a failure: none of them leaves through the store, the page, a message or a report."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from bench.attack.arena import Arena, Attack, Follower, append, command, kernel, must, off_bus, until
from deploy.dev.process import EPICENTER
from tests.support.receiver import Receiver

KEY_LINES: Final = 40
WHOLE: Final = 50
MCP_WITHIN_S: Final = 60
Calls = tuple[tuple[str, dict[str, Any]], ...]


def exits(run: Follower, node: str, reference: str) -> dict[str, str]:
    """What each exit shows of the incident on this node and of the lines around a reference, and all stored bytes."""
    incident = str(run.must_find(node)["incident_id"])
    paths = (f"/incidents/{incident}", "/", "/api/incidents", f"/api/incidents/{incident}.md", "/jobs", "/unnamed")
    shown = {path: run.text(path) for path in paths} | {"standard output": run.output}
    for words in (("incidents", "show", incident, "--full"), ("incidents", "list", "--json"),
                  ("explain", incident, "--format", "json", "--max-bytes", "65536"),
                  ("export", incident, "--format", "html"), ("export", incident),
                  ("logs", reference, "--before", "30", "--raw"), ("unnamed",)):  # fmt: skip
        answer = command(*words, "--data-dir", run.data, cwd=run.folder)
        must(answer.code == 0, f"{' '.join(words)}: {answer.code}: {answer.out[:500]!r}")
        shown[" ".join(words)] = answer.out
    around = {"reference": reference, "before": 30, "after": 30}
    calls: Calls = (("get_evidence", around), ("get_evidence", {"reference": reference, "before": 5, "after": 0}),
             ("explain_incident", {"incident_id": incident}), ("list_jobs", {}))  # fmt: skip
    answers = asyncio.run(asyncio.wait_for(_call_mcp(run.data, calls), MCP_WITHIN_S))
    shown |= {f"mcp {name} {number}": text for number, ((name, _), text) in enumerate(zip(calls, answers, strict=True))}
    files = (file for file in run.data.rglob("*") if file.is_file())
    return shown | {f"stored {file.relative_to(run.data)}": file.read_bytes().decode("latin-1") for file in files}


async def _call_mcp(data: Path, calls: Calls) -> list[str]:
    words = [*EPICENTER[1:], "mcp", "--data-dir", str(data)]
    server = StdioServerParameters(command=EPICENTER[0], args=words, env=dict(os.environ))
    texts = []
    async with Client(server, read_timeout_seconds=MCP_WITHIN_S) as client:
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            must(not result.is_error, f"mcp {name}: {result.content}")
            texts.append("".join(part.text for part in result.content if isinstance(part, TextContent)))
    return texts


def _must_not_show(shown: dict[str, str], secrets: list[str]) -> None:
    leaks = {secret: where for secret in secrets if (where := [name for name, text in shown.items() if secret in text])}
    must(not leaks, f"leaked: {leaks}")


def credentials_around(arena: Arena) -> None:
    """In the lines before and after a failure, and in the line itself."""
    token = partial(_letters, arena)
    secrets = {f"hf_{token(34)}": "HF_TOKEN={}", f"ghp_{token(36)}": "git clone https://x:{}@github.com/a/b",
               token(24): "password: {}", f"sk-{token(40)}": "export OPENAI_API_KEY='{}'",
               token(32): "Authorization: Bearer {}", token(25): "postgresql://mlflow:{}@db:5432/runs",
               token(40): '{{"aws_secret_access_key": "{}"}}', token(26): "wandb login --api-key={}"}  # fmt: skip
    lines = [kernel("n1", form.format(secret)) for secret, form in secrets.items()]
    node = arena.node()
    failure = off_bus(node).replace("name=python3", f"name=python3 --password={(own := token(22))}")
    _write_and_look(arena, node, [*lines, failure, *lines], len(lines) + 1, [*secrets, own])


def key_before(arena: Arena) -> None:
    """A private key is printed line by line before the failure, so a window of lines begins inside it."""
    body = [base64.b64encode(arena.draw.randbytes(48)).decode() for _ in range(KEY_LINES)]
    node, begin, end = arena.node(), "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
    lines = [kernel("n1", text) for text in (begin, *body, end)]
    _write_and_look(arena, node, [*lines, off_bus(node)], len(lines) + 1, body)


def key_cut_off(arena: Arena) -> None:
    """The same without its end, and without a prefix on each line: the process that printed it failed meanwhile."""
    body = [base64.b64encode(arena.draw.randbytes(48)).decode() for _ in range(KEY_LINES)]
    node = arena.node()
    lines = ["-----BEGIN RSA PRIVATE KEY-----\n", *(f"{text}\n" for text in body)]
    _write_and_look(arena, node, [*lines, off_bus(node)], len(lines) + 1, body)


def _write_and_look(arena: Arena, node: str, lines: list[str], number: int, secrets: list[str]) -> None:
    log = arena.logs / "kern.log"
    append(log, "".join(lines))
    with Receiver().listening() as receiver:
        run = Follower(arena.folder / "run", arena.logs, env={"EPICENTER_WEBHOOK_URL": receiver.url})
        with run.running():
            until(lambda: node in str(receiver.requests), WHOLE, "the message", run.end_of_output)
            shown = exits(run, node, f"{log}:{number}")
        shown["webhook"] = json.dumps([body for _, body in receiver.requests])
    shown["triage"] = command("triage", log).out
    shown["triage --full"] = command("triage", "--full", log).out
    shown["match"] = command("match", log).out
    shown["replay"] = command("replay", log).out
    _must_not_show(shown, secrets)


def _letters(arena: Arena, count: int) -> str:
    return "".join(arena.draw.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=count))


ATTACKS: Final[dict[str, Attack]] = {
    "credentials": credentials_around,
    "key before": key_before,
    "key cut off": key_cut_off,
}
