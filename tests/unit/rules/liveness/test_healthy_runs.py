"""Runs without a failure, as each framework prints them with eight ranks: they have steps, and no finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from epicenter.rules.model.heartbeats import Step
from tests.support.logs import a_scanner, batch, the_rules

RANKS = range(8)
STEPS = (1, 2, 3, 4, 5, 6)
NO_FINDING_ROLES = {"finished", "advice"}
"""Roles of matches that are no finding."""
SITE = "/opt/env/lib/python3.12/site-packages"
CLOCK = "2026-03-02 09:00:"


def by_rank(prefix: str, text: str) -> list[str]:
    """The line of every rank; `prefix` may hold `{rank}`."""
    return [prefix.format(rank=rank) + text for rank in RANKS]


def torchrun_start() -> Iterator[str]:
    yield "W0302 09:00:00.120000 4100 torch/distributed/run.py:792] "
    yield "W0302 09:00:00.120000 4100 torch/distributed/run.py:792] *****************************************"
    yield (
        "W0302 09:00:00.120000 4100 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for "
        "each "
        "process to be 1 in default, to avoid your system being overloaded, please further tune the variable for "
        "optimal performance in your application as needed. "
    )
    for rank in RANKS:
        yield f"gpu-a-12:{4120 + rank}:{4120 + rank} [{rank}] NCCL INFO Bootstrap: Using eth0:10.1.0.9<0>"
        yield f"gpu-a-12:{4120 + rank}:{4310 + rank} [{rank}] NCCL INFO NET/Plugin: Could not find: libnccl-net.so."
        yield (
            f"gpu-a-12:{4120 + rank}:{4310 + rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x55d0{rank:04x}a9c0 "
            f"rank {rank} nranks 8 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x8f3c1d2ab7e65d04 - Init "
            "COMPLETE"
        )


def megatron() -> Iterator[str]:
    yield from torchrun_start()
    yield "using world size: 8, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: 4"
    yield "  check_for_nan_in_loss_and_grad .................. True"
    yield "  distributed_timeout_minutes ..................... 10"
    yield "  exit_on_missing_checkpoint ...................... False"
    yield "WARNING: could not find the metadata file /ckpt/run7/latest_checkpointed_iteration.txt"
    yield "    will not load any checkpoints and will start from random"
    yield "(min, max) time across ranks (ms):"
    yield "    model-and-optimizer-setup ......................: (1811.20, 1822.91)"
    yield "[before the start of training step] datetime: 2026-03-02 09:00:02 "
    for step in STEPS:
        yield (
            f" [{CLOCK}{step:02d}] iteration {step:8d}/       6 | consumed samples: {256 * step:12d} | elapsed time "
            "per "
            "iteration (ms): 1010.4 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.000000E-05 | global "
            f"batch size:   256 | lm loss: {11 - step}.012000E+00 | loss scale: 1.0 | grad norm: 2.345 | number of "
            f"skipped iterations:   {int(step == 1)} | number of nan iterations:   0 |"
        )
        if step == 1:
            yield "Number of parameters in transformer block in billions:  6.48"
            yield (
                "[Rank 0] (after 1 iterations) memory (MB) | allocated: 41200.1 | max allocated: 61230.2 | "
                "reserved: 64512.0 | max reserved: 64512.0"
            )
    yield "saving checkpoint at iteration       6 to /ckpt/run7 in torch_dist format"
    yield "  successfully saved checkpoint from iteration       6 to /ckpt/run7 [ t 1/4, p 1/1 ]"
    yield " validation loss at iteration 6 | lm loss value: 5.101200E+00 | lm loss PPL: 1.642188E+02 | "
    yield "[after training is done] datetime: 2026-03-02 09:00:10 "
    yield (
        "[rank0]:[W302 09:00:11.120000000 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not "
        "called before program exit, which can leak resources."
    )


def deepspeed() -> Iterator[str]:
    yield (
        f"[{CLOCK}00,120] [INFO] [real_accelerator.py:239:get_accelerator] Setting ds_accelerator to cuda (auto detect)"
    )
    yield " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found."
    yield f"[{CLOCK}00,130] [INFO] [runner.py:607:main] cmd = /usr/bin/python3 -u -m deepspeed.launcher.launch train.py"
    for rank in RANKS:
        yield (
            f"[{CLOCK}00,140] [INFO] [launch.py:256:main] process {4120 + rank} spawned with command: "
            f"['/usr/bin/python3', '-u', 'train.py', '--local_rank={rank}']"
        )
    yield from by_rank("gpu-a-12: ", "Time to load cpu_adam op: 2.31 seconds")
    yield f"[{CLOCK}01,140] [INFO] [config.py:1005:print]   gradient_clipping ............ 1.0"
    for step in STEPS:
        if step < 3:
            yield (
                f"gpu-a-12: [{CLOCK}0{step},140] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 "
                f"Skipping step. Attempted loss scale: {65536 // step}, reducing to {32768 // step}"
            )
        yield (
            f"gpu-a-12: [{CLOCK}0{step},150] [INFO] [logging.py:107:log_dist] [Rank 0] step={step}, skipped=2, "
            "lr=[1.2e-05], mom=[(0.9, 0.95)]"
        )
        yield (
            f"gpu-a-12: [{CLOCK}0{step},150] [INFO] [timer.py:264:stop] "
            f"epoch=0/micro_step={4 * step}/global_step={step}, "
            "RunningAvgSamplesPerSec=101.2, CurrSamplesPerSec=103.4, MemAllocated=22.1GB, MaxMemAllocated=61.0GB"
        )
    yield (
        f"[{CLOCK}07,150] [WARNING] [stage3.py:2150:step] 1 pytorch allocator cache flushes since last step. this "
        "happens "
        "when there is high memory pressure and is detrimental to performance."
    )
    yield f"[{CLOCK}08,150] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step6 is ready now!"
    for rank in RANKS:
        yield f"[{CLOCK}09,150] [INFO] [launch.py:351:main] Process {4120 + rank} exits successfully."


def hf_trainer() -> Iterator[str]:
    yield from torchrun_start()
    yield from by_rank(
        "[RANK {rank}] ",
        "Detected kernel version 4.19.0, which is below the recommended minimum of 5.5.0; this can cause the process "
        "to "
        "hang. It is recommended to upgrade the kernel to the minimum version or higher.",
    )
    yield "Loading checkpoint shards: 100%|██████████| 4/4 [00:05<00:00,  1.31s/it]"
    yield "Some weights of the model checkpoint at base were not used when initializing LlamaForCausalLM: ['head.bias']"
    yield "Map (num_proc=16): 100%|██████████| 9000/9000 [00:02<00:00, 4100.20 examples/s]"
    yield (
        "Token indices sequence length is longer than the specified maximum sequence length for this model "
        "(5120 > 4096). Running this sequence through the model will result in indexing errors"
    )
    yield (
        f"{SITE}/torch/utils/checkpoint.py:460: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True."
    )
    yield "  warnings.warn("
    yield f"[INFO|trainer.py:2409] {CLOCK}01,120 >> ***** Running training *****"
    yield f"[INFO|trainer.py:2410] {CLOCK}01,120 >>   Num examples = 9,000"
    yield f"[INFO|trainer.py:2415] {CLOCK}01,120 >>   Total optimization steps = 6"
    yield "  0%|          | 0/6 [00:00<?, ?it/s]`use_cache=True` is incompatible with gradient checkpointing."
    for step in STEPS:
        yield (
            f" {step * 16}%|█▋        | {step}/6 [00:0{step}<00:05,  1.00s/it]{{'loss': {3 - step / 10}, 'grad_norm': "
            f"0.912, 'learning_rate': 1.9e-05, 'epoch': {step / 6:.2f}}}"
        )
        yield f"{{'loss': {3 - step / 10}, 'grad_norm': 0.912, 'learning_rate': 1.9e-05, 'epoch': {step / 6:.2f}}}"
    yield " 12%|█▏        | 6/50 [00:12<01:28,  2.00s/it]"
    yield "{'eval_loss': 2.31, 'eval_runtime': 20.11, 'eval_samples_per_second': 50.2, 'epoch': 1.0}"
    yield f"[INFO|trainer.py:4015] {CLOCK}08,120 >> Saving model checkpoint to ./out/checkpoint-6"
    yield "Training completed. Do not forget to share your model on huggingface.co/models =)"
    yield "{'train_runtime': 8.1, 'train_samples_per_second': 11.1, 'train_loss': 2.6, 'epoch': 1.0}"


def lightning() -> Iterator[str]:
    for rank in RANKS:
        yield f"[rank: {rank}] Seed set to 42"
        yield f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/8"
    yield "GPU available: True (cuda), used: True"
    yield "The `srun` command is available on your system but is not used. HINT: If your intention is to run with it"
    yield "SLURM auto-requeueing enabled. Setting signal handlers."
    yield (
        f"{SITE}/lightning/pytorch/trainer/connectors/data_connector.py:434: The 'train_dataloader' does not have many "
        "workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument to "
        "`num_workers=95` in the `DataLoader` to improve performance."
    )
    yield "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00,  4.10it/s]"
    for step in STEPS:
        yield f"Epoch 0:  {step * 16}%|█▋        | {step}/6 [00:0{step}<00:05,  1.00it/s, v_num=3, train_loss=2.310]"
    yield "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00,  4.10it/s]"
    yield (
        "Epoch 0, global step 6: 'val_loss' reached 2.31000 (best 2.31000), saving model to "
        "'/ckpt/epoch=0-step=6.ckpt' as top 1"
    )
    yield "`Trainer.fit` stopped: `max_steps=6` reached."
    yield "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f01aa00b420>"
    yield "wandb: Run summary:"


def nemo() -> Iterator[str]:
    yield from torchrun_start()
    yield from by_rank("[default{rank}]:", "[NeMo W 2026-03-02 09:00:00 nemo_logging:405] TransformerEngine was found")
    for step in STEPS:
        yield (
            f"[default0]:Training epoch 0, iteration {step}/6 | lr: 2.999e-06 | global_batch_size: 512 | global_step: "
            f"{step} "
            "| reduced_train_loss: 10.31 | train_step_timing in s: 6.021 | consumed_samples: 10240"
        )
    yield "[default0]:Validation: iteration 1/2"
    yield "[default0]:Async checkpoint save for step 6 (/ckpt/run7/step=6-last.ckpt) finalized successfully."
    yield "[default0]: Worst performing 3/8 ranks:"
    yield "[default0]:  Rank=3 Node=gpu-a-12 Score=0.97"
    yield "[default0]:`Trainer.fit` stopped: `max_steps=6` reached."


def torchtitan() -> Iterator[str]:
    yield from torchrun_start()
    head = f"[titan] {CLOCK}01,110 - root - "
    yield from by_rank("[rank{rank}]:", f"{head}INFO - Starting job: Llama 3 8B training")
    yield from by_rank(
        "[rank{rank}]:", f"{head}WARNING - ENV[TORCH_NCCL_ASYNC_ERROR_HANDLING] = 1 will be overridden to 3"
    )
    yield f"[rank0]:{head}INFO - No checkpoint was provided, this is a fresh start."
    for step in STEPS:
        for rank in RANKS:
            yield (
                f"[rank{rank}]:{head}INFO - \x1b[31mstep: {step:2}  \x1b[32mloss: {9 - step:8.5f}  \x1b[34mgrad_norm: "
                " 1.9100"
                "  \x1b[38;2;54;234;195mmemory: 60.20GiB(76.10%)  \x1b[34mtps: 7,321  \x1b[36mtflops: 423.90  mfu: "
                "42.86%\x1b[39m"
            )
    yield f"[rank0]:{head}INFO - validate step:  6  loss:  3.21234  memory: 60.20GiB(76.10%)  tps: 17,321"
    yield f"[rank0]:{head}INFO - Finished saving the checkpoint (or staging if async is enabled)in 5.53 seconds."
    yield f"[rank0]:{head}INFO - Training completed"


def nanogpt() -> Iterator[str]:
    yield from torchrun_start()
    yield "tokens per iteration will be: 491,520"
    yield "step 0: train loss 10.9000, val loss 10.9100"
    for step in STEPS:
        yield f"iter {step}: loss {11 - step}.1002, time 251.40ms, mfu {-100.0 if step < 5 else 41.0:.2f}%"
    yield "saving checkpoint to out-owt"


def llm_c() -> Iterator[str]:
    yield "| device                | NVIDIA H100 80GB HBM3                              |"
    for step in STEPS:
        yield (
            f"step    {step}/6 | loss 9.481021 (+nanz)| norm 3.1022 (+nanz)| lr 1.20e-05 | 1250.10 ms | 41.1% bf16 "
            "MFU | "
            "419000 tok/s"
        )
    yield "val loss 7.412"


def composer() -> Iterator[str]:
    yield from by_rank(f"{CLOCK}00,110: rank{{rank}}[4120][MainThread]: INFO: ", "composer.trainer: Run name: run7")
    yield "Config:"
    for step in STEPS:
        yield f"[batch={step}/6]:"
        yield "\t Train time/batch: 1"
        yield f"\t Train loss/train/total: {11 - step}.0120"
        yield "\t Train metrics/train/LanguageCrossEntropy: 10.9100"
    yield "[Eval batch=1/10] Eval on eval data"
    yield "Checkpoint saved to /ckpt/run7/ep0-ba6-rank0.pt"


def fairseq() -> Iterator[str]:
    yield f"{CLOCK}00 | INFO | fairseq.distributed.utils | distributed init (rank 0): tcp://localhost:12041"
    yield from by_rank(
        f"{CLOCK}00 | INFO | fairseq.utils | ", "rank   {rank}: capabilities =  9.0  ; total memory = 79.1 GB"
    )
    yield (
        f"{CLOCK}01 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss "
        "scale to: 64.0"
    )
    for step in STEPS:
        yield (
            f"{CLOCK}0{step} | INFO | train_inner | epoch 001:      {step} / 6 loss=11.834, nll_loss=11.424, "
            "ppl=2748.1, "
            f"wps=130000, ups=2.15, wpb=60700, bsz=1960, num_updates={step}, lr=1.0e-05, gnorm=1.448, loss_scale=64, "
            "wall=54"
        )
    yield (
        f"{CLOCK}08 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.12 | ppl 418.9 | num_updates 6 | "
        "best_loss inf"
    )
    yield (
        f"{CLOCK}09 | INFO | fairseq.checkpoint_utils | Saved checkpoint /ckpt/checkpoint_1_6.pt (epoch 1 @ 6 updates, "
        "score 9.1) (writing took 12.1 seconds)"
    )
    yield f"{CLOCK}09 | INFO | fairseq_cli.train | done training in 9.1 seconds"


def keras() -> Iterator[str]:
    yield (
        f"{CLOCK}00.110000: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN "
        "factory: Attempting to register factory for plugin cuDNN when one has already been registered"
    )
    yield (
        f"{CLOCK}00.110000: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find "
        "TensorRT"
    )
    yield "Epoch 1/2"
    for step in STEPS:
        yield f" {step}/6 ━━━━━━━━━━━━━━━━━━━━ 3s 4ms/step - accuracy: 0.7812 - loss: 0.7120"
    yield "6/6 - 4s - 4ms/step - accuracy: 0.9120 - loss: 0.3012"
    yield (
        f"{CLOCK}09.110000: I tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting with "
        "status: "
        "OUT_OF_RANGE: End of sequence"
    )


def maxtext() -> Iterator[str]:
    yield from by_rank("{rank}: ", "Config param checkpoint_period: 200")
    yield from by_rank("{rank}: ", "Config param jax_distributed_heartbeat_timeout_seconds: 100")
    yield "0: E0302 09:00:01.100000 991 cuda_driver.cc:282] failed call to cuInit: UNKNOWN ERROR (303)"
    for step in STEPS:
        yield from by_rank(
            "{rank}: ",
            f"I0302 09:00:0{step}.257925 140110937163584 metric_logger.py:214] completed step: {step}, seconds: 4.981, "
            "TFLOP/s/device: 380.102, Tokens/s/device: 1644.705, total_weights: 524288, loss: 9.871",
        )
    yield "0: Completed eval after train step 6, loss=9.120, total_weights=65536.0"
    yield "0: I0302 09:00:09.110000 140110937163584 checkpointing.py:611] Saved a checkpoint at step 6."
    yield "  Status: SUCCESS (exit 0)"


def t5x() -> Iterator[str]:
    yield "I0302 09:00:00.110000 140110937163584 xla_bridge.py:889] Unable to initialize backend 'cuda': "
    for step in STEPS:
        yield (
            f"I0302 09:00:0{step}.110000 140110937163584 logging_writer.py:48] [{step}] learning_rate=0.0012, "
            "steps_per_second=3.1, train_loss=9.301"
        )


def verl() -> Iterator[str]:
    yield f"{CLOCK}00,110\tINFO worker.py:1841 -- Started a local Ray instance."
    yield from by_rank(
        "(WorkerDict pid=412{rank}) ", "Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes"
    )
    yield "(TaskRunner pid=3190) [validate_config] All configuration checks passed successfully!"
    yield "(pid=3190) Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.91it/s]"
    for step in STEPS:
        yield (
            f"(TaskRunner pid=3190) Training Progress:  {step * 16}%|█▋        | {step}/6 [01:2{step}<05:00, 81.20s/it]"
        )
        yield (
            f"(TaskRunner pid=3190) step:{step} - global_seqlen/min:40120 - actor/pg_loss:-0.0121 - "
            "actor/grad_norm:0.31 - "
            "timing_s/step:81.2 - perf/throughput:2104.1"
        )
    yield "(WorkerDict pid=4120) INFO:2026-03-02 09:00:09,110:[Rank 0] Saved model to /ckpt/run7/global_step_6/actor"


def mmengine() -> Iterator[str]:
    for step in STEPS:
        yield (
            f"2026/03/02 09:00:0{step} - mmengine - INFO - Epoch(train)  [1][{step}/6]  lr: 1.0000e-02  eta: 1:10:00  "
            "time: 0.4200  data_time: 0.0110  memory: 9012  loss: 1.2012"
        )
    yield "2026/03/02 09:00:08 - mmengine - INFO - Saving checkpoint at 1 epochs"
    yield "2026/03/02 09:00:09 - mmengine - INFO - Epoch(val)  [1][2/2]    eta: 0:00:10  time: 0.2  data_time: 0.01"


def detectron2() -> Iterator[str]:
    for step in STEPS:
        yield (
            f"[03/02 09:00:0{step} d2.utils.events]:  eta: 0:20:05  iter: {step}  total_loss: 3.601  loss_cls: 1.2  "
            "time: 0.3012  last_time: 0.2811  data_time: 0.0112  lr: 0.001  max_mem: 3102M"
        )
    yield "[03/02 09:00:09 d2.engine.hooks]: Overall training speed: 4 iterations in 0:00:01 (0.3012 s / it)"


def imagenet() -> Iterator[str]:
    yield (
        f"{SITE}/torch/utils/data/dataloader.py:617: UserWarning: This DataLoader will create 24 worker processes in "
        "total. Our suggested max number of worker in current system is 12, which is smaller than what this "
        "DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running "
        "slow or even freeze"
    )
    for step in STEPS:
        yield (
            f"Epoch: [0]  [   {step}/6]  eta: 0:41:11  lr: 0.1  img/s: 512.1  loss: 6.9120 (6.9811)  acc1: 0.00  "
            "time: 0.4981"
        )
    yield "Test: [ 1/2]\tTime  0.120 ( 0.201)\tLoss 1.2012e+00 (1.3e+00)\tAcc@1  60.94 ( 61.12)"
    yield "Corrupt JPEG data: premature end of data segment"


def by_hand() -> Iterator[str]:
    yield from torchrun_start()
    for step in STEPS:
        yield f"batch={step} stage=before_forward"
        yield from by_rank("[rank{rank}]: ", f"Epoch [1/10], Step [{step}/6], Loss: 0.3012")
        yield f"{{'gpu_used': 41200000000, 'gpu_reserved': 52000000000, 'cpu_rss': 9120000000, 'batch': {step}}}"
    yield (
        f"{SITE}/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 4 leaked "
        "semaphore objects to clean up at shutdown"
    )
    yield "Training finished."


def vllm() -> Iterator[str]:
    yield "(APIServer pid=91) INFO 03-02 09:00:00 [api_server.py:1839] vLLM API server version 0.11.0"
    yield "(EngineCore_DP0 pid=742) INFO 03-02 09:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 412,000 tokens"
    for step in STEPS:
        yield (
            f"(APIServer pid=91) INFO 03-02 09:0{step}:00 [loggers.py:127] Engine 000: Avg prompt throughput: 210.1 "
            "tokens/s, "
            "Avg generation throughput: 812.3 tokens/s, Running: 32 reqs, Waiting: 0 reqs, GPU KV cache usage: 14.2%, "
            "Prefix cache hit rate: 3.0%"
        )
    yield '(APIServer pid=91) INFO:     10.1.0.4:40120 - "POST /v1/completions HTTP/1.1" 200 OK'


def sglang() -> Iterator[str]:
    for step in STEPS:
        yield (
            f"[{CLOCK}0{step} TP0] Prefill batch. #new-seq: 2, #new-token: 512, #cached-token: 0, token usage: 0.00, "
            "#running-req: 1, #queue-req: 0, "
        )
        yield (
            f"[{CLOCK}0{step} TP0] Decode batch. #running-req: 12, #token: 4120, token usage: 0.02, cuda graph: True, "
            "gen "
            "throughput (token/s): 901.12, #queue-req: 0, "
        )


TRAINING = (
    megatron, deepspeed, hf_trainer, lightning, nemo, torchtitan, nanogpt, llm_c, composer, fairseq, keras,
    maxtext, t5x, verl,
    mmengine, detectron2, imagenet, by_hand,
)  # fmt: skip
SERVING = (vllm, sglang)


def findings_and_steps(lines: Iterable[str]) -> tuple[list[tuple[str, str]], set[int]]:
    """The matches of other than calm roles as (rule, line), and the steps."""
    scanned = a_scanner().scan(batch([line.encode() for line in lines]))
    rules = the_rules()
    found = [
        (match.rule, match.event.text) for match in scanned.matches if rules.spec_of(match).role not in NO_FINDING_ROLES
    ]
    return found, {heartbeat.step for heartbeat in scanned.heartbeats if isinstance(heartbeat, Step)}


@pytest.mark.parametrize("run", TRAINING, ids=lambda run: run.__name__)
def test_a_healthy_training_run_has_steps_and_no_finding(run: Callable[[], Iterator[str]]) -> None:
    found, steps = findings_and_steps(run())
    assert found == []
    assert steps >= set(STEPS)
    assert max(steps) == STEPS[-1]


@pytest.mark.parametrize("run", SERVING, ids=lambda run: run.__name__)
def test_a_healthy_server_is_alive_and_has_no_finding(run: Callable[[], Iterator[str]]) -> None:
    found, steps = findings_and_steps(run())
    assert found == []
    assert steps == set()
