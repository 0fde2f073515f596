"""Holds deploy/compose.yaml against the schema of the Compose specification. Needs Go, which fetches the schema.

python deploy/check_compose.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml

MODULE = "github.com/compose-spec/compose-go/v2@v2.16.2"
COMPOSE = Path(__file__).parent / "compose.yaml"


def schema() -> object:
    """The schema as the module has it."""
    command = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    return json.loads((Path(json.loads(done.stdout)["Dir"]) / "schema/compose-spec.json").read_text())


def problems(compose: object) -> list[str]:
    """What the schema has against it, with the place."""
    found = jsonschema.Draft202012Validator(schema()).iter_errors(compose)
    return [f"{COMPOSE}: {'.'.join(map(str, one.absolute_path))}: {one.message}" for one in found]


if __name__ == "__main__":
    told = problems(yaml.safe_load(COMPOSE.read_text()))
    print("\n".join(told) or f"{COMPOSE}: fits the schema of {MODULE}")
    sys.exit(1 if told else 0)
