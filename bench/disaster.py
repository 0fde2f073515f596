"""Disasters on a real broker and a real store, with counts before and after each: `make disaster`.

    python -m bench.disaster [NAME...]

Exit code 1 when a count differs from what the disaster `expects`, as docs/operations.md describes it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from deploy.dev.broker import dev_broker
from deploy.dev.clickhouse import dev_clickhouse
from epicenter.rules.alerts.silences import Silence
from epicenter.rules.model.times import NS_PER_S
from epicenter.sinks.clickhouse.client import connect
from epicenter.sinks.clickhouse.migrate import migrate
from epicenter.sinks.clickhouse.operator_actions import write_silences
from epicenter.stream.kafka.topics import TopicNames
from tests.support.cluster import Cluster, Worker, with_admin
from tests.support.logs import kernel
from tests.support.packs import A_PACK
from tests.support.receiver import Receiver
from tests.support.waiting import eventually

PATIENCE_S: Final = 90
XID: Final = "NVRM: Xid (PCI:0000:9a:00): 79, pid=48213, name=python3, GPU has fallen off the bus."
QUIET: Final = "eth0: Link is Up"
FAR_APART_S: Final = 20_000
"""The time between two incidents: the first is resolved before the next begins."""

COUNTED: Final = {
    "incidents": "SELECT uniqExact(incident_id) FROM incidents",
    "revisions": "SELECT uniqExact(incident_id, revision) FROM incident_revisions",
    "matches": "SELECT uniqExact(match_id) FROM matches",
    "signals": "SELECT uniqExact(signal_id) FROM signals",
    "deliveries": "SELECT uniqExact(notification_id, target, outcome) FROM deliveries",
    "dead letters": "SELECT uniqExact(dead_letter_id) FROM dead_letters",
    "silences": "SELECT uniqExact(silence_id) FROM silences",
}
Counts = dict[str, int]


class Outcome(NamedTuple):
    """Counts; `expects` has those that change."""

    before: Counts
    after: Counts
    expects: dict[str, int]


class Site:
    """A worker, its store and a webhook; some incidents have happened, and one record was garbage."""

    def __init__(self, stack: ExitStack, bootstrap: str, dsn: str, folder: Path, incidents: int):
        self.incidents = incidents
        self.receiver = stack.enter_context(Receiver().listening())
        self.cluster = Cluster(bootstrap, dsn, folder, RAW_PARTITIONS="1", MATCH_PARTITIONS="1")
        stack.callback(self.cluster.stop)
        self.names = TopicNames(self.cluster.name)
        self.folder = folder
        self._dsn = dsn
        self._times = 0
        self._client = connect(self.cluster.store)
        stack.callback(self._client.close)
        migrate(self._client)
        self.start()

    def start(self, **settings: str) -> Worker:
        """A worker that notifies the webhook."""
        return self.cluster.start_worker(WEBHOOK_URL=self.receiver.url, **settings)

    def stop(self) -> None:
        """Stop the workers with SIGTERM."""
        self.cluster.stop()

    def add_incident(self) -> None:
        """An incident on a separate node, long after the one before; wait until it is stored and notified."""
        incidents, self._times = self.counts()["incidents"], self._times + 1
        begins_s = self._times * FAR_APART_S
        lines = (kernel(f"n{self._times}", begins_s, XID), kernel("n0", begins_s + 30, QUIET))
        self.cluster.feed(("node", line) for line in lines)
        self.wait_for("incidents", incidents + 1)
        title = ("opened", f"GPU has fallen off the bus (Xid 79) on n{self._times}, GPU 0000:9a:00")
        eventually(lambda: title in self.receiver.titles, PATIENCE_S, f"the notification: {title}")

    def counts(self) -> Counts:
        """The counts in the store and at the webhook."""
        found = {name: int(self._client.query(question)[0][0]) for name, question in COUNTED.items()}
        return {**found, "notifications": len(set(self.receiver.ids))}

    def settled(self) -> Counts:
        """The counts once nothing changes any more."""
        seen: list[Counts] = []

        def is_settled() -> bool:
            seen.append(self.counts())
            return len(seen) >= EQUAL_COUNTS and all(counts == seen[-1] for counts in seen[-EQUAL_COUNTS:])

        eventually(is_settled, PATIENCE_S, "nothing changes any more")
        return seen[-1]

    def wait_for(self, what: str, least: int) -> None:
        """Until the store has so many."""
        eventually(lambda: self.counts()[what] >= least, PATIENCE_S, f"{least} {what}")

    def silence(self, node: str) -> None:
        """Silence a node for a while."""
        now_ns = 1_800_000_000 * NS_PER_S
        write_silences(self._client, Silence("s1", {"node": node}, now_ns, now_ns + NS_PER_S, "ada", "new fans"))

    def sql(self, *statements: str) -> None:
        """Run statements in the store by a client of another database."""
        client = connect(self._dsn)
        try:
            for statement in statements:
                client.command(statement.format(database=self.cluster.name))
        finally:
            client.close()

    def topics(self, work: Callable[[AIOKafkaAdminClient], Any]) -> None:
        """Run some work with an admin client."""
        with_admin(self.cluster.bootstrap, work)


EQUAL_COUNTS: Final = 10
INCIDENTS: Final = 3
ENDED: Final = ("revisions", "deliveries", "notifications")
"""Of the end of an incident, there is one of each."""


def begin(site: Site) -> Counts:
    """The state before a disaster: some incidents, a dead letter and a silence."""
    site.cluster.feed([("node", b'{"message": 7}'), ("node", kernel("n0", 1, QUIET))])
    for _ in range(site.incidents):
        site.add_incident()
    site.wait_for("dead letters", 1)
    site.silence("n9")
    return site.settled()


def store_lost(site: Site) -> Outcome:
    """The tables are recreated and refilled from Kafka: the store's group begins at the oldest record."""
    before = begin(site)
    site.stop()
    site.sql("DROP DATABASE {database} SYNC")
    site.cluster.run("migrate")
    asyncio.run(_reset_offsets(site.cluster, site.names.store_group, _read_by_the_store(site.names)))
    site.start()
    site.wait_for("incidents", before["incidents"])
    return Outcome(before, site.settled(), {"silences": 0})


def kafka_lost(site: Site) -> Outcome:
    """All topics are lost and recreated; the worker continues with new records and repeats no notification."""
    before = begin(site)
    everything = [site.cluster.raw_topic, *_ours(site.names)]
    site.topics(lambda admin: admin.delete_topics(everything))
    site.cluster.run("topics")
    site.add_incident()
    after, expects = site.settled(), _with_another_incident(before)
    if after["revisions"] == expects["revisions"] + 1:
        expects["revisions"] += 1  # the worker still had the open incident in memory, and resolved it
    return Outcome(before, after, expects)


def snapshots_lost(site: Site) -> Outcome:
    """Only the snapshots are lost: what was open ends, with that reason, and no notification is repeated."""
    before = begin(site)
    site.stop()
    site.topics(lambda admin: admin.delete_topics([site.names.snapshots]))
    site.cluster.run("topics")
    site.start()
    site.add_incident()
    expects = _with_another_incident(before)
    return Outcome(before, site.settled(), expects | {name: expects[name] + 1 for name in ENDED})


def backup_restored(site: Site) -> Outcome:
    """The store is restored from its backup; later rows are refilled from Kafka."""
    before = begin(site)
    backup = "File('{database}')"
    site.sql(f"BACKUP DATABASE {{database}} TO {backup}")
    site.add_incident()
    newest = site.settled()
    site.stop()
    site.sql("DROP DATABASE {database} SYNC", f"RESTORE DATABASE {{database}} FROM {backup}")
    assert site.counts() | {"notifications": 0} == before | {"notifications": 0}
    asyncio.run(_reset_offsets(site.cluster, site.names.store_group, _read_by_the_store(site.names)))
    site.start()
    site.wait_for("incidents", newest["incidents"])
    return Outcome(newest, site.settled(), {})


def rules_mended(site: Site) -> Outcome:
    """A pack was wrong; separate groups read the records again with the fixed pack, without notifications."""
    pack = site.folder / "mended.yaml"
    pack.write_text(A_PACK.replace("source: worker", "source: kernel").replace("'went wrong:", "'went (very )?wrong:"))
    begin(site)
    late_s = 10.0 * FAR_APART_S
    lines = (kernel("n7", late_s, "it went very wrong: 7"), kernel("n0", late_s + 30, QUIET))
    site.cluster.feed(("node", line) for line in lines)
    before = site.settled()
    replay = ReplayCluster(site)
    asyncio.run(_reset_offsets(site.cluster, replay.names.match_group, [site.cluster.raw_topic]))
    replay.start_worker(RULE_PACKS=str(pack), SERVICES="match,correlate,store")
    site.wait_for("incidents", before["incidents"] + 1)
    after = site.settled()
    replay.stop()
    return Outcome(before, after, {name: before[name] + 1 for name in ("incidents", "matches", "signals", "revisions")})


class ReplayCluster(Cluster):
    """The same raw topic and store under another prefix, with separate groups and topics."""

    def __init__(self, site: Site):
        self._site = site.cluster
        super().__init__(site.cluster.bootstrap, site.cluster.store, site.folder, share_raw=site.cluster)
        self.names = TopicNames(self.name)

    def env(self, name: str) -> dict[str, str]:
        """The environment with the same store."""
        return super().env(name) | {"EPICENTER_STORE": self._site.store, "EPICENTER_MATCH_PARTITIONS": "1"}


def _with_another_incident(before: Counts) -> Counts:
    """The counts with another incident: a match, a signal, one revision; the former one stays open."""
    return {
        name: before[name] + 1
        for name in ("incidents", "matches", "signals", "revisions", "deliveries", "notifications")
    }


def _ours(names: TopicNames) -> list[str]:
    return [
        names.matches,
        names.signals,
        names.incidents,
        names.alerts,
        names.dead_letters,
        names.snapshots,
    ]


def _read_by_the_store(names: TopicNames) -> list[str]:
    return [names.matches, names.signals, names.incidents, names.dead_letters]


async def _reset_offsets(cluster: Cluster, group: str, topics: Iterable[str]) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets --to-earliest --execute` does."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for topic in topics for number in range(1)]
        consumer.assign(partitions)
        await consumer.commit(await consumer.beginning_offsets(partitions))
    finally:
        await consumer.stop()


DISASTERS: Final[dict[str, Callable[[Site], Outcome]]] = {
    "store-lost": store_lost,
    "kafka-lost": kafka_lost,
    "snapshots-lost": snapshots_lost,
    "backup-restored": backup_restored,
    "rules-mended": rules_mended,
}


def run_disaster(name: str, bootstrap: str, dsn: str, folder: Path, incidents: int = INCIDENTS) -> bool:
    """Run a disaster and print its table; true when every count is as documented."""
    with ExitStack() as stack:
        before, after, expects = DISASTERS[name](Site(stack, bootstrap, dsn, folder, incidents))
    wanted = before | expects
    print(f"\n{name}: {(DISASTERS[name].__doc__ or '').strip()}")
    for what in before:
        mark = "as documented" if after[what] == wanted[what] else f"DIFFERS: {wanted[what]} expected"
        print(f"  {what:<14}{before[what]:>6} before {after[what]:>6} after   {mark}")
    return after == wanted


def main(names: list[str]) -> int:
    """All of them, or those of these names; the exit code."""
    with tempfile.TemporaryDirectory(prefix="epicenter-disaster-") as folder:
        work = Path(folder)
        with dev_broker(work / "kafka") as broker, dev_clickhouse(work / "store") as store:
            passed = [run_disaster(name, broker.bootstrap, store.dsn, work) for name in names or DISASTERS]
            return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
