from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.ingest.provenance.path import origin_of
from epicenter.rules.model.job_names import is_named_job


@pytest.mark.parametrize(
    ("path", "job"),
    [
        ("slurm-7877.out", "7877"),
        ("slurm-7877.out.1", "7877"),
        ("slurm-7877_3.out", "7877_3"),
        ("7877.out", "7877"),
        ("7877.0.err", "7877"),
        ("7877-llama.log", "7877"),
        ("7877-llama/ray.log", "7877"),
        ("llama-7b-7877.out", "7877"),
        ("outputs/7877/log.txt", "7877"),
        ("job-7877/rank3.log", "7877"),
        ("llama-7877/rank3.log", "7877"),
        ("job-7877/node0007/worker.log", "7877"),
        ("7877_x1y2z3w4/attempt_0/3/stderr.log", "7877"),
        ("run-7877_ab12cd34/attempt_0/3/stderr.log", "7877"),
        ("llama.7b_7877_ab12cd34/attempt_1/0/stdout.log", "7877"),
        ("7877/gpux-8123/rank3.log", "7877"),
        ("7877/llama-8123/rank3.log", "7877"),
        ("job-7877/llama-8123/attempt_0/3/stderr.log", "7877"),
        ("7877/llama-8123/logs/rank3.log", "7877"),
        ("7877/night/llama-8123/rank3.log", "8123"),
        ("night/llama-8123/rank3.log", "8123"),
        ("outputs/7877/slurm-7878.out", "7878"),
        ("runs/pretrain-7b-3f2a91/h100-pool-22lj.log", "pretrain-7b-3f2a91"),
        ("runs/pretrain-7b-3f2a91/dgx-b10-01.r00032.log", "pretrain-7b-3f2a91"),
        ("n1/ml_llama-7b-worker-3_11afd6dd-6a05-4af3-ade9-daabe6449f03/pytorch/0.log", "llama-7b"),
        (f"n1/llama-7b-0-x7k2p_ml_pytorch-{'5e' * 32}.log", "llama-7b"),
        (f"n1/llama-7b-0-x7k2p_ml_pytorch-{'5e' * 32}.log.20260302-090005", "llama-7b"),
        (f"n1/llama-7b-0-x7k2p_ml_pytorch-{'5e' * 32}.log.20260302-090005.gz", "llama-7b"),
    ],
)
def test_the_job_is_read_from_the_nearest_name(path: str, job: str) -> None:
    origin = origin_of(Path("logs", path), Path("logs"))
    assert (origin.job, is_named_job(origin.job)) == (job, True)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("11-kubectl-describe.txt", "11-kubectl-describe"),
        ("train.log", "train"),
        ("train-2026.log", "train-2026"),
        ("2026-03-02.log", "2026-03-02"),
        ("20260302.out", "20260302"),
        ("app-12345.log", "app-12345"),
        ("rank3.log", "logs"),
        ("night/rank3.log", "night"),
        ("night/hgx0301.r00014.log", "night"),
        ("night/hgx0301.launcher.log", "night"),
        ("pretrain-7b-3f2a91/out.log", "out"),
        ("night/node0007/worker.log", "night"),
        ("night/attempt_0/3/stderr.log", "night"),
        ("night/logs/rank3.log", "night"),
        ("none_ab12cd34/attempt_0/3/stderr.log", "none_ab12cd34"),
        ("none_12345_ab12cd34/attempt_0/3/stderr.log", "none_12345_ab12cd34"),
        ("0123.log", "0123"),
        ("000017/train.log", "train"),
    ],
)
def test_without_a_job_the_lines_have_the_log_s_name(path: str, name: str) -> None:
    origin = origin_of(Path("logs", path), Path("logs"))
    assert (origin.job, is_named_job(origin.job), origin.is_of_a_job) == (f"log:{name}", False, False)


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("node0007/worker.log", "node0007"),
        ("gpu-a-12.log", "gpu-a-12"),
        ("worker-3.log", ""),
        ("ip-10-0-3-17/kern.log", "ip-10-0-3-17"),
        ("7877/h100-017.cluster.example/rank_3.log", "h100-017.cluster.example"),
        ("ip-10-0-3-17.dmesg", "ip-10-0-3-17"),
        (f"gke-pool-1a2b-k7xq9z/var/log/containers/llama-7b-0_ml_pytorch-{'5e' * 32}.log", "gke-pool-1a2b-k7xq9z"),
        ("night/hgx0301.r00014.log", "hgx0301"),
        ("night/hgx0301.launcher.log", "hgx0301"),
        ("night/r15n01.dc2.r00003.log", "r15n01.dc2"),
        ("night/a3mega-65wq.log", "a3mega-65wq"),
        ("night/gke-train-h100-pool-3f2a91bc-hhcg.log", "gke-train-h100-pool-3f2a91bc-hhcg"),
        ("night/a100-eval2.log", ""),
        ("night/llama-13b.log", ""),
        ("seat3b/var/log/train/out.log", "seat3b"),
        ("rootfs/var/log/train/out.log", ""),
        ("7877/var/log/train/out.log", ""),
        ("kern-node17.log", "node17"),
        ("dgx-56.kern.log", "dgx-56"),
        ("dmesg-xid13.log", ""),
        ("dgx-56_dmesg.txt", "dgx-56"),
        ("alpha7.dmesg", "alpha7"),
        ("alpha7.kern.log", "alpha7"),
        ("alpha.dmesg", ""),
        ("r12n04/kern.log", "r12n04"),
        ("node0007/node0008.log", "node0008"),
        ("nodes/alpha-x7k2/var/log/app.log", "alpha-x7k2"),
        ("hosts/alpha/job-7877/app.log", "alpha"),
        ("nodes/logs/app.log", ""),
        ("nodes/7877/app.log", ""),
        ("kern-node17.log-20260302.gz", "node17"),
        (
            "gke-a3-pool-6cc0-bhbx/var/log/pods/ml_llama-worker-3_11afd6dd-6a05-4af3-ade9-daabe6449f03/pytorch/0.log",
            "gke-a3-pool-6cc0-bhbx",
        ),
        ("a3mega-x7k2p/var/lib/docker/containers/5e1f/5e1f-json.log", "a3mega-x7k2p"),
        ("backup/var/log/pods/ml_llama-worker-3_11afd6dd-6a05-4af3-ade9-daabe6449f03/pytorch/0.log", ""),
        ("gpu-off-bus-1602/worker.log", ""),
        ("gpu3.log", ""),
        ("dmesg-20260302.txt", ""),
        ("syslog", ""),
        ("train.log", ""),
    ],
)
def test_the_node_is_read_from_a_name(path: str, node: str) -> None:
    assert origin_of(Path("logs", path), Path("logs")).node == node


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank3.log", 3),
        ("night/hgx0301.r00014.log", 14),
        ("log_rank_3.txt", 3),
        ("rank-3/worker.log", 3),
        ("attempt_0/3/stderr.log", 3),
        ("node0007/attempt_0/3/stderr.log", None),
        ("local_rank3.log", None),
        ("crank3x.log", None),
        ("train.log", None),
    ],
)
def test_the_rank_is_read_from_a_name(path: str, rank: int | None) -> None:
    assert origin_of(Path("logs", path), Path("logs")).rank == rank


@pytest.mark.parametrize("name", ["kern.log", "kern.log.1", "dmesg.txt", "syslog", "slurmctld.log", "journal.txt"])
def test_the_log_of_a_machine_is_of_no_job(name: str) -> None:
    origin = origin_of(Path("7877", name), Path("7877"))
    assert (origin.job, origin.is_system) == ("", True)


def test_only_the_log_of_all_tasks_is_of_a_job() -> None:
    whole, part = (origin_of(Path("logs", name), Path("logs")) for name in ("slurm-7877.out", "job-7877/rank3.log"))
    assert (whole.is_of_a_job, part.is_of_a_job) == (True, False)


def test_folders_above_the_given_one_are_ignored() -> None:
    origin = origin_of(Path("job-7877/node0007/logs/a.log"), Path("job-7877/node0007/logs"))
    assert not is_named_job(origin.job)


def test_a_single_file_is_read_with_the_folders_above_it() -> None:
    file = Path("job-7877/node0007/worker.log")
    origin = origin_of(file, file)
    assert (origin.job, origin.node) == ("7877", "node0007")


@pytest.mark.parametrize(
    ("files", "node"),
    [
        pytest.param(["alpha/job-7877.log", "beta/job-7877.log"], "alpha", id="log-of-one-job-in-two-folders"),
        pytest.param(["alpha/kern.log", "beta/kern.log"], "alpha", id="system-log-in-two-folders"),
        pytest.param(["7877/alpha/rank_0.log", "7877/beta/rank_8.log"], "alpha", id="ranks-of-a-job-in-two-folders"),
        pytest.param(
            ["7877/a-x7k2/attempt_0/1/stderr.log", "7877/a-b9d3/torchrun.log"], "a-x7k2", id="torchrun-s-logs"
        ),
        pytest.param(["7877/a-x7k2/torchrun.log", "7877/a-x7k2/attempt_0/x", "7877/a-b9d3/x"], "a-x7k2", id="torchrun"),
        pytest.param(["7877/a-x7k2/notes.log", "7877/a-b9d3/notes.log"], "", id="no-launcher"),
        pytest.param(["7877/a/attempt_0/1/stderr.log", "7877/b/attempt_0/1/stderr.log"], "", id="two-launches"),
        pytest.param(
            ["7877/run-1/attempt_0/1/stderr.log", "7877/run-2/attempt_0/1/stderr.log"], "", id="runs-of-torchrun"
        ),
        pytest.param(["7877/a-x7k2/attempt_0/1/stderr.log"], "", id="the-only-launch"),
        pytest.param(["a-x7k2/attempt_0/1/stderr.log", "a-b9d3/attempt_0/1/stderr.log"], "", id="launches-of-no-job"),
        pytest.param(["7877/alpha/rank_0.log", "7877/beta/rank_0.log"], "", id="the-same-rank-in-two-runs"),
        pytest.param(["night/alpha/rank_0.log", "night/beta/rank_8.log"], "", id="ranks-of-no-job"),
        pytest.param(["7877/alpha/rank_0.log", "7877/beta/notes.log"], "", id="no-other-ranks"),
        pytest.param(["alpha/job-7877.log", "beta/job-7878.log"], "", id="two-jobs"),
        pytest.param(["alpha/train.log", "beta/train.log"], "", id="two-runs"),
        pytest.param(["rank_0/job-7877.log", "rank_1/job-7877.log"], "", id="folders-of-ranks"),
        pytest.param(["worker-0/job-7877.log", "worker-1/job-7877.log"], "", id="folders-of-processes"),
        pytest.param(["2026-03-01/kern.log", "2026-03-02/kern.log"], "", id="folders-of-days"),
        pytest.param(["job-7877/kern.log", "job-7878/kern.log"], "", id="folders-of-jobs"),
        pytest.param(["3/kern.log", "4/kern.log"], "", id="numbers"),
        pytest.param(["logs/kern.log", "old/kern.log"], "", id="collection"),
        pytest.param(["job-7877.log", "beta/job-7877.log"], "", id="no-folder-of-its-own"),
    ],
)
def test_several_folders_with_the_log_of_one_job_are_its_nodes(tmp_path: Path, files: list[str], node: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert origin_of(tmp_path / files[0], tmp_path).node == node


@pytest.mark.parametrize(
    ("files", "who"),
    [
        pytest.param(["llama-7877-gpu-a-12.out"], ("7877", "gpu-a-12"), id="usual-name-of-a-node"),
        pytest.param(["llama_7b-7877_r12n04.log"], ("7877", "r12n04"), id="rack-and-number"),
        pytest.param(["llama-7877-alpha7.out", "llama-7877.out"], ("7877", "alpha7"), id="file-of-the-whole-job"),
        pytest.param(["llama-7877-alpha7.out"], ("log:llama-7877-alpha7", ""), id="another-name"),
        pytest.param(["llama-7877-alpha7.out", "llama-7877.log"], ("log:llama-7877-alpha7", ""), id="another-suffix"),
        pytest.param(["run-2026-gpu-a-12.out"], ("log:run-2026-gpu-a-12", ""), id="year"),
        pytest.param(["llama-7877-worker-3.out", "llama-7877.out"], ("log:llama-7877-worker-3", ""), id="one-process"),
        pytest.param(["llama-0787-gpu-a-12.out"], ("log:llama-0787-gpu-a-12", ""), id="leading-zero"),
    ],
)
def test_a_file_for_each_node_names_the_job_and_the_node(
    tmp_path: Path, files: list[str], who: tuple[str, str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    origin = origin_of(tmp_path / files[0], tmp_path)
    assert (origin.job, origin.node, origin.is_of_a_job) == (*who, False)


@pytest.mark.parametrize(
    ("files", "job"),
    [
        pytest.param(["node0007/train-7877.log", "slurm-7877.out"], "7877", id="log-of-its-batch-script"),
        pytest.param(["node0007/train-7877.log", "node0008/train-7877.log"], "7877", id="on-two-nodes"),
        pytest.param(["node0007/nccl-7877.log", "node0008/nccl-7878.log"], "", id="process-ids"),
        pytest.param(["node0007/train-7877.log", "node0007/slurm-7878.out"], "", id="another-job"),
        pytest.param(["node0007/train-2026.log", "node0008/train-2026.log"], "", id="year"),
        pytest.param(["2026-03-01/train-7877.log", "2026-03-02/train-7877.log"], "", id="days"),
    ],
)
def test_a_number_in_the_name_of_a_node_s_file_is_the_job_where_another_file_names_it(
    tmp_path: Path, files: list[str], job: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    origin = origin_of(tmp_path / files[0], tmp_path)
    assert (origin.job if is_named_job(origin.job) else "") == job


@pytest.mark.parametrize(
    ("files", "node"),
    [
        pytest.param(["alpha7.log", "alpha8.log"], "alpha7", id="numbers"),
        pytest.param(["alpha-x7k2p1.log", "alpha-b9d3f2.log"], "alpha-x7k2p1", id="suffixes"),
        pytest.param(["alpha7.dc2.log", "alpha8.dc2.log"], "alpha7.dc2", id="with-the-domain"),
        pytest.param(["alpha7.log"], "", id="only-file"),
        pytest.param(["node-pool-a7.log", "node-pool-b-8.log"], "", id="different-names"),
        pytest.param(["alpha7.log", "alpha8.err"], "", id="another-suffix"),
        pytest.param(["shard7.log", "shard8.log"], "", id="shards"),
        pytest.param(["train_attempt7.log", "train_attempt8.log"], "", id="attempts"),
        pytest.param(["run-7.log", "run-8.log"], "", id="runs"),
        pytest.param(["alpha.log", "alpher.log"], "", id="no-number"),
    ],
)
def test_files_of_a_job_that_differ_in_their_last_part_are_of_one_node_each(
    tmp_path: Path, files: list[str], node: str
) -> None:
    (tmp_path / "job-7877").mkdir()
    for name in files:
        (tmp_path / "job-7877" / name).touch()
    origin = origin_of(tmp_path / "job-7877" / files[0], tmp_path)
    assert (origin.job, origin.node, origin.is_of_a_job) == ("7877", node, not node)
