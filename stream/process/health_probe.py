"""Whether a process of ours on this machine is ready, by /readyz: the image's health check, which has no curl.

python -m epicenter.stream.process.health_probe [PORT]
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

TIMEOUT_S = 4.0


def is_well(port: int) -> bool:
    """A page with a token refuses us, but it answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("EPICENTER_WEB_PORT", "6066"))
    sys.exit(0 if is_well(port) else 1)
