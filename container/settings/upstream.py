"""The variables of SageMaker, and of the serve script of SageMaker's own Triton image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from container.settings.triton_arguments import parse_triton_arguments
from container.settings.values import (
    MIB,
    PortRange,
    fraction,
    port,
    triton_boolean,
    verbosity,
    whole,
)
from container.settings.variables import variable

PingMode = Literal["live", "ready"]
InferenceType = Literal["infer", "generate", "generate_stream"]


@dataclass(frozen=True)
class UpstreamSettings:
    """A port is None where there is to be none, or where one of the safe range is to be chosen."""

    multi_model: bool = variable(
        "SAGEMAKER_MULTI_MODEL", "false", "`true`: multi-model endpoint; otherwise one model"
    )
    bind_port: int = variable("SAGEMAKER_BIND_TO_PORT", "8080", "port of the SageMaker API", port)
    safe_port_range: PortRange | None = variable(
        "SAGEMAKER_SAFE_PORT_RANGE", "", "`low-high`: the ports that are asked for lie inside it"
    )
    default_model_name: str | None = variable(
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME",
        "",
        "the model that a single-model endpoint answers with",
        shown="the only directory",
    )
    ping_mode: PingMode = variable(
        ("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "SAGEMAKER_TRITON_PING_MODE"),
        "",
        "what `/ping` asks: `live` (tritonserver lives) or `ready` (the model is ready; on "
        "a multi-model endpoint as `live`)",
        shown="`live` in multi-model mode, else `ready`",
    )
    model_namespacing: str = variable(
        "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING",
        "true",
        "passed as it is to `--model-namespacing` (upstream's name is inverted: `false`"
        " switches namespacing off)",
        triton_boolean,
    )
    allow_grpc: bool = variable(
        "SAGEMAKER_TRITON_ALLOW_GRPC",
        "false",
        "tritonserver's gRPC on a port (loopback), not on a Unix socket",
    )
    grpc_port: int | None = variable(
        "SAGEMAKER_TRITON_GRPC_PORT", "", "that port", port, shown="`8001`, or from the safe range"
    )
    allow_metrics: bool = variable(
        "SAGEMAKER_TRITON_ALLOW_METRICS",
        "false",
        "tritonserver's Prometheus metrics on a port (loopback), not on a Unix socket",
    )
    metrics_port: int | None = variable(
        "SAGEMAKER_TRITON_METRICS_PORT",
        "",
        "their port",
        port,
        shown="`8002`, or from the safe range",
    )
    publish_metrics: bool = variable(
        "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH",
        "false",
        "send all metrics to CloudWatch every minute; switches tritonserver's on",
    )
    cloudwatch_log_group: str | None = variable(
        ("SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP", "SAGEMAKER_TRITON_LOG_GROUP"),
        "",
        "log group they go to; required for publishing",
    )
    cloudwatch_metric_namespace: str | None = variable(
        ("SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE", "SAGEMAKER_TRITON_METRIC_NAMESPACE"),
        "",
        "CloudWatch namespace they appear in; required for publishing",
    )
    thread_count: int = variable(
        "SAGEMAKER_TRITON_THREAD_COUNT", "8", "tritonserver's HTTP threads", whole(1, 10_000)
    )
    buffer_manager_thread_count: int | None = variable(
        "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT",
        "",
        "`--buffer-manager-thread-count`",
        whole(0, 10_000),
    )
    log_verbose: str | None = variable(
        "SAGEMAKER_TRITON_LOG_VERBOSE",
        "",
        "`--log-verbose`: a level or a boolean",
        verbosity,
        shown="Triton's",
    )
    log_info: str | None = variable(
        "SAGEMAKER_TRITON_LOG_INFO", "", "`--log-info`", triton_boolean, shown="Triton's"
    )
    log_warning: str | None = variable(
        "SAGEMAKER_TRITON_LOG_WARNING", "", "`--log-warning`", triton_boolean, shown="Triton's"
    )
    log_error: str | None = variable(
        "SAGEMAKER_TRITON_LOG_ERROR", "", "`--log-error`", triton_boolean, shown="Triton's"
    )
    shm_default_byte_size: int = variable(
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
        "",
        "shared memory of a Python model instance at its start, in bytes",
        whole(MIB),
        shown="`16777216`; `1048576`, Triton's own, where /dev/shm holds fewer than 64 of those",
    )
    shm_growth_byte_size: int = variable(
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
        str(MIB),
        "step by which it grows, in bytes",
        whole(1),
    )
    tensorflow_version: str | None = variable(
        "SAGEMAKER_TRITON_TENSORFLOW_VERSION", "", "`--backend-config=tensorflow,version=`"
    )
    model_load_gpu_limit: float | None = variable(
        "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT",
        "",
        "`--model-load-gpu-limit` of each GPU, a fraction of its memory",
        fraction,
    )
    inference_type: InferenceType = variable(
        "SAGEMAKER_TRITON_INFERENCE_TYPE",
        "infer",
        "what `/invocations` asks of the model: `infer`, `generate` or `generate_stream`",
    )
    additional_args: tuple[str, ...] = variable(
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS",
        "",
        "appended to tritonserver's command line; shell quoting is respected. What would"
        " keep the container from its tritonserver is refused (`--load-model`, `--http-port`)",
        parse_triton_arguments,
    )
