"""The variables of this container alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from container.logs import LogFormat
from container.machine.cuda_compat import CudaCompat
from container.model_environment import ModelEnvironment
from container.settings.values import (
    absolute_path,
    boolean,
    level,
    metric_dimensions,
    one_of,
    seconds,
    some_of,
    text,
    url_path,
    whole,
)
from container.settings.variables import variable


@dataclass(frozen=True)
class OwnSettings:
    """Times in seconds. Paths are not looked at here."""

    model_root: Path = variable(
        "SERVE_MODEL_ROOT",
        default="/opt/ml/models",
        meaning="directory that every model's `url` must lie in",
        parser=absolute_path,
    )
    single_model_dir: Path = variable(
        "SERVE_SINGLE_MODEL_DIR",
        default="/opt/ml/model",
        meaning="repository of a single-model endpoint",
        parser=absolute_path,
    )
    backend_python: Path | None = variable(
        "SERVE_BACKEND_PYTHON",
        default="",
        meaning="interpreter whose packages Python models get",
        parser=absolute_path,
        shown="that of `.venv-merlin`, or of `.venv-models`, beside the package, else the image's"
        " `python3`",
    )
    triton_server: Path | None = variable(
        "SERVE_TRITON_SERVER",
        default="",
        meaning="the tritonserver program",
        parser=absolute_path,
        shown="`/opt/tritonserver`, `PATH`, the wheel nvidia-pytriton",
    )
    cuda_compat: CudaCompat = variable(
        "SERVE_CUDA_COMPAT",
        default="auto",
        meaning="whether models find the image's CUDA compatibility libraries before the host's"
        " libcuda: `auto`, where the host's driver is older and they work; `on`, wherever there"
        " are GPUs; `off`, never",
        parser=one_of("auto", "on", "off"),
    )
    auto_complete: bool = variable(
        "SERVE_AUTO_COMPLETE",
        default="false",
        meaning="`true`: Triton completes model configurations (slower loads)",
        parser=boolean,
    )
    rewrite: Literal["auto", "ensemble", "executor"] = variable(
        "SERVE_REWRITE",
        default="auto",
        meaning="what becomes of executor models: `auto`, the best form; `ensemble`, an ensemble or"
        " nothing; `executor`, the executor itself. `auto` alone lets one process run an ensemble's"
        " steps, also a delivered one's",
        parser=one_of("auto", "ensemble", "executor"),
    )
    compile: Literal["auto", "off"] = variable(
        "SERVE_COMPILE",
        default="auto",
        meaning="what becomes of NVTabular workflows: `auto`, a numpy program where the numbers are"
        " certain to be the same; `off`, NVTabular itself",
        parser=one_of("auto", "off"),
    )
    pickles: bool = variable(
        "SERVE_PICKLES",
        default="on",
        meaning="`on`, or `off`: a load is refused where anybody would unpickle a file of the"
        " archive ([what that is](security.md#pickles)). It does not stop an archive's own Python",
        parser=boolean,
    )
    warm: str = variable(
        "SERVE_WARM",
        default="auto",
        meaning="`auto`: models of one library (PyTorch, TensorFlow, XGBoost and LightGBM, Feast,"
        " NVTabular) are forked from one process that has imported it, unless there are GPUs;"
        " `off`: each imports it itself",
        parser=one_of("auto", "off"),
    )
    preload: tuple[str, ...] | None = variable(
        "SERVE_PRELOAD",
        default="",
        meaning="libraries that are imported at the start, and not by the first model that needs"
        " one, with commas between: `torch`, `tensorflow`, `forests`, `feast`, `pandas`,"
        " `torch-pandas`, `nvtabular`",
        parser=some_of(
            "torch", "tensorflow", "forests", "feast", "pandas", "torch-pandas", "nvtabular"
        ),
        shown="none",
    )
    bind_address: str = variable(
        "SERVE_BIND_ADDRESS",
        default="0.0.0.0",
        meaning="address of the SageMaker API",
        parser=text,
    )
    load_timeout: float = variable(
        "SERVE_LOAD_TIMEOUT",
        default="350",
        meaning="seconds for a load (the platform gives up after 360); giving one up takes up to"
        " some ten seconds more, in which its processes are ended: the default leaves them",
        parser=seconds,
    )
    invoke_timeout: float = variable(
        "SERVE_INVOKE_TIMEOUT",
        default="60",
        meaning="seconds for an invocation (the platform's own limit)",
        parser=seconds,
    )
    feature_store_timeout: float = variable(
        "SERVE_FEATURE_STORE_TIMEOUT",
        default="5",
        meaning="seconds for a look-up in a Feast online store (Merlin's QueryFeast); then 503",
        parser=seconds,
    )
    shutdown_timeout: float = variable(
        "SERVE_SHUTDOWN_TIMEOUT",
        default="25",
        meaning="seconds from SIGTERM to exit (the platform kills after 30)",
        parser=seconds,
    )
    memory_reserve_mb: int = variable(
        "SERVE_MEMORY_RESERVE_MB",
        default="256",
        meaning="memory that loads leave free: a load that is expected to take more is refused with"
        " 507; `0`: never, whatever is lacking",
        parser=whole(0),
    )
    gpu_memory_reserve_mb: int = variable(
        "SERVE_GPU_MEMORY_RESERVE_MB",
        default="256",
        meaning="the same of each GPU that the model may use; `0`: GPUs are never asked",
        parser=whole(0),
    )
    max_request_mb: int = variable(
        "SERVE_MAX_REQUEST_MB",
        default="64",
        meaning="MB that an invocation's body may have, also once it is inflated; more is 413, and"
        " so is more than a quarter of `SERVE_MAX_WAITING_TOTAL_MB`; JSON that is not turned into"
        " binary tensors may have 16 (Payloads, above). tritonserver up to 2.51 has no limit of its"
        " own; that of a later one (`--http-max-input-size`, 25.06) is lifted",
        parser=whole(1),
    )
    max_waiting_total_mb: int = variable(
        "SERVE_MAX_WAITING_TOTAL_MB",
        default="1024",
        meaning="MB of requests and answers that are held, those that wait, those still coming and"
        " what is made of them included, before more get 503 with `Retry-After`; of one model a"
        " quarter of it, and what alone is more than that is 413, or 500 for an answer. Beside it"
        " 1,000 requests of a model may wait for a place in tritonserver, 4,000 of all. Places come"
        " first: at least 4 requests of each model are at work before one waits, more with more"
        " instances, with batches, or while it is quick",
        parser=whole(4),
    )
    translate_json_from: int = variable(
        "SERVE_TRANSLATE_JSON_FROM",
        default=str(64 * 1024),
        meaning="JSON requests and answers of this many bytes and more pass tritonserver as binary"
        " tensors; `0`: none does",
        parser=whole(0),
    )
    intra_op_threads: int = variable(
        "SERVE_INTRA_OP_THREADS",
        default="",
        meaning="threads with which a model's library computes one request, where the model's"
        " config says nothing of it, nor `OMP_NUM_THREADS` and `TF_NUM_INTRAOP_THREADS`; `0`: as"
        " many as there are cores",
        parser=whole(0, 10_000),
        shown="`1` in multi-model mode, else `0`",
    )
    model_environment: ModelEnvironment = variable(
        "SERVE_MODEL_ENVIRONMENT",
        default="",
        meaning="what of the container's environment models see: `all`, or `clean`: no `AWS_*`, no"
        " `OTEL_*`, no `SERVE_*`, no `SAGEMAKER_TRITON_*`",
        parser=one_of("all", "clean"),
        shown="`clean` in multi-model mode, else `all`",
    )
    metrics: bool = variable(
        "SERVE_METRICS",
        default="on",
        meaning="`on` or `off`: the metrics page, for Prometheus and SageMaker's detailed"
        " observability; switches tritonserver's metrics on, too",
        parser=boolean,
    )
    metrics_path: str = variable(
        "SERVE_METRICS_PATH",
        default="/metrics",
        meaning="where the page is, on the port of the SageMaker API",
        parser=url_path,
    )
    metric_dimensions: tuple[tuple[str, str], ...] = variable(
        "SERVE_METRIC_DIMENSIONS",
        default="",
        meaning="dimensions of all that is published to CloudWatch, as `Endpoint=shop,Variant=a`;"
        " at most 20",
        parser=metric_dimensions,
    )
    log_level: str = variable(
        "SERVE_LOG_LEVEL",
        default="info",
        meaning="`debug`, `info`, `warning` or `error`",
        parser=level,
    )
    log_format: LogFormat = variable(
        "SERVE_LOG_FORMAT",
        default="text",
        meaning="`text`, or `json`: one object a line, tritonserver's and the models' lines, too",
        parser=one_of("text", "json"),
    )
    access_log: Literal["off", "errors", "slow", "all"] = variable(
        "SERVE_ACCESS_LOG",
        default="errors",
        meaning="which invocations have a line in the log: `off`, `errors`, `slow` (and errors) or"
        " `all`",
        parser=one_of("off", "errors", "slow", "all"),
    )
    slow_ms: int = variable(
        "SERVE_SLOW_MS",
        default="1000",
        meaning="from how many milliseconds on an invocation is slow",
        parser=whole(0),
    )
