"""A worker at a steady rate for an hour: memory, lag, open files and the raw topic's disk must stay flat.

Writes docs/soak.csv and docs/soak.svg. `SOAK_MINUTES` and `SOAK_LINES` (a second; by default 80 % of the peak that a
first minute measures) change it.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.live_input import PARTITIONS, LiveCluster
from bench.servers import Servers, servers
from deploy.dev.process import EPICENTER

MINUTES = float(os.environ.get("SOAK_MINUTES", 60))
LINES_PER_S = int(os.environ.get("SOAK_LINES", 0))
NODES: Final = 256
SHARE_OF_PEAK: Final = 0.8
MORE_THAN_ANY: Final = 2_000_000
PEAK_S: Final = 60.0
SAMPLES: Final = 300
DOCS: Final = Path(__file__).parents[1] / "docs"

RETENTION_BYTES: Final = 256 << 20
"""Of each raw partition; with a retention of a day the topic would grow for a day."""


class Sample(NamedTuple):
    """One measurement of the worker and the broker's folder."""

    minute: float
    memory_mb: float
    lag_lines: float
    open_files: float
    raw_topic_mb: float
    lines_per_s: float


class Bound(NamedTuple):
    """How much a figure may grow over the second half: a share of its mean, or this much where that is more."""

    share: float
    least: float


BOUNDS: Final = {
    "memory_mb": Bound(0.01, 1.0),
    "lag_lines": Bound(0.0, 100_000.0),
    "open_files": Bound(0.0, 4.0),
    "raw_topic_mb": Bound(0.10, 64.0),
}


async def soak(kafka: Servers) -> list[Sample]:
    """Run it; gives the samples."""
    await _make_raw_topic(kafka)
    kafka.prepare()
    worker = subprocess.Popen([*EPICENTER, "worker"], env=kafka.env)
    try:
        while not await asyncio.to_thread(kafka.counted):
            await asyncio.sleep(1)
        rate = LINES_PER_S or round(SHARE_OF_PEAK * await _peak(kafka))
        print(f"{rate:,} lines/s for {MINUTES:g} minutes", file=sys.stderr)
        done = asyncio.Event()
        cluster = asyncio.create_task(LiveCluster(kafka.bootstrap, kafka.raw_topic, NODES, rate).run(done))
        try:
            return await asyncio.to_thread(_samples, kafka, worker)
        finally:
            done.set()
            await cluster
    finally:
        worker.terminate()
        worker.wait()


async def _make_raw_topic(kafka: Servers) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    retention = {
        "retention.bytes": str(RETENTION_BYTES),
        "segment.bytes": str(RETENTION_BYTES // 8),
        "file.delete.delay.ms": "1000",
    }
    await admin.create_topics([NewTopic(kafka.raw_topic, PARTITIONS, 1, topic_configs=retention)])
    await admin.close()


async def _peak(kafka: Servers) -> float:
    """Lines a second that an overloaded worker processes next to the sender and the broker."""
    done = asyncio.Event()
    overload = asyncio.create_task(LiveCluster(kafka.bootstrap, kafka.raw_topic, NODES, MORE_THAN_ANY).run(done))
    await asyncio.sleep(PEAK_S / 2)
    before, begun_s = await _records(kafka), time.monotonic()
    await asyncio.sleep(PEAK_S / 2)
    rate = (await _records(kafka) - before) / (time.monotonic() - begun_s)
    done.set()
    await overload
    while (await asyncio.to_thread(kafka.counted))["epicenter_lag_records"] > rate:
        await asyncio.sleep(1)
    return rate


async def _records(kafka: Servers) -> float:
    return (await asyncio.to_thread(kafka.counted)).get("epicenter_records_total", 0.0)


def _samples(kafka: Servers, worker: subprocess.Popen[bytes]) -> list[Sample]:
    found: list[Sample] = []
    begun_s = time.monotonic()
    last_s, last_records = begun_s, kafka.counted().get("epicenter_records_total", 0.0)
    while (minute := (time.monotonic() - begun_s) / 60) < MINUTES:
        time.sleep(MINUTES * 60 / SAMPLES)
        if worker.poll() is not None:
            raise SystemExit(f"the worker ended: {worker.returncode}")
        counted, now_s = kafka.counted(), time.monotonic()
        records = counted.get("epicenter_records_total", last_records)
        found.append(
            Sample(
                minute=round(minute, 3),
                memory_mb=counted.get("process_resident_memory_bytes", 0) / 1e6,
                lag_lines=counted.get("epicenter_lag_records", 0),
                open_files=counted.get("process_open_fds", 0),
                raw_topic_mb=_size_mb(kafka),
                lines_per_s=round((records - last_records) / (now_s - last_s)),
            )
        )
        last_s, last_records = now_s, records
    return found


def _size_mb(kafka: Servers) -> float:
    sizes = 0
    for file in kafka.folder.glob(f"kafka/**/{kafka.raw_topic}-*/*.log"):
        try:
            sizes += file.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # retention was faster
    return sizes / 1e6


def growth(samples: Sequence[Sample], name: str) -> float:
    """By how much a figure grows over the second half, on the straight line that fits it best."""
    half = samples[len(samples) // 2 :]
    minutes = [sample.minute for sample in half]
    slope = statistics.linear_regression(minutes, [getattr(sample, name) for sample in half]).slope
    return slope * (minutes[-1] - minutes[0])


def verdicts(samples: Sequence[Sample]) -> dict[str, dict[str, float | bool]]:
    """Mean and growth of each figure, and whether it is flat."""
    found: dict[str, dict[str, float | bool]] = {}
    for name, bound in BOUNDS.items():
        mean = statistics.fmean(getattr(sample, name) for sample in samples[len(samples) // 2 :])
        grown = growth(samples, name)
        is_flat = grown <= max(bound.share * mean, bound.least)
        found[name] = {"mean": round(mean, 1), "growth": round(grown, 1), "is_flat": is_flat}
    return found


WIDTH, HEIGHT, LEFT, GAP = 860, 110, 130, 26
FONT: Final = {"font-family": "sans-serif", "font-size": "12"}


def plot(samples: Sequence[Sample]) -> str:
    """The figures over time, each from zero, one below the other, as SVG."""
    names = [name for name in Sample._fields if name != "minute"]
    size = {"width": str(WIDTH), "height": str(len(names) * (HEIGHT + GAP) + GAP)}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **FONT, **size})
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    longest = samples[-1].minute or 1
    for number, name in enumerate(names):
        top, most = GAP + number * (HEIGHT + GAP), max(getattr(sample, name) for sample in samples) or 1
        points = [
            (LEFT + sample.minute / longest * (WIDTH - LEFT - 10), top + HEIGHT * (1 - getattr(sample, name) / most))
            for sample in samples
        ]
        frame = {"x": str(LEFT), "y": str(top), "width": str(WIDTH - LEFT - 10), "height": str(HEIGHT)}
        ET.SubElement(root, "rect", {**frame, "fill": "none", "stroke": "#bbb"})
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        ET.SubElement(root, "polyline", {"points": line, "fill": "none", "stroke": "#0b57d0"})
        ET.SubElement(root, "text", {"x": "8", "y": str(top + HEIGHT // 2)}).text = name.replace("_", " ")
        ET.SubElement(
            root, "text", {"x": str(LEFT - 8), "y": str(top + 10), "text-anchor": "end"}
        ).text = f"{most:,.0f}"
        ET.SubElement(root, "text", {"x": str(LEFT - 8), "y": str(top + HEIGHT), "text-anchor": "end"}).text = "0"
    end = {"x": str(WIDTH - 10), "y": size["height"], "dy": "-8", "text-anchor": "end"}
    ET.SubElement(root, "text", end).text = f"{longest:.0f} minutes"
    return ET.tostring(root, "unicode") + "\n"


def main() -> None:
    """Exit code 1 when something grows."""
    with servers("soak", log_retention_check_interval_ms="5000") as kafka:
        samples = asyncio.run(soak(kafka))
    with (DOCS / "soak.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Sample._fields, *samples])
    (DOCS / "soak.svg").write_text(plot(samples))
    found = verdicts(samples)
    for name, verdict in found.items():
        flat = "flat" if verdict["is_flat"] else "GROWS"
        print(f"{name:<14} mean {verdict['mean']:>12,}  growth {verdict['growth']:>10,}  {flat}", file=sys.stderr)
    rate = round(statistics.fmean(sample.lines_per_s for sample in samples))
    print(json.dumps({"minutes": MINUTES, "lines_per_s": rate, "figures": found}))
    sys.exit(not all(verdict["is_flat"] for verdict in found.values()))


if __name__ == "__main__":
    main()
