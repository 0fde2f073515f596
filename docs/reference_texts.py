"""The prose around the tables of `docs/make_reference.py`."""

from __future__ import annotations

from string import Template

MADE = "Made by `make reference`: change the code, not this page."

SETTINGS = f"""# Settings

{MADE}

The command line comes first, then the environment, then a folder of secrets (`secrets_dir`, files named like the
setting), then a TOML file (`--config`), then the default. A **secret** is never printed or logged: give it in a file or
in the environment. Durations are written `500ms`, `5s`, `15m`, `2h`; paths of a list are parted by `:` in the
environment.
"""
METRICS = f"""# Metrics

{MADE}

A worker and `epicenter run` show them at `/metrics`; each process also writes them into the table `pipeline_metrics`
([tables.md](../tables.md)). `/metrics` of `epicenter page` has `epicenter_incidents_open` of its whole store, and
`epicenter_build_info`: add up the workers, or read the page, not both. The usual `process_…` metrics are there too.
What to do about them: [operations.md](../operations.md), and the alert rules in
[deploy/prometheus](../../deploy/prometheus).
"""
API = Template("""# For programs

$made

## Addresses of the page

`epicenter run` and `epicenter page` serve them. Errors are JSON too: `{"error": "…"}`.

$routes

What is sent with POST is JSON of one of these forms; fields without a mark may be left out.

$forms

Questions of `/api/handover/{question}`, which other commands use while this process has the store open:

$questions

## Addresses of a worker

`/metrics`: [metrics.md](metrics.md). `/healthz`: JSON with `status` (`ok`, or `stalled` with HTTP status 503),
`seconds_since_last_fetch`, and `rules` with what is wrong with changed packs and which rules are over their budget.
`/livez`: 200 as long as the process answers. `/readyz`: 200 when every group has been joined, there was a fetch in the
last 60 s and the store answers; else 503, with `problems`. Without the `web_token` that they need, a caller gets the
status alone.

## JSON of commands

With `--json`, standard output has one object a line and nothing else.

- `epicenter match`: a line that a rule fits, as below; `block` has its further lines.
- `epicenter replay`, `run`, `incidents list` and `show`: an incident,
  [incident.schema.json](incident.schema.json).
- `epicenter triage`: a job, [triage.schema.json](triage.schema.json).
- `epicenter explain`: the evidence, [pack.schema.json](../../sinks/evidence/pack.schema.json).

```json
$match
```

## Tools for language models

`epicenter mcp` serves them ([hand-over.md](../hand-over.md)). All of them only read.

$tools
""")
