"""Simulates a GPU cluster: the logs of its nodes, jobs and schedulers in real formats, with the ground truth.

Deterministic: the same scenario gives the same bytes. All randomness comes from the seed, all time from `start_ns`.
The files of a folder: a kernel log and `worker.jsonl` for each node, the logs of schedulers under `scheduler/`,
`truth.json`.
"""

from epicenter.ingest.simulate.faults import KINDS
from epicenter.ingest.simulate.model import Disturbance, Framework, Scenario, SimulatedLine, TrueFault, TrueJob, Truth
from epicenter.ingest.simulate.plan import mixed
from epicenter.ingest.simulate.run import simulate, truth_of
from epicenter.ingest.simulate.write import TRUTH_FILE, write_all, write_paced

__all__ = [
    "KINDS",
    "TRUTH_FILE",
    "Disturbance",
    "Framework",
    "Scenario",
    "SimulatedLine",
    "TrueFault",
    "TrueJob",
    "Truth",
    "mixed",
    "simulate",
    "truth_of",
    "write_all",
    "write_paced",
]
