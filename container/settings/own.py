"""The variables of this container alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from container.logs.setup import LogFormat
from container.machine.cuda_compat import CudaCompat
from container.model_environment import ModelEnvironment
from container.settings.values import (
    S3Prefix,
    folder_or_bucket,
    level,
    metric_dimensions,
    names,
    percent,
    rate,
    some_of,
    whole,
)
from container.settings.variables import variable


@dataclass(frozen=True)
class OwnSettings:
    """Times in seconds. Paths are not looked at here."""

    model_root: Path = variable(
        "SERVE_MODEL_ROOT", "/opt/ml/models", "directory that every model's `url` must lie in"
    )
    single_model_dir: Path = variable(
        "SERVE_SINGLE_MODEL_DIR", "/opt/ml/model", "repository of a single-model endpoint"
    )
    backend_python: Path | None = variable(
        "SERVE_BACKEND_PYTHON",
        "",
        "interpreter whose packages Python models get",
        shown="that of `.venv-merlin`, or of `.venv-models`, beside the package, else the image's"
        " `python3`",
    )
    triton_server: Path | None = variable(
        "SERVE_TRITON_SERVER",
        "",
        "the tritonserver program",
        shown="`/opt/tritonserver`, `PATH`, the wheel nvidia-pytriton",
    )
    cuda_compat: CudaCompat = variable(
        "SERVE_CUDA_COMPAT",
        "auto",
        "whether models find the image's CUDA compatibility libraries before the host's"
        " libcuda: `auto`, where the host's driver is older and they work; `on`, wherever there"
        " are GPUs; `off`, never",
    )
    auto_complete: bool = variable(
        "SERVE_AUTO_COMPLETE",
        "false",
        "`true`: Triton completes model configurations (slower loads)",
    )
    rewrite: Literal["auto", "ensemble", "executor"] = variable(
        "SERVE_REWRITE",
        "auto",
        "what becomes of executor models: `auto`, the best form; `ensemble`, an ensemble or"
        " nothing; `executor`, the executor itself. `auto` alone lets one process run an ensemble's"
        " steps, also a delivered one's",
    )
    compile: Literal["auto", "off"] = variable(
        "SERVE_COMPILE",
        "auto",
        "what becomes of NVTabular workflows: `auto`, a numpy program where the numbers are"
        " certain to be the same; `off`, NVTabular itself",
    )
    table_cache_mb: int = variable(
        "SERVE_TABLE_CACHE_MB",
        "1024",
        "MB of compiled workflows' tables that are kept under `TMPDIR` for the next load of the"
        " same workflow; at most as much as is free there, the least recently loaded go first; `0`:"
        " none, as where `TMPDIR` is in memory (tmpfs)",
        whole(0),
    )
    pickles: bool = variable(
        "SERVE_PICKLES",
        "on",
        "`on`, or `off`: a load is refused where anybody would unpickle a file of the"
        " archive ([what that is](security.md#pickles)). It does not stop an archive's own Python",
    )
    warm: Literal["auto", "off"] = variable(
        "SERVE_WARM",
        "auto",
        "`auto`: models of one library (PyTorch, TensorFlow, XGBoost and LightGBM, Feast,"
        " pandas, NVTabular) are forked from one process that has imported it, on a machine with"
        " GPUs only those that [can use none](#models-and-gpus); `off`: each imports it itself",
    )
    preload: tuple[str, ...] | None = variable(
        "SERVE_PRELOAD",
        "",
        "libraries that are imported at the start, and not by the first model that needs"
        " one, with commas between: `torch`, `tensorflow`, `forests`, `feast`, `pandas`,"
        " `torch-pandas`, `nvtabular`; on a machine with GPUs only `feast` and `pandas`",
        some_of("torch", "tensorflow", "forests", "feast", "pandas", "torch-pandas", "nvtabular"),
        shown="none",
    )
    bind_address: str = variable("SERVE_BIND_ADDRESS", "0.0.0.0", "address of the SageMaker API")
    load_timeout: float = variable(
        "SERVE_LOAD_TIMEOUT",
        "350",
        "seconds for a load (the platform gives up after 360); giving one up takes up to"
        " some ten seconds more, in which its processes are ended: the default leaves them",
    )
    invoke_timeout: float = variable(
        "SERVE_INVOKE_TIMEOUT", "60", "seconds for an invocation (the platform's own limit)"
    )
    feature_store_timeout: float = variable(
        "SERVE_FEATURE_STORE_TIMEOUT",
        "5",
        "seconds for a look-up in a Feast online store (Merlin's QueryFeast); then 503",
    )
    memory_reserve_mb: int = variable(
        "SERVE_MEMORY_RESERVE_MB",
        "256",
        "memory that loads leave free: a load that is expected to take more is refused with"
        " 507; `0`: never, whatever is lacking",
        whole(0),
    )
    gpu_memory_reserve_mb: int = variable(
        "SERVE_GPU_MEMORY_RESERVE_MB",
        "256",
        "the same of each GPU that the model may use; `0`: GPUs are never asked",
        whole(0),
    )
    max_request_mb: int = variable(
        "SERVE_MAX_REQUEST_MB",
        "64",
        "MB that an invocation's body may have, also once it is inflated; more is 413, and"
        " so is more than a quarter of `SERVE_MAX_WAITING_TOTAL_MB`; JSON that is not turned into"
        " binary tensors may have 16 ([payloads](contract.md#payloads)). tritonserver up to 2.51"
        " has no limit of its own; that of a later one (`--http-max-input-size`, 25.06) is lifted",
        whole(1),
    )
    max_waiting_total_mb: int = variable(
        "SERVE_MAX_WAITING_TOTAL_MB",
        "1024",
        "MB of requests and answers that are held, those that wait, those still coming and"
        " what is made of them included, before more get 503 with `Retry-After`; of one model a"
        " quarter of it, and what alone is more than that is 413, or 500 for an answer. Besides,"
        " 1,000 requests of a model may wait for a place in tritonserver, 4,000 of all; at least 2"
        " requests of each model are at work before one waits, more with more instances, with"
        " batches, or while it is quick",
        whole(4),
    )
    rate_limit: float = variable(
        "SERVE_RATE_LIMIT",
        "0",
        "requests a second of one model, as `20` or `0.5`: a second's worth may come at once, and"
        " at least one; more get 429 with `Retry-After`, at their heads"
        " ([fair shares](reliability.md#fair-shares)); `0`: any number",
        rate,
    )
    candidate_percent: float = variable(
        "SERVE_CANDIDATE_PERCENT",
        "0",
        "percent of requests, such as `10` or `0.5`, that are asked of the [candidate"
        "](candidates.md) in a model's archive, too, after their callers were answered; `0`:"
        " candidates are not loaded",
        percent,
    )
    translate_json_from: int = variable(
        "SERVE_TRANSLATE_JSON_FROM",
        str(64 * 1024),
        "JSON requests and answers of this many bytes and more pass tritonserver as binary"
        " tensors; `0`: none does",
        whole(0),
    )
    intra_op_threads: int = variable(
        "SERVE_INTRA_OP_THREADS",
        "",
        "threads with which a model's library computes one request, where the model's"
        " config says nothing of it, nor `OMP_NUM_THREADS` and `TF_NUM_INTRAOP_THREADS`; `0`: as"
        " many as there are cores",
        whole(0, 10_000),
        shown="`1` in multi-model mode, else `0`",
    )
    model_environment: ModelEnvironment = variable(
        "SERVE_MODEL_ENVIRONMENT",
        "",
        "what of the container's environment models see: `all`, or `clean`: no `AWS_*`, no"
        " `OTEL_*`, no `SERVE_*`, no `SAGEMAKER_TRITON_*`",
        shown="`clean` in multi-model mode, else `all`",
    )
    metrics: bool = variable(
        "SERVE_METRICS",
        "on",
        "`on` or `off`: the page `/metrics`, for Prometheus and SageMaker's detailed"
        " observability; switches tritonserver's metrics on, too",
    )
    feature_metrics: Literal["off", "models", "columns"] = variable(
        "SERVE_FEATURE_METRICS",
        "models",
        "what compiled workflows count of their columns ([drift](drift.md)), and how `/metrics`"
        " and CloudWatch have it: `models`, the sums of all columns of each model; `columns`, each"
        " column for itself, which is many series; `off`: nothing is counted",
    )
    metric_dimensions: tuple[tuple[str, str], ...] = variable(
        "SERVE_METRIC_DIMENSIONS",
        "",
        "dimensions of all that is published to CloudWatch, as `Endpoint=shop,Variant=a`;"
        " at most 20",
        metric_dimensions,
    )
    capture: Path | S3Prefix | None = variable(
        "SERVE_CAPTURE",
        "",
        "where a sample of requests and answers is written to ([capture](capture.md)):"
        " `s3://bucket/prefix/`, or a directory; unset: nowhere",
        folder_or_bucket,
    )
    capture_percent: float = variable(
        "SERVE_CAPTURE_PERCENT",
        "100",
        "percent of requests, such as `5` or `0.1`, that are captured; `0`: none",
        percent,
    )
    capture_mb: int = variable(
        "SERVE_CAPTURE_MB",
        "256",
        "MB of captures that may lie on this machine: those that are not uploaded yet, or all in"
        " the directory; what comes then is dropped",
        whole(1),
    )
    capture_omit: tuple[str, ...] = variable(
        "SERVE_CAPTURE_OMIT",
        "",
        "columns whose values are not written, as `user_id,email`: strings and large integers"
        " become a salted hash, other numbers 0 ([which](capture.md#columns-that-are-not-written))",
        names,
        shown="none",
    )
    log_level: str = variable(
        "SERVE_LOG_LEVEL", "info", "`debug`, `info`, `warning` or `error`", level
    )
    log_format: LogFormat = variable(
        "SERVE_LOG_FORMAT",
        "text",
        "`text`, or `json`: one object a line, tritonserver's and the models' lines, too",
    )
    access_log: Literal["off", "errors", "slow", "all"] = variable(
        "SERVE_ACCESS_LOG",
        "errors",
        "which invocations have a line in the log: `off`, `errors`, `slow` (and errors) or `all`",
    )
    slow_ms: int = variable(
        "SERVE_SLOW_MS", "1000", "from how many milliseconds on an invocation is slow", whole(0)
    )
