"""Progress and last activity of jobs and ranks, from the store."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from epicenter.rules.model.ledger import JobState
from epicenter.sinks.clickhouse.client import Client

JOBS_WITHIN_S: Final = 86_400
RANKS_WITHIN_S: Final = 6 * 3_600
MAX_RANKS: Final = 65_536
CLOCK_AHEAD_S: Final = 300
"""Lines further ahead of the store's clock than this are ignored when finding the newest line."""

_PLAUSIBLE: Final = "minute <= now() + {ahead:UInt32}"

_JOB_NAMES: Final = (
    *("cluster", "job", "nodes", "heard_ns", "step", "ranks", "open", "incidents"),
    *("phase", "end", "verdict", "state_node", "state_rank", "as_of_ns"),
)
_RANK_NAMES: Final = ("rank", "node", "gpu", "step", "heard_ns", "node_heard_ns")


def list_jobs(client: Client, limit: int = 200) -> list[dict[str, Any]]:
    """Jobs active in the day before the newest line: nodes, last line, latest step, ranks, incidents, state.

    Relative to the newest line, so that old logs look like today's; lines ahead of the clock don't count. The most
    recently active job comes first; `step` is None if unknown. `phase` and what follows are those of its `JobState`;
    an empty `phase` is not known.
    """
    found = client.query(
        "SELECT cluster, job, nodes, heard_ns, step, ifNull(ranks, 0), ifNull(open, 0), ifNull(incidents, 0),"
        " ifNull(phase, ''), ifNull(outcome, ''), ifNull(verdict, ''), ifNull(state_node, ''), state_rank,"
        " ifNull(as_of_ns, 0) FROM ("
        " SELECT cluster, job, uniqExactIf(node, node != '') AS nodes,"
        "  toUnixTimestamp64Nano(max(last_event_time)) AS heard_ns,"
        "  argMaxIf(last_step, (minute, assumeNotNull(last_step)), last_step IS NOT NULL) AS step"
        " FROM liveness WHERE job != ''"
        f"   AND minute + {{within:UInt32}} >= (SELECT max(minute) FROM liveness WHERE {_PLAUSIBLE})"
        " GROUP BY cluster, job ORDER BY heard_ns DESC, job LIMIT {limit:UInt32}) AS jobs"
        " LEFT JOIN (SELECT cluster, job, toInt64(least(uniqExactIf(rank, rank >= 0),"
        "  ifNull(nullIf(argMaxIf(world_size, since, world_size > 0), 0), {most:UInt32}))) AS ranks FROM placements"
        "  GROUP BY cluster, job) AS placed USING (cluster, job)"
        " LEFT JOIN (SELECT cluster, arrayJoin(jobs) AS job, toInt64(countIf(status = 'open')) AS open,"
        "  toInt64(count()) AS incidents FROM incidents FINAL WHERE merged_into = '' GROUP BY cluster, job) AS troubled"
        "  USING (cluster, job)"
        " LEFT JOIN (SELECT cluster, job, toString(phase) AS phase, toString(outcome) AS outcome,"
        "  toString(verdict) AS verdict, toString(node) AS state_node, nullIf(rank, -1) AS state_rank,"
        "  toUnixTimestamp64Nano(time) AS as_of_ns FROM job_states FINAL) AS known USING (cluster, job)"
        " ORDER BY heard_ns DESC, job",
        {"within": JOBS_WITHIN_S, "ahead": CLOCK_AHEAD_S, "limit": limit, "most": MAX_RANKS},
    )
    return [dict(zip(_JOB_NAMES, row, strict=True)) for row in found]


def get_job_state(client: Client, cluster: str, job: str) -> JobState | None:
    """The state of the job according to the engine; None if it is not known."""
    found = client.query(
        "SELECT cluster, job, toUnixTimestamp64Nano(time), phase, toUnixTimestamp64Nano(since),"
        " toUnixTimestamp64Nano(attempt), outcome, verdict, node, nullIf(rank, -1), text, world_size, behind, quiet,"
        " lost_nodes FROM job_states FINAL WHERE cluster = {cluster:String} AND job = {job:String}",
        {"cluster": cluster, "job": job},
    )
    return msgspec.convert(list(found[0]), JobState) if found else None


def list_ranks(client: Client, cluster: str, job: str) -> list[dict[str, Any]]:
    """Each rank that was placed or logged, by number: node, GPU, step, last line of the rank and of its node.

    Steps of former attempts do not count. Ranks beyond the newest world size are left out unless they were active
    since: the job was restarted with fewer. `rank` -1 is for lines without a rank. Unknown steps are
    None, unknown times are 0.
    """
    within = "cluster = {cluster:String} AND job = {job:String}"
    found = client.query(
        "WITH (SELECT max((toUnixTimestamp64Nano(since), toInt64(world_size))) FROM placements"
        f" WHERE {within} AND world_size > 0) AS newest,"
        f" (SELECT toStartOfMinute(toDateTime(max(attempt), 'UTC')) FROM job_states FINAL WHERE {within}) AS attempt"
        " SELECT rank, if(place.2 != '', place.2, step_node), place.3, step, heard_ns, ifNull(node_heard_ns, 0) FROM ("
        " SELECT rank, max(places) AS place, max(nodes) AS step_node, max(steps) AS step, max(times) AS heard_ns FROM ("
        f" SELECT rank, (toUnixTimestamp64Nano(since), node, gpu)::Tuple(Int64, String, String) AS places, '' AS nodes,"
        f"  CAST(NULL AS Nullable(Int64)) AS steps, toInt64(0) AS times FROM placements FINAL WHERE {within}"
        " UNION ALL"
        " SELECT rank, (0, '', '')::Tuple(Int64, String, String), argMax(node, last_event_time),"
        "  CAST(maxIf(last_step, minute >= attempt) AS Nullable(Int64)), toUnixTimestamp64Nano(max(last_event_time))"
        f" FROM progress WHERE {within} AND minute + {{within:UInt32}} >="
        f"  (SELECT max(minute) FROM progress WHERE {within} AND {_PLAUSIBLE})"
        "  GROUP BY rank) GROUP BY rank HAVING rank < newest.2 OR greatest(place.1, heard_ns) >= newest.1"
        " LIMIT {most:UInt32}) AS ranks"
        " LEFT JOIN (SELECT node, toUnixTimestamp64Nano(max(last_event_time)) AS node_heard_ns FROM liveness"
        f" WHERE {within} GROUP BY node) AS alive ON alive.node = if(place.2 != '', place.2, step_node)"
        " ORDER BY rank",
        {"cluster": cluster, "job": job, "within": RANKS_WITHIN_S, "ahead": CLOCK_AHEAD_S, "most": MAX_RANKS},
    )
    return [dict(zip(_RANK_NAMES, row, strict=True)) for row in found]
