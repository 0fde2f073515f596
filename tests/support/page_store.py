"""A store for the page: a week of simulated failures, a job of many ranks, operator actions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import Any, Final

import msgspec

from epicenter.ingest.batch.batch import Batch
from epicenter.ingest.collect.source import Sources
from epicenter.ingest.simulate import truth_of, write_all
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.incident import Incident
from epicenter.rules.model.ledger import Delivery, JobEnd, JobPhase, JobState, Outcome
from epicenter.rules.model.notification import Acknowledgement
from epicenter.rules.model.signals import SEVERITIES
from epicenter.rules.model.times import NS_PER_S, iso_from_ns
from epicenter.sinks.clickhouse.client import Client, connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.operator_actions import Feedback, write_acknowledgements, write_feedback, write_silences
from epicenter.sinks.clickhouse.sink import ClickHouseSink
from epicenter.stream.cli.demo import demo_scenario
from epicenter.stream.cli.demo_history import write_history
from epicenter.stream.local.pipeline import Pipeline, replay
from epicenter.stream.scan.scan import ScanResult
from tests.support.logs import the_rules
from tests.unit.sinks.clickhouse.test_rows import an_incident

HOUR_NS: Final = 3600 * NS_PER_S
BIG_JOB: Final = "9001"


class RecordingPipeline(Pipeline):
    """Keeps what it scanned."""

    scanned: list[ScanResult]

    def process(self, batch: Batch) -> ScanResult:
        """As `Pipeline.process`."""
        found = super().process(batch)
        self.scanned.append(found)
        return found


def simulated_week(folder: Path, now_ns: int) -> tuple[list[Incident], list[ScanResult]]:
    """The newest revision of each incident of a week on one small cluster, and what was scanned."""
    newest = demo_scenario(32, "gpu-off-bus", now_ns - HOUR_NS // 4)
    write_history(folder / "past", now_ns, truth_of(newest).faults[0].node)
    write_all(newest, folder / "now")
    pipeline = RecordingPipeline(the_rules(), "default", 5 * NS_PER_S)
    pipeline.scanned = []
    return replay(pipeline, Sources([str(folder)], host="", follow=False)), pipeline.scanned


def fill(client: Client, folder: Path, ranks: int = 4_096) -> list[Incident]:
    """Write it all; gives the incidents."""
    migrate(client)
    now_ns = time_ns()
    incidents, scanned = simulated_week(folder, now_ns)
    ClickHouseSink(client).write(
        incidents=incidents,
        matches=[(match, the_rules().spec_of(match)) for found in scanned for match in found.matches],
        heartbeats=[heartbeat for found in scanned for heartbeat in found.heartbeats],
    )
    over = [incident for incident in incidents if incident.status != "open"]
    write_feedback(client, Feedback(over[0].incident_id, "ada", now_ns - 100 * HOUR_NS, over[0].revision, "right"))
    newest = incidents[-1]
    write_acknowledgements(client, Acknowledgement(over[-1].incident_id, "ada", now_ns - 24 * HOUR_NS, "case 4711"))
    ClickHouseSink(client).write(deliveries=[*decisions(newest, now_ns)])
    matchers = {"class": over[-1].failure_class, "node": over[-1].root_cause.node}
    write_silences(
        client, Silence("a1", matchers, now_ns - HOUR_NS, now_ns + 3 * HOUR_NS, "ada", "drained, case 4711 is open")
    )
    add_job(client, BIG_JOB, ranks)
    return incidents


def many_incidents(count: int, now_ns: int, apart_ns: float) -> list[Incident]:
    """Incidents on 40 nodes, the newest first; every tenth is open, and severities take turns."""
    found: list[Incident] = []
    for number in range(count):
        node, began = f"gpu-{number % 40:03}", iso_from_ns(now_ns - round(number * apart_ns))
        found.append(
            msgspec.structs.replace(
                an_incident(incident_id=f"{number:04}", title=f"GPU fell off the bus on {node}"),
                status="resolved" if number % 10 else "open",
                severity=SEVERITIES[number % len(SEVERITIES)],
                nodes=(node,),
                root_cause=msgspec.structs.replace(an_incident().root_cause, node=node),
                first_seen=began,
                last_seen=began,
            )
        )
    return found


def decisions(incident: Incident, now_ns: int) -> Iterator[Delivery]:
    """The outcomes of an incident's notifications at three targets, oldest first."""
    outcomes = (
        ("pagerduty", "sent", "opened", ""),
        *[("slack", "waits", "opened", "it answers 503; the next try is in 30 s")] * 3,
        ("slack", "sent", "opened", ""),
        *[("slack", outcome, "updated", "the cause changed") for outcome in ("waits", "sent") * 4],
        ("mail", "silenced", "opened", "by ada: drained, case 4711 is open"),
    )
    for number, (target, outcome, kind, reason) in enumerate(outcomes):
        decided_ns = now_ns - (60 - number) * NS_PER_S
        identity = f"{incident.incident_id}-{kind}-{number}"
        place = (incident.incident_id, incident.revision, kind, incident.first_seen)
        yield Delivery(identity, target, Outcome(outcome), *place, reason, decided_ns)


def add_job(client: Client, job: str, ranks: int) -> None:
    """A job of eight ranks a node: node 7 without logs for ten minutes, node 20 behind, the last rank never seen."""
    given = {"job": job, "ranks": ranks, "last": ranks - 1}
    node = "concat('gpu-', leftPad(toString(intDiv(number, 8) + 1), 4, '0'))"
    seen = "now64(9, 'UTC') - toIntervalSecond(if(intDiv(number, 8) = 6, 600, number % 5))"
    step = "toInt64(18200 - multiIf(intDiv(number, 8) = 19, 12 + number % 3, intDiv(number, 8) = 6, 210, 0))"
    client.command(
        "INSERT INTO placements (cluster, job, rank, since, node, local_rank, gpu, world_size)"
        f" SELECT 'default', {{job:String}}, number, now64(9, 'UTC') - toIntervalHour(3), {node}, number % 8,"
        " format('0000:{}:00', ['1b', '43', '52', '61', '9d', 'c3', 'd1', 'df'][number % 8 + 1]), {ranks:UInt32}"
        " FROM numbers({ranks:UInt32})",
        given,
    )
    client.command(
        "INSERT INTO progress (cluster, job, minute, rank, node, first_event_time, last_event_time, first_step,"
        f" last_step) SELECT 'default', {{job:String}}, toStartOfMinute({seen}), number, {node}, {seen}, {seen},"
        f" {step} - 1, {step} FROM numbers({{last:UInt32}})",
        given,
    )
    client.command(
        "INSERT INTO liveness (cluster, job, node, minute, first_event_time, last_event_time, last_step)"
        f" SELECT 'default', {{job:String}}, {node}, toStartOfMinute({seen}), {seen}, {seen}, {step}"
        " FROM numbers({last:UInt32}) WHERE number % 8 = 0 AND intDiv(number, 8) != intDiv({last:UInt32}, 8)",
        given,
    )
    add_state(client, job, JobPhase.BEHIND, world_size=ranks, behind=tuple(range(152, 160)), lost_nodes=("gpu-0007",))


def add_state(client: Client, job: str, phase: JobPhase, **more: Any) -> None:
    """The engine's state of a job, as of now."""
    now_ns = time_ns()
    ClickHouseSink(client).write(job_states=[JobState("default", job, now_ns, phase, now_ns, 0, **more)])


def add_jobs_in_each_state(client: Client) -> list[str]:
    """A job of 64 ranks in each state that `add_job` does not show; gives their names."""
    text = "no step after step 18200; until then a step took 3.1 s; rank 5 has not logged since step 18188"
    for job in ("stalled", "hung", "one-rank", "ended", "never-started", "not-known"):
        add_job(client, job, 64)
    add_state(client, "stalled", JobPhase.STALLED, verdict="rank-dead", node="gpu-0001", rank=5, text=text)
    add_state(client, "hung", JobPhase.STALLED, verdict="hung", text=text.partition("; rank")[0])
    add_state(client, "one-rank", JobPhase.IN_STEP, quiet=tuple(range(1, 64)))
    add_state(client, "ended", JobPhase.ENDED, end=JobEnd.FAILED)
    missing = "no first step; 4 of 68 ranks never started: 64, 65, 66, 67"
    add_state(client, "never-started", JobPhase.NEVER_STARTED, verdict="never-started", world_size=68, text=missing)
    for table, job in (("job_states", "not-known"), ("progress", "never-started")):
        client.command(f"ALTER TABLE {table} DELETE WHERE job = '{job}' SETTINGS mutations_sync = 1")
    return ["stalled", "hung", "one-rank", "ended", "never-started", "not-known"]


def main() -> None:
    """`python -m tests.support.page_store DSN FOLDER`: fill a store."""
    client = connect(sys.argv[1])
    try:
        print(len(fill(client, Path(sys.argv[2]))), "incidents")
    finally:
        client.close()


if __name__ == "__main__":
    main()
