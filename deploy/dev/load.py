"""A simulated cluster that never ends: every few minutes one job fails while another finishes.

python -m deploy.dev.load FOLDER [--kafka HOST:PORT]
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from time import time_ns
from typing import Final

import click

from epicenter.ingest.collect.source import Sources
from epicenter.ingest.producer import RawProducer
from epicenter.ingest.simulate import Scenario, mixed, write_paced
from epicenter.rules.errors import PipelineError
from epicenter.rules.model.times import NS_PER_S
from epicenter.stream.cli.one_machine import hostname
from epicenter.stream.kafka.preflight import reach
from epicenter.stream.load_settings import load_settings
from epicenter.stream.process.logs import print_message
from epicenter.stream.settings import Settings

LENGTH_S: Final = 160.0
MAX_ROUNDS: Final = 2
"""At most this many rounds stay on disk: shippers have read a round when the next but one begins."""
ROUNDS_APART: Final = 32
"""This many rounds in a row are on different nodes, as if broken ones had been drained: failures stay apart."""
JOBS_A_ROUND: Final = 22
FIRST_FAULT: Final = "gpu-off-bus"
Write = Callable[[], object]


def a_round(number: int, nodes: int, speed: float) -> Scenario:
    """One job with a fault and one that finishes. Faster than real time, it begins in the past and ends now."""
    fault = mixed(number, 1)[0] if number else FIRST_FAULT
    return Scenario(
        nodes=nodes,
        first_node=number % ROUNDS_APART * nodes,
        jobs=2,
        faults=(fault, "job-finished"),
        seed=number * JOBS_A_ROUND,
        minutes=0.1,
        start_ns=time_ns() - int(LENGTH_S * (1 - 1 / speed) * NS_PER_S),
        step_time_s=2.0,
        fault_at_s=60.0,
        collective_timeout_s=40.0,
        after_fault_s=60.0,
        is_tidy=True,
    )


def rounds(folder: Path, nodes: int, speed: float, over: Event) -> Iterator[tuple[Path, Write]]:
    """Each round's folder and the function that writes it, forever; old rounds are deleted.

    Only the first round is faster: a later one would begin before the previous one has ended. `over` ends all waits.
    """
    for number in count():
        shutil.rmtree(folder / f"round{number - MAX_ROUNDS:06d}", ignore_errors=True)
        pace = 1.0 if number else speed
        scenario, inside = a_round(number, nodes, pace), folder / f"round{number:06d}"
        inside.mkdir(parents=True, exist_ok=True)
        print_message(f"{inside}: {scenario.faults[0]} on one of {nodes} nodes")
        yield inside, partial(write_paced, scenario, inside, pace, partial(_wait, over))


def _wait(over: Event, length_s: float) -> None:
    over.wait(length_s)


async def ship(bootstrap: str, topic: str, written: Iterator[tuple[Path, Write]], over: Event) -> None:
    """Write each round and send its lines, as a shipper on every node would. Raises as `reach` does."""
    await reach(load_settings(kafka=bootstrap))
    try:
        async with RawProducer(topic, bootstrap_servers=bootstrap) as producer:
            for folder, write in written:
                await _ship_round(producer, folder, write)
    finally:
        over.set()


async def _ship_round(producer: RawProducer, folder: Path, write: Write) -> None:
    writer = asyncio.create_task(asyncio.to_thread(write))
    sources, is_last = Sources([str(folder)], hostname(), follow=True), False
    while not is_last:
        is_last = writer.done()
        sources.open_new_files()
        read = ((source, sources.read(source, time_ns())) for source in sources.all())
        await producer.send((Path(source.name).parent.name.encode(), batch) for source, batch in read if batch)
        await asyncio.sleep(0.05)
    sources.close()
    await writer


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--kafka", help="Broker to which the lines are sent. Default: files only.")
@click.option("--topic", default=Settings.model_fields["raw_topic"].default, show_default=True)
@click.option("--nodes", type=click.IntRange(4, 512), default=16, show_default=True)
@click.option("--speed", type=click.FloatRange(1), default=1.0, show_default=True, help="Of the first round.")
def main(folder: Path, kafka: str | None, topic: str, nodes: int, speed: float) -> None:
    """Write a cluster's logs into FOLDER, live, until stopped.

    Example: python -m deploy.dev.load /var/log/cluster --nodes 8
    """
    over = Event()
    written = rounds(folder, nodes, speed, over)
    if kafka:
        asyncio.run(ship(kafka, topic, written, over))
    for _, write in written:
        write()


if __name__ == "__main__":
    try:
        main()
    except (PipelineError, OSError) as error:
        sys.exit(f"epicenter: {error}")
