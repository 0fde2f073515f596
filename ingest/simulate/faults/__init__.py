"""Every kind of fault, by name, with its share among the interruptions of a large training run.

Weights follow the interruptions of Llama 3 405B (54 days, 16,384 H100: faulty GPU 30.1 %, HBM3 17.2 %, software 12.9 %,
network 8.4 %, host maintenance 7.6 %, SRAM 4.5 %, GSP 4.1 %, NIC 1.7 %, NCCL watchdog 1.7 %, silent data corruption
1.4 %, thermal 1.4 %, SSD 0.7 %, power supply 0.7 %), split over our kinds. Weight 0 is played only when asked for.
"""

from __future__ import annotations

from typing import Final

from epicenter.ingest.simulate.faults import fabric, gpu, node, outside, program, silent, unknown
from epicenter.ingest.simulate.faults.case import Case, FaultKind

__all__ = ["HARDWARE", "KINDS", "Case", "FaultKind"]

KINDS: Final[dict[str, FaultKind]] = {
    kind.name: kind for kinds in (gpu, node, fabric, program, outside, silent, unknown) for kind in kinds.KINDS
}
HARDWARE: Final = frozenset(("heat", *(kind.name for kinds in (gpu, node, fabric) for kind in kinds.KINDS)))
"""Faults that kernel logs show first."""
