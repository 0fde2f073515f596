"""`python -m bench.work_start COMMAND…`: what a command imports and calls from its start to its end, as JSON."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO

from bench.work_count import Calls


def run(arguments: list[str]) -> None:
    """Import the command and run it."""
    with suppress(SystemExit), redirect_stdout(StringIO()):
        from epicenter.stream.cli.main import main

        sys.argv = ["epicenter", *arguments]
        main()


def main() -> None:
    """Run it and print the counts; modules are those that don't come with Python."""
    calls = Calls(lambda: run(sys.argv[1:]))
    modules = sum(name.partition(".")[0] not in sys.stdlib_module_names for name in sys.modules)
    print(json.dumps({"function calls": calls.ours, "modules": modules}))


if __name__ == "__main__":
    main()
