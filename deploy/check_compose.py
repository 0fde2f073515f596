"""Loads deploy/compose.yaml with the code of Docker Compose: its schema, what it mounts, what depends on what.

    python deploy/check_compose.py [COMPOSE_FILE]

Needs Go, which fetches the module compose-go; a minute the first time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MODULE = "github.com/compose-spec/compose-go/v2"
VERSION = "v2.16.2"
DEPLOY = Path(__file__).resolve().parent
PROGRAM = f"""
package main

import (
	"context"
	"fmt"
	"os"

	"{MODULE}/cli"
)

func main() {{
	options, err := cli.NewProjectOptions(os.Args[1:])
	if err == nil {{
		_, err = options.LoadProject(context.Background())
	}}
	if err != nil {{
		fmt.Println(err)
		os.Exit(1)
	}}
}}
"""


def loader(folder: Path) -> Path:
    """The program that loads a compose file."""
    folder.mkdir()
    (folder / "main.go").write_text(PROGRAM)
    (folder / "go.mod").write_text(f"module check\n\ngo 1.25\n\nrequire {MODULE} {VERSION}\n")
    for command in (["go", "mod", "tidy"], ["go", "build", "-o", "load", "."]):
        subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return folder / "load"


def main(compose: Path) -> int:
    """The exit code: 1 when Docker Compose would refuse the file."""
    with TemporaryDirectory(prefix="epicenter-compose-") as name:
        deploy = Path(name) / "deploy"
        shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns("secrets"), symlinks=True)
        shutil.copy(compose, deploy / "compose.yaml")
        subprocess.run(["sh", deploy / "compose/secrets.sh"], check=True, capture_output=True)
        done = subprocess.run([loader(Path(name) / "go"), deploy / "compose.yaml"], capture_output=True, text=True)
    print(done.stdout.strip() or f"{compose}: compose-go {VERSION} loads it")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY / "compose.yaml"))
