"""Which job runs on which node, and which rank on which GPU, at each time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import orjson
import pytest

from epicenter.rules.engine import Engine
from epicenter.rules.model.records import RankPlacement
from epicenter.rules.placement.completion import completed, nodes_of
from epicenter.rules.placement.placement import MAX_KEPT_VERSIONS, Placement
from tests.support.logs import a_scanner, at, batch, iso, the_rules, vector
from tests.support.signals import a_match, a_signal, alive, an_xid

HOUR_S = 3600


def a_rank_placement(second: float, node: str, rank: int | None = None, job: str = "A", **more: Any) -> RankPlacement:
    return RankPlacement(at(second), "c", job, node, rank, **more)


def placed(*rank_placements: RankPlacement) -> Placement:
    placement = Placement()
    for rank_placement in sorted(rank_placements, key=RankPlacement.order):
        placement.record(rank_placement)
    return placement


def test_a_rank_is_found_by_its_gpu_or_local_rank_and_its_node_by_the_rank() -> None:
    placement = placed(
        a_rank_placement(0, "n1", 0, world_size=4, gpu="0000:61:00", local_rank=0),
        a_rank_placement(0, "n2", 3, world_size=4, gpu="0000:61:00", local_rank=1),
    )
    assert placement.node_of("c", "A", 3, at(9)) == "n2"
    assert placement.rank_of("c", "A", "n2", at(9), gpu="0000:61:00") == 3
    assert placement.rank_of("c", "A", "n1", at(9), local_rank=0) == 0
    assert placement.world_size("c", "A", at(9)) == 4
    assert placement.nodes_by_rank("c", "A", at(9)) == {0: "n1", 3: "n2"}
    assert placement.rank_of("c", "A", "n2", at(9), gpu="0000:62:00") is None
    assert placement.node_of("c", "B", 3, at(9)) == placement.node_of("other", "A", 3, at(9)) == ""


def test_without_a_banner_a_rank_is_where_it_reports_steps() -> None:
    placement = placed(a_rank_placement(0, "n1", 0))
    for rank, node in ((0, "n9"), (3, "n2"), (3, "n2"), (4, "n2"), (4, "n3")):
        placement.record_reporter("c", "A", rank, node)
    placement.record_reporter("c", "unknown", 5, "n2")
    assert [placement.node_of("c", "A", rank, at(9)) for rank in (0, 3, 4, 5)] == ["n1", "n2", "", ""]
    assert placement.nodes_by_reporter("c", "A") == {0: "n9", 3: "n2"}


def test_after_a_restart_old_lines_are_read_by_the_old_map() -> None:
    placement = placed(
        a_rank_placement(0, "n1", 0, gpu="g0"),
        a_rank_placement(0, "n1", 1, gpu="g1"),
        a_rank_placement(100, "n2", 0, gpu="g0"),
        a_rank_placement(0, "n1", world_size=2, is_start=True),
        a_rank_placement(100, "n2", world_size=1, is_start=True),
    )
    assert [placement.node_of("c", "A", 0, at(second)) for second in (-5, 0, 99, 100, 500)] == ["n1"] * 3 + ["n2"] * 2
    assert placement.rank_of("c", "A", "n1", at(50), gpu="g0") == 0
    assert placement.rank_of("c", "A", "n1", at(150), gpu="g0") is None
    assert [placement.world_size("c", "A", at(second)) for second in (50, 150)] == [2, 1]


def test_banners_of_several_sources_add_up() -> None:
    placement = placed(
        a_rank_placement(0, "n1", 9, local_rank=1), a_rank_placement(1, "n1", 9, gpu="g1", world_size=16)
    )
    assert placement.rank_of("c", "A", "n1", at(0), gpu="g1") == 9
    assert placement.rank_of("c", "A", "n1", at(9), local_rank=1) == 9


@pytest.mark.parametrize("first", [0, 5], ids=["the-part-first", "the-world-first"])
def test_ranks_of_a_smaller_communicator_are_no_ranks_of_the_job(first: int) -> None:
    part = [
        a_rank_placement(first, "n2", 0, world_size=8, gpu="g0"),
        a_rank_placement(first, "n1", 0, world_size=8, gpu="g0"),
    ]
    world = [
        a_rank_placement(2, "n1", 0, world_size=16, gpu="g0"),
        a_rank_placement(2, "n2", 8, world_size=16, gpu="g0"),
    ]
    placement = placed(*part, *world)
    assert placement.world_size("c", "A", at(9)) == 16
    assert placement.rank_of("c", "A", "n2", at(9), gpu="g0") == 8
    assert placement.node_of("c", "A", 0, at(9)) == "n1"


def test_an_address_is_resolved_to_its_node() -> None:
    placement = placed(a_rank_placement(0, "10.1.0.9", 3, local_rank=1), a_rank_placement(1, "n2", address="10.1.0.9"))
    assert placement.node_of("c", "A", 3, at(2)) == "n2"
    assert placement.rank_of("c", "A", "n2", at(2), local_rank=1) == 3


def test_a_banner_that_ray_s_driver_passes_on_is_about_the_host_that_it_names() -> None:
    banner = "n2:2211:2801 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.9<0>"
    lines = [vector("head", 0, f"(RayTrainWorker pid=2211, ip=10.1.0.9) {banner}", "A"), vector("n2", 1, banner, "A")]
    rank_placements = [
        rank_placement
        for line in lines
        for rank_placement in a_scanner().scan(batch([line])).rank_placements
        if rank_placement.address
    ]
    assert [(rank_placement.node, rank_placement.address) for rank_placement in rank_placements] == [
        ("n2", "10.1.0.9")
    ] * 2


@pytest.mark.parametrize(
    "line",
    [
        "dhclient[811]: DHCPACK of 10.1.0.9 from 10.1.0.1 (xid=0x1f2a)",
        "NetworkManager[902]: <info>  [1772442001.1203] dhcp4 (eth0): state changed new lease, address=10.1.0.9",
    ],
)
def test_the_lease_of_an_address_shows_whose_it_is(line: str) -> None:
    record = orjson.dumps({"timestamp": iso(1), "host": "n2", "message": f"Mar  2 09:00:01 n2 {line}"})
    (lease,) = a_scanner().scan(batch([record])).rank_placements
    assert (lease.node, lease.address, lease.job) == ("n2", "10.1.0.9", "")


@pytest.mark.parametrize(
    "line",
    [
        "   NodeAddr=10.1.0.9 NodeHostName=n2 Version=23.11.4",
        "[{'NodeManagerAddress': '10.1.0.9', 'NodeManagerHostname': 'n2', 'NodeManagerPort': 41001}]",
        "Node n2 (10.1.0.9) joined the cluster",
    ],
)
def test_a_line_that_names_a_node_and_its_address_is_about_that_node(line: str) -> None:
    found = a_scanner().scan(batch([vector("head", 1, line, "A")])).rank_placements
    assert [(named.node, named.address) for named in found if named.address] == [("n2", "10.1.0.9")]


def test_lines_of_ray_about_another_address_happened_there() -> None:
    placement = placed(a_rank_placement(0, "n2", address="10.1.0.9"))
    for head in ("(raylet, ip=10.1.0.9) ", "(RayTrainWorker pid=2211, ip=10.1.0.9) "):
        signal = a_signal("ray-worker-died", 1, "head", text=f"{head}A worker died", cluster="c")
        assert completed(signal, placement).node == "n2"


def test_an_address_may_move_to_another_node() -> None:
    placement = placed(
        a_rank_placement(0, "10.1.0.9", 3, gpu="g0"),
        *(a_rank_placement(n, f"n{n}", address="10.1.0.9") for n in (1, 2, 2)),
    )
    assert placement.node_of("c", "A", 3, at(5)) == "n2"
    assert placement.rank_of("c", "A", "n1", at(5), gpu="g0") is None
    assert placement.addresses_by_node == {"c/n2": ["10.1.0.9"]}


def test_jobs_of_a_node_are_those_placed_there_at_a_time() -> None:
    placement = Placement()
    assert [placement.observe("c", "n1", "A", at(0)), placement.observe("c", "n1", "A", at(5))] == [True, False]
    placement.observe("c", "n1", "B", at(600))
    assert placement.jobs_on("c", "n1", at(10)) == {"A"}
    assert placement.jobs_on("c", "n1", at(600)) == {"A", "B"}
    placement.observe("c", "n1", "B", at(HOUR_S + 10))
    assert placement.jobs_on("c", "n1", at(HOUR_S + 10)) == {"B"}
    assert placement.jobs_on("c", "n2", at(0)) == set()
    assert placement.nodes_of("c", "B", at(HOUR_S)) == ("n1",)
    assert placement.nodes_of("c", "B", at(599)) == ()
    assert placement.nodes_of("c", "C", at(HOUR_S)) == ()


def test_placements_without_lines_for_a_day_are_forgotten() -> None:
    placement = placed(a_rank_placement(0, "n1", 0, gpu="g0"))
    placement.observe("c", "n1", "A", at(0))
    placement.observe("c", "n2", "B", at(23 * HOUR_S))
    assert set(placement.by_job) == {"c/A", "c/B"}
    placement.observe("c", "n2", "B", at(25 * HOUR_S))
    assert set(placement.by_job) == {"c/B"}
    assert set(placement.seen_by_node) == {"c/n2"}


def test_versions_of_a_rank_are_bounded_and_absurd_ranks_ignored() -> None:
    placement = placed(
        *(a_rank_placement(number, f"n{number}", 0) for number in range(100)), a_rank_placement(0, "n1", 10**6)
    )
    assert len(placement.by_job["c/A"].versions_by_rank[0]) == MAX_KEPT_VERSIONS
    assert set(placement.by_job["c/A"].versions_by_rank) == {0}


def test_a_snapshot_holds_the_whole_placement() -> None:
    placement = placed(
        a_rank_placement(0, "n1", 0, gpu="g0", world_size=2), a_rank_placement(1, "n2", address="10.0.0.1")
    )
    placement.observe("c", "n1", "A", at(0))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(placement), type=Placement) == placement


PLACED = placed(
    a_rank_placement(0, "n1", 3, gpu="0000:9a:00"),
    a_rank_placement(0, "n2", 7),
    a_rank_placement(0, "n9", address="10.1.0.9"),
)
PLACED.observe("c", "n1", "A", at(0))


@pytest.mark.parametrize(
    ("given", "node", "rank"),
    [
        pytest.param({"node": "n1", "gpu": "0000:9a:00", "source": "kernel"}, "n1", 3, id="gpu-of-a-kernel-line"),
        pytest.param({"node": "n1", "gpu": "0000:1b:00", "source": "kernel"}, "n1", None, id="gpu-of-no-rank"),
        pytest.param({"node": "", "job": "A", "rank": 7}, "n2", 7, id="node-of-a-rank"),
        pytest.param({"node": "", "job": "A", "text": "/job:jax_worker/replica:0/task:7"}, "n2", 7, id="jax-task"),
        pytest.param(
            {"node": "n1", "job": "A", "text": "/job:w/replica:0/task:7 /job:w/replica:0/task:8"}, "n1", None, id="two"
        ),
        pytest.param({"node": "login", "fields": {"nodes": "n[2-3]", "tasks": "0,2-4"}}, "n2", None, id="srun-list"),
        pytest.param({"node": "n2", "fields": {"node": "n2", "tasks": "7"}}, "n2", 7, id="srun-one-task"),
        pytest.param({"node": "n1", "text": "(RayTrainWorker pid=9, ip=10.1.0.9) died"}, "n9", None, id="ray"),
        pytest.param({"node": "n1", "rank": 1}, "n1", 1, id="nothing-to-add"),
    ],
)
def test_a_signal_gets_what_its_line_leaves_out(given: dict[str, Any], node: str, rank: int | None) -> None:
    found = completed(a_signal("hang", 1, cluster="c", **given), PLACED)
    assert (found.node, found.rank) == (node, rank)


def test_all_nodes_of_a_list_are_named() -> None:
    signal = completed(a_signal("sigkill", 1, "login", fields={"nodes": "node[0001,0003-0004]"}), PLACED)
    assert nodes_of(signal) == ("node0001", "node0003", "node0004")
    assert nodes_of(a_signal("sigkill", 1, "n1", fields={"nodes": "n["})) == ("n1",)


def nccl(node: str, rank: int, device: int, bus: str, world: int = 16) -> str:
    who = f"ncclCommInitRank comm 0x55d00003a9c0 rank {rank} nranks {world} cudaDev {device} nvmlDev {device}"
    return f"{node}:991:1203 [{device}] NCCL INFO {who} busId {bus} commId 0xb886029f29f1a815 - Init COMPLETE"


BANNERS = [
    pytest.param([nccl("n7", 11, 3, "61000")], [("n7", 11, None, "0000:61:00", 16)], id="nccl"),
    pytest.param([nccl("n7", 11, 3, "10061000")], [("n7", 11, None, "0100:61:00", 16)], id="nccl-domain"),
    pytest.param(
        ["  global_ranks=[8, 9]", "  global_world_sizes=[16, 16]"],
        [("n1", None, None, "", 16), ("n1", 8, 0, "", None), ("n1", 9, 1, "", None)],
        id="torchrun",
    ),
    pytest.param(["Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16"], [("n1", 3, None, "", 16)], id="lightning"),
    pytest.param(
        ["(TrainController pid=22) - (ip=10.1.0.9, pid=41) world_rank=11, local_rank=3, node_rank=1"],
        [("10.1.0.9", 11, 3, "", None)],
        id="ray",
    ),
    pytest.param(
        ["Num processes: 16", "Process index: 5"],
        [("n1", None, None, "", 16), ("n1", 5, None, "", None)],
        id="accelerate",
    ),
    pytest.param(
        ["SLURM_JOB_NODELIST: gpu-a-[1-2]"],
        [("gpu-a-1", None, None, "", None), ("gpu-a-2", None, None, "", None)],
        id="slurm",
    ),
    pytest.param(
        [
            "I0302 09:00:01.200000 1570 coordination_service_agent.cc:391] /job:jax_worker/replica:0/task:4 has"
            " connected to coordination service. Incarnation: 7414"
        ],
        [("n1", 4, None, "", None)],
        id="jax",
    ),
]


@pytest.mark.parametrize(("lines", "rank_placements"), BANNERS)
def test_banners_place_ranks(
    lines: list[str], rank_placements: list[tuple[str, int | None, int | None, str, int | None]]
) -> None:
    found = a_scanner().scan(batch([vector("n1", 0, line, job="A") for line in lines])).rank_placements
    counted = Counter(
        (placement.node, placement.rank, placement.local_rank, placement.gpu, placement.world_size)
        for placement in found
        if not placement.pod and not placement.moment
    )
    assert counted == Counter(rank_placements)
    assert {placement.job for placement in found} == {"A"}


def test_a_kernel_line_joins_its_job_and_names_its_rank() -> None:
    """The NCCL banner gives the GPU of rank 11; the kernel's Xid ten minutes later names only its PCI address."""
    engine = Engine(the_rules())
    scanned = a_scanner().scan(batch([vector("n7", 0, nccl("n7", 11, 3, "9a000"), job="A")]))
    engine.add([an_xid(79, 600, "n7", pci="0000:9a:00")], [alive(590, "A", "n7")], scanned.rank_placements)
    (incident,) = engine.flush()
    assert (incident.jobs, incident.root_cause.rank, incident.root_cause.node) == (("A",), 11, "n7")


def test_a_list_of_nodes_counts_for_all_of_them() -> None:
    engine = Engine(the_rules())
    fields = {"nodes": "node[0001,0003]", "tasks": "0,2-4", "exit_code": "1"}
    engine.add([a_match("slurm.task_exit", 1, "login", "A", fields=fields)])
    (incident,) = engine.flush()
    assert incident.nodes == ("node0001", "node0003")
    assert incident.root_cause.node == "node0001"


def test_unknown_numbers_of_a_rank_placement_are_written_and_read_as_none() -> None:
    unknown = a_rank_placement(1, "n1")
    written = unknown.written()
    assert (written.rank, written.local_rank, written.world_size) == (-1, -1, 0)
    placed = a_rank_placement(1, "n1", 0, local_rank=0, world_size=8)
    assert [placed.written().read(), written.read()] == [placed, unknown]
    assert placed.written() == placed


def test_a_rank_placement_that_waits_in_a_snapshot_is_the_same_afterwards() -> None:
    first, second = Engine(the_rules()), Engine(the_rules())
    for engine in (first, second):
        engine.add((), (), [a_rank_placement(1, "n1", gpu="g0"), a_rank_placement(2, "n1", 3, gpu="g1", world_size=8)])
    snapshot = msgspec.msgpack.decode(first.snapshot())
    assert [
        (rank_placement[4], rank_placement[5], rank_placement[7]) for *_, rank_placement in snapshot["waiting"]
    ] == [
        (-1, -1, 0),
        (3, -1, 8),
    ]
    restored = Engine(the_rules(), first.snapshot())
    assert restored.flush() == second.flush()
    assert restored.snapshot() == second.snapshot()


def test_a_job_that_ended_has_left_its_node_for_the_next_one() -> None:
    placement = Placement()
    placement.observe("c", "n1", "old", at(0))
    placement.end("c", "old", at(10))
    assert placement.jobs_on("c", "n1", at(300)) == {"old"}
    placement.observe("c", "n1", "new", at(200))
    assert placement.jobs_on("c", "n1", at(300)) == {"new"}
    placement.observe("c", "n1", "old", at(290))
    assert placement.jobs_on("c", "n1", at(300)) == {"old", "new"}


def test_a_job_that_is_quiet_since_another_began_on_its_node_has_left_it() -> None:
    placement = Placement()
    placement.observe("c", "n1", "old", at(0))
    placement.observe("c", "n1", "new", at(60))
    assert placement.jobs_on("c", "n1", at(590)) == {"old", "new"}
    assert placement.jobs_on("c", "n1", at(700)) == {"new"}
    assert [placement.has_left("c", "old", at(700), node) for node in ("n1", "n2", "")] == [True, False, False]
    placement.observe("c", "n2", "old", at(690))
    assert placement.jobs_on("c", "n1", at(700)) == {"old", "new"}


@pytest.mark.parametrize(
    ("world_size", "nodes", "ranks"), [(16, ("n1", "n2"), 8), (None, ("n1",), 1), (None, (), 1), (4, ("n1",), 4)]
)
def test_how_many_ranks_a_node_has(world_size: int | None, nodes: tuple[str, ...], ranks: int) -> None:
    placement = placed(a_rank_placement(0, "n1", 3, world_size=world_size))
    for node in nodes:
        placement.observe("c", node, "A", at(1))
    assert placement.ranks_on("c", "A", "n1") == ranks
    assert placement.ranks_on("c", "unknown", "n1") == 0


def test_a_job_that_only_a_scheduler_lists_is_on_no_node_until_it_logs() -> None:
    placement = Placement()
    placement.list_node(a_rank_placement(0, "n1", is_listed=True, is_allocated=True))
    assert placement.jobs_on("c", "n1", at(1)) == set()
    placement.observe("c", "n2", "A", at(2))
    assert placement.jobs_on("c", "n1", at(3)) == {"A"}


@pytest.mark.parametrize(
    ("listed", "with_lines", "node"),
    [
        pytest.param(["n1"], [], "n1", id="only-in-a-list"),
        pytest.param(["n1"], ["n1"], "n1", id="with-lines"),
        pytest.param(["n1"], ["n2"], "", id="lines-of-another"),
        pytest.param(["n1", "n2"], [], "", id="two"),
        pytest.param([], ["n1"], "", id="no-list"),
    ],
)
def test_what_a_job_of_one_node_reports_without_a_node_is_there(
    listed: list[str], with_lines: list[str], node: str
) -> None:
    placement = Placement()
    for name in listed:
        placement.list_node(a_rank_placement(0, name, is_listed=True, is_allocated=True))
    for name in with_lines:
        placement.observe("c", name, "A", at(1))
    assert placement.only_listed_node("c", "A", at(2)) == node


ASSIGNED = "{} n0 kube-scheduler[1]: Successfully assigned ml/{} to n9"


@pytest.mark.parametrize(
    ("pod", "jobs"), [("A-worker-1", [("A",)]), ("grafana-x7k2p", [(), ("A",)])], ids=["of-the-job", "of-no-job"]
)
def test_a_node_with_a_pod_that_never_logged_is_of_the_pod_s_job(pod: str, jobs: list[tuple[str, ...]]) -> None:
    engine = Engine(the_rules())
    engine.add(a_scanner().scan(batch([ASSIGNED.format(iso(1), pod).encode()])).observed)
    lost = a_match("kernel.hard_lockup", 60, "n9", source="kernel")
    failed = a_match("elastic.first_failure", 150, "n1", "A")
    engine.add([lost, failed], [alive(0, "A", "n1"), alive(0, "A", "n2"), alive(140, "A", "n1")])
    newest = {incident.incident_id: incident for incident in engine.flush()}.values()
    assert sorted(incident.jobs for incident in newest) == jobs
