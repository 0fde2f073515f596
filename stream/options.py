"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

CONFIG = click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
RULES = click.option("--rules", type=click.Path(path_type=Path), multiple=True, help="More rule packs: file or folder.")
TOPOLOGY = click.option("--topology", type=click.Path(path_type=Path), help="Racks, switches, rails (YAML or JSON).")
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable: JSON, one object a line.")
DATA_DIR = click.option("--data-dir", type=click.Path(path_type=Path), help="Folder of the embedded store.")
STORE = click.option("--store", "--dsn", "store", help="ClickHouse DSN; without one, the embedded store.")
