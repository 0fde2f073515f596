"""MaxText on JAX: every task prints every step, one step late; a node is one task.

Sources: MaxText `metric_logger.py` and `checkpointing.py`, jaxlib 0.8.
"""

from __future__ import annotations

from random import Random

from epicenter.ingest.simulate.cluster import Cluster
from epicenter.ingest.simulate.frameworks.common import loss, nccl_start, too_long
from epicenter.ingest.simulate.headers import absl, spread
from epicenter.ingest.simulate.model import MS, Job, Text, Timed
from epicenter.rules.model.times import NS_PER_S

_THREAD = 140_110_937_163_584
_LATE = 0.02


class MaxText:
    """See `Printer`."""

    def start_lines(self, job: Job, place: int, at_ns: int) -> list[Timed]:
        """Registration, a probe that fails by design, NCCL, a slow compilation."""
        connected = (
            f"/job:jax_worker/replica:0/task:{place} has connected to coordination service. Incarnation: 7{place}"
        )
        factory = "Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when one has"
        factory += " already been registered"
        texts: list[Text] = [
            absl("E", 1570, "cuda_fft.cc:467", factory),
            absl("I", 1570, "coordination_service_agent.cc:391", connected),
        ]
        lines = spread(at_ns, texts, 80 * MS) + nccl_start(job, place, at_ns + 3 * NS_PER_S)
        slow = "Very slow compile? If you want to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and"
        slow += " attach the results."
        if place % 7 == 2:
            lines.append((at_ns + 20 * NS_PER_S, absl("E", 1711, "slow_operation_alarm.cc:140", slow)))
        restore = f"restoring from this run's directory step {job.first_step}"
        fresh = "No existing checkpoints found, not restoring checkpoint."
        text = restore if job.first_step else fresh
        return [*lines, (at_ns + 24 * NS_PER_S, absl("I", _THREAD, "checkpointing.py:430", text))]

    def step(self, cluster: Cluster, job: Job, step: int, took_s: float, rng: Random) -> None:
        """The previous step is reported when this one is done."""
        if step == job.first_step:
            return
        value = loss(step - 1, rng)
        for place in range(len(job.nodes)):
            text = (
                f"completed step: {step - 1}, seconds: {took_s * rng.uniform(0.99, 1.01):.3f},"
                f" TFLOP/s/device: {rng.uniform(408, 416):.3f}, Tokens/s/device: {rng.uniform(7100, 7200):.3f},"
                f" total_weights: 1048576, loss: {value:.3f}"
            )
            at = cluster.now_ns + int(rng.random() * _LATE * NS_PER_S)
            cluster.worker(job, place, [(at, absl("I", _THREAD, "metric_logger.py:214", text))], "stdout")

    def saving(self, cluster: Cluster, job: Job, step: int) -> None:
        """MaxText logs nothing when it begins."""

    def saved(self, cluster: Cluster, job: Job, step: int) -> None:
        """Every task is done."""
        line = absl("I", _THREAD, "checkpointing.py:611", f"Saved a checkpoint at step {step}.")
        for place in range(len(job.nodes)):
            cluster.worker(job, place, [(cluster.now_ns + place * 10_000, line)], "stdout")

    def evaluated(self, cluster: Cluster, job: Job, step: int, rng: Random) -> None:
        """Every task prints the result."""
        text = f"Completed eval after train step {step}, loss={loss(step, rng):.3f}, total_weights=524288"
        for place in range(len(job.nodes)):
            line = absl("I", _THREAD, "metric_logger.py:158", text)
            cluster.worker(job, place, [(cluster.now_ns + place * 10_000, line)], "stdout")

    def noise(self, job: Job, place: int, rng: Random) -> Text:
        """One of the usual."""
        spare = (
            f"Allocator (GPU_{rng.randrange(8)}_bfc) ran out of memory"
            " trying to allocate 17.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but"
            " this may mean that there could be performance gains if more memory were available."
        )
        return rng.choice((too_long(rng), absl("W", 1711, "bfc_allocator.cc:310", spare)))

    def finish(self, cluster: Cluster, job: Job) -> None:
        """Every task saves the last step."""
        last = job.first_step + job.steps_done - 1
        self.saved(cluster, job, last)
