"""A simulated job through the pipeline and the embedded store: what its grid and the list of jobs then show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.page import Feed, page
from epicenter.stream.local.pipeline import Pipeline
from epicenter.stream.local.store_writer import LocalStoreWriter
from epicenter.stream.store.thread import Store
from tests.support.logs import batch, kernel, the_rules, vector

pytestmark = pytest.mark.integration

RANKS = range(8)
LAST_STEP, LAST_S = 60, 300
"""The job makes a step every five seconds."""

Line = tuple[float, bytes]


class SimulatedJob:
    """Job A on two nodes of four ranks: lines in, the page's answers out. Time is that of the lines."""

    def __init__(self, store: Store, client: TestClient[Any, Any]) -> None:
        self.client = client
        self._store = store
        self._pipeline = Pipeline(the_rules(), "default", 5 * NS_PER_S, lists_joined=True)
        self._writer = LocalStoreWriter(store, the_rules(), pytest.fail)

    async def log(self, lines: Iterable[Line], wait_s: float = 0) -> None:
        """Read the lines, then wait for so many seconds in which none comes."""
        values = [value for _, value in sorted(lines)]
        for first in range(0, len(values), 50):
            scanned = self._pipeline.process(batch(values[first : first + 50], "test", first + 1))
            await self._writer.write_scanned([scanned], the_rules())
            await self._writer.write_outcome(self._pipeline, self._pipeline.advance([]), the_rules())
        for second in range(0, int(wait_s) + 1, 20):
            changed = self._pipeline.advance([], second * NS_PER_S)
            await self._writer.write_outcome(self._pipeline, changed, the_rules())

    async def forget_states(self) -> None:
        """Leave the store as a version without states wrote it."""
        await self._store.query(lambda client: client.command("TRUNCATE TABLE job_states"))

    async def grid(self) -> list[str]:
        """The state of each rank."""
        columns = await (await self.client.get("/api/jobs/default/A/ranks")).json()
        return [columns["states"][number] for number in columns["state"]]

    async def bad(self) -> list[int]:
        """The ranks that the page calls bad."""
        columns = await (await self.client.get("/api/jobs/default/A/ranks")).json()
        return [rank for rank in columns["rank"] if columns["state"][rank] in columns["bad"]]

    async def text(self, path: str = "/jobs/default/A") -> str:
        """The HTML of a page."""
        return await (await self.client.get(path)).text()


@pytest.fixture
async def job() -> AsyncIterator[SimulatedJob]:
    store = Store("chdb://memory/job_grid")
    await store.open()
    async with TestClient(TestServer(page(store.query, lambda: {"status": "ok"}, Feed()))) as client:
        for table in ("liveness", "progress", "placements", "job_states", "incidents"):
            await store.query(lambda client, table=table: client.command(f"TRUNCATE TABLE {table}"))
        yield SimulatedJob(store, client)
    await store.close()


def node(rank: int) -> str:
    return f"n{rank // 4 + 1}"


def banner(rank: int) -> Line:
    text = (
        f"{node(rank)}:991:1203 [{rank % 4}] NCCL INFO ncclCommInitRank comm 0x55d0 rank {rank} nranks 8"
        f" cudaDev {rank % 4} - Init COMPLETE"
    )
    return 1, vector(node(rank), 1, text, "A")


def step(rank: int, number: int, second: float) -> Line:
    text = f" {rank}: completed step: {number}, seconds: 5.000, TFLOP/s/device: 380.1"
    return second, vector(node(rank), second, text, "A")


def steps(ranks: Iterable[int] = RANKS, upto: int = LAST_STEP, pace_s: float = 5) -> Iterator[Line]:
    for rank in ranks:
        for number in range(1, upto + 1):
            yield step(rank, number, pace_s * number)


def banners(ranks: Iterable[int] = RANKS) -> Iterator[Line]:
    return map(banner, ranks)


async def test_ranks_of_a_running_job_are_in_step(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps()])
    assert (await job.grid(), await job.bad()) == (["in-step"] * 8, [])
    assert "In step" in await job.text("/jobs")


async def test_a_pause_of_two_minutes_is_no_stall_while_the_engine_waits(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps()], wait_s=180)
    assert await job.grid() == ["in-step"] * 8


async def test_a_rank_at_an_earlier_step_is_behind(job: SimulatedJob) -> None:
    slow = steps([3], upto=52, pace_s=5.7)
    await job.log([*banners(), *steps(set(RANKS) - {3}), *slow])
    assert (await job.grid())[3] == "behind"
    assert await job.bad() == [3]


async def test_a_hang_stalls_all_ranks(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps()], wait_s=1200)
    assert await job.grid() == ["stalled"] * 8
    assert "Stalled" in await job.text("/jobs")
    assert "No step after step 60" in await job.text()


async def test_the_rank_that_stopped_first_is_stalled_and_those_that_wait_are_not(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps(set(RANKS) - {5}), *steps([5], upto=LAST_STEP - 1)], wait_s=1200)
    assert await job.bad() == [5]
    assert (await job.grid())[5] == "stalled"
    assert "rank 5 on n2 stopped first" in await job.text("/jobs")


async def test_ranks_without_steps_are_neutral_when_one_rank_logs_for_all(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps([0])])
    assert await job.grid() == ["in-step", *["logs-only"] * 7]
    assert await job.bad() == []


async def test_ranks_of_a_job_that_numbers_no_steps_log_without_steps(job: SimulatedJob) -> None:
    progress = [
        (second, vector(node(rank), second, f"INFO:root:{rank}: 12.1 tokens/s, loss=2.1", "A"))
        for rank in RANKS
        for second in range(10, LAST_S, 10)
    ]
    await job.log([*banners(), *progress])
    assert (await job.grid(), await job.bad()) == (["logs-only"] * 8, [])
    page = await job.text()
    assert "logs, no steps" in page and "no line numbers its steps" in page


async def test_a_rank_that_reports_no_steps_although_most_do_needs_attention(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps(set(RANKS) - {6})])
    assert ((await job.grid())[6], await job.bad()) == ("no-step", [6])


async def test_ranks_of_a_job_that_never_started_have_no_logs_yet(job: SimulatedJob) -> None:
    await job.log(banners(set(RANKS) - {7}), wait_s=1200)
    assert await job.grid() == [*["logs-only"] * 7, "no-logs"]
    assert await job.bad() == [7]
    assert "Never started" in await job.text("/jobs")


async def test_ranks_of_a_node_whose_logs_stopped_are_not_called_stalled(job: SimulatedJob) -> None:
    kernels = [
        (second, kernel(f"n{number}", second, f"audit: backlog limit exceeded {second}"))
        for number in (1, 2)
        for second in range(10, 1500 if number == 1 else 600, 10)
    ]
    own = [*steps(range(4), upto=300), *steps(range(4, 8), upto=120)]
    await job.log([*banners(), *own, *kernels])
    assert await job.grid() == [*["in-step"] * 4, *["logs-missing"] * 4]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("`Trainer.fit` stopped: `max_steps=1000` reached.", "Ended: completed"),
        ("slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-02T09:05:05 ***", "Ended: cancelled"),
        (
            "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-02T09:05:05 DUE TO TIME LIMIT ***",
            "Ended: time limit reached",
        ),
        ("srun: error: n1: task 0: Exited with exit code 1", "Ended: failed"),
    ],
)
async def test_an_ended_job_is_grey_with_its_end(job: SimulatedJob, line: str, shown: str) -> None:
    await job.log([*banners(), *steps(), (LAST_S + 5, vector("n1", LAST_S + 5, line, "A"))], wait_s=3600)
    assert (await job.grid(), await job.bad()) == (["ended"] * 8, [])
    assert shown in await job.text("/jobs")
    assert shown in await job.text()


async def test_steps_of_a_former_attempt_leave_no_rank_behind(job: SimulatedJob) -> None:
    again = [step(rank, number, 600 + 5 * (number - 40)) for rank in RANKS for number in range(40, 56)]
    await job.log([*banners(), *steps(), *again])
    assert await job.grid() == ["in-step"] * 8
    assert "<dd>55<small>" in await job.text()


async def test_the_state_of_a_job_that_an_older_version_stored_is_not_known(job: SimulatedJob) -> None:
    await job.log([*banners(), *steps()])
    await job.forget_states()
    assert (await job.grid(), await job.bad()) == (["unknown"] * 8, [])
    assert "Not known" in await job.text("/jobs")
