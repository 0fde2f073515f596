"""Where to see a live Ray job's dashboards, and what remains of its metrics afterwards."""

from __future__ import annotations

from typing import Final

from epicenter.rules.triage.document import Status
from epicenter.rules.triage.story import Story

DEFAULT_PROMETHEUS_PORT: Final = "9190"


def dashboards(story: Story, status: Status) -> tuple[str, ...]:
    """One line each: the tunnel, head node and ports of a live job; for an ended one, how to open its saved metrics."""
    tunnel = story.fact("job.ssh_tunnel", "command")
    metrics_folder = next((name for name in story.artifacts if name.endswith("prometheus")), "")
    if not tunnel and not metrics_folder:
        return ()
    host = story.fact("job.ssh_tunnel", "head_host") or "the head node"
    port = _port(story)
    if not status.is_live:
        lines = ["The job has ended, so its dashboards are gone: do not query them."]
        lines += [f"Saved metrics: open a Prometheus on {metrics_folder or _folder(story)} (--storage.tsdb.path)"]
        return tuple([*lines, f"Tunnel while it ran ({host}, Prometheus port {port}): {tunnel}"] if tunnel else lines)
    return (
        *((f"Tunnel to run on your machine: {tunnel}",) if tunnel else ()),
        f"Prometheus, from the cluster's network: http://{host}:{port} (localhost:9090 may be another instance)",
        "Through the tunnel: Ray dashboard on port 8265, TensorBoard on 6006",
    )


def _port(story: Story) -> str:
    stated = story.fact("job.prometheus_port", "prometheus_port") or story.fact("job.ssh_tunnel", "prometheus_port")
    return stated or DEFAULT_PROMETHEUS_PORT


def _folder(story: Story) -> str:
    return f"{story.folder or 'JOB_FOLDER'}/prometheus"
