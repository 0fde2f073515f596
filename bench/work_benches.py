"""The short form of each bench, and the functions whose calls are counted in it.

Whoever renames one of these functions has to rename it here: the import fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import work_inputs as inputs
from bench.work_count import FINDS, SEARCHES, Called
from epicenter.ingest.parse.envelope import parse
from epicenter.rules.alerts.planner import Planner
from epicenter.rules.cause.ranking import explains, rank
from epicenter.rules.detect.signal import signal_of
from epicenter.rules.liveness.watch import LivenessWatch
from epicenter.rules.redact.redactor import Redactor
from epicenter.rules.report.report import report
from epicenter.stream.scan.confirm import Confirmer

NamedCalls = Mapping[str, Sequence[Called]]


class ShortBench(NamedTuple):
    """A bench with an input of some `size`; `calls` names the functions whose calls mean something to a reader.

    `grows_evenly`: twice the size is twice the input of the same kind, so the work must not more than double.
    """

    name: str
    unit: str
    size: int
    prepare: Callable[[int, Path], inputs.Prepared]
    calls: NamedCalls
    grows_evenly: bool = True


SEARCHED: Final[NamedCalls] = {"expressions searched": (SEARCHES, FINDS)}
SCANNED: Final[NamedCalls] = {"lines parsed": (parse,), "lines confirmed": (Confirmer.confirmed,), **SEARCHED}
CORRELATED: Final[NamedCalls] = {
    "signals": (signal_of,),
    "heartbeats processed": (LivenessWatch.process,),
    "edges tried": (explains,),
    "rankings": (rank,),
    "reports": (report,),
}
ALL: Final[NamedCalls] = {**SCANNED, **CORRELATED}
SHORT_BENCHES: Final = (
    ShortBench("start", "commands", 2, inputs.start_of_commands, {}, grows_evenly=False),
    ShortBench("match", "lines", 4_000, inputs.match_of_lines, SCANNED),
    ShortBench("stream", "records", 20_000, inputs.stream_of_records, SCANNED),
    ShortBench("correlate: rate", "matches", 4, inputs.rate_of_jobs, CORRELATED),
    ShortBench("correlate: timeouts", "matches", 16, inputs.timeouts_of_nodes, CORRELATED),
    ShortBench("correlate: day", "inputs", 5, inputs.day_of_jobs, CORRELATED),
    ShortBench("takeover", "matches", 16, inputs.takeover_of_nodes, {}),
    ShortBench("storm", "records", 8, inputs.storm_of_nodes, ALL),
    ShortBench("alerts: storm", "revisions", 200, inputs.alerts_of_revisions, {"groups evaluated": (Planner.advance,)}),
    ShortBench("alerts: tick", "open incidents", 100, inputs.alert_ticks_with_open, {}),
    ShortBench("redaction", "lines", 1, inputs.redaction_of_shapes, {"texts": (Redactor.redact,), **SEARCHED}),
    ShortBench("clickhouse: page", "incidents", 100, inputs.page_of_incidents, {}),
    ShortBench("fuzz", "records", 6, inputs.fuzz_of_batches, SCANNED, grows_evenly=False),
    ShortBench("accuracy", "lines", 2, inputs.accuracy_of_nodes, ALL, grows_evenly=False),
    ShortBench("diagnosis", "lines", 2, inputs.diagnosis_of_nodes, ALL, grows_evenly=False),
)
