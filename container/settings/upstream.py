"""The variables of SageMaker, and of the serve script of SageMaker's own Triton image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from container.settings.triton_arguments import parse_triton_arguments
from container.settings.values import (
    MIB,
    PortRange,
    boolean,
    fraction,
    one_of,
    port,
    port_range,
    text,
    triton_boolean,
    verbosity,
    whole,
)
from container.settings.variables import variable

PingMode = Literal["live", "ready"]
InferenceType = Literal["infer", "generate", "generate_stream"]


@dataclass(frozen=True)
class UpstreamSettings:
    """`grpc_port` and `metrics_port` are None where a free port is to be chosen."""

    multi_model: bool = variable(
        "SAGEMAKER_MULTI_MODEL",
        default="false",
        meaning="`true`: multi-model endpoint; otherwise one model",
        parser=boolean,
    )
    bind_port: int = variable(
        "SAGEMAKER_BIND_TO_PORT",
        default="8080",
        meaning="port of the SageMaker API",
        parser=port,
    )
    safe_port_range: PortRange | None = variable(
        "SAGEMAKER_SAFE_PORT_RANGE",
        default="",
        meaning="`low-high`: every other port lies inside it",
        parser=port_range,
    )
    default_model_name: str | None = variable(
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME",
        default="",
        meaning="the model that a single-model endpoint answers with",
        parser=text,
        shown="the only directory",
    )
    ping_mode: PingMode = variable(
        "SAGEMAKER_TRITON_OVERRIDE_PING_MODE",
        "SAGEMAKER_TRITON_PING_MODE",
        default="",
        meaning="what `/ping` asks: `live` (tritonserver lives) or `ready` (the model is ready; on "
        "a multi-model endpoint as `live`)",
        parser=one_of("live", "ready"),
        shown="`live` in multi-model mode, else `ready`",
    )
    model_namespacing: str = variable(
        "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING",
        default="true",
        meaning="passed as it is to `--model-namespacing` (upstream's name is inverted: `false`"
        " switches namespacing off)",
        parser=triton_boolean,
    )
    allow_grpc: bool = variable(
        "SAGEMAKER_TRITON_ALLOW_GRPC",
        default="false",
        meaning="fixes tritonserver's gRPC port (loopback; used for model control in any case)",
        parser=boolean,
    )
    grpc_port: int | None = variable(
        "SAGEMAKER_TRITON_GRPC_PORT",
        default="",
        meaning="that port",
        parser=port,
        shown="`8001`, or from the safe range",
    )
    allow_metrics: bool = variable(
        "SAGEMAKER_TRITON_ALLOW_METRICS",
        default="false",
        meaning="tritonserver's Prometheus metrics (loopback)",
        parser=boolean,
    )
    metrics_port: int | None = variable(
        "SAGEMAKER_TRITON_METRICS_PORT",
        default="",
        meaning="their port",
        parser=port,
        shown="`8002`, or from the safe range",
    )
    publish_metrics: bool = variable(
        "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH",
        default="false",
        meaning="send all metrics to CloudWatch every minute; switches tritonserver's on",
        parser=boolean,
    )
    cloudwatch_log_group: str | None = variable(
        "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP",
        "SAGEMAKER_TRITON_LOG_GROUP",
        default="",
        meaning="log group they go to; required for publishing",
        parser=text,
    )
    cloudwatch_metric_namespace: str | None = variable(
        "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE",
        "SAGEMAKER_TRITON_METRIC_NAMESPACE",
        default="",
        meaning="CloudWatch namespace they appear in; required for publishing",
        parser=text,
    )
    thread_count: int = variable(
        "SAGEMAKER_TRITON_THREAD_COUNT",
        default="8",
        meaning="tritonserver's HTTP threads",
        parser=whole(1, 10_000),
    )
    buffer_manager_thread_count: int | None = variable(
        "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT",
        default="",
        meaning="`--buffer-manager-thread-count`",
        parser=whole(0, 10_000),
    )
    log_verbose: str | None = variable(
        "SAGEMAKER_TRITON_LOG_VERBOSE",
        default="",
        meaning="`--log-verbose`: a level or a boolean",
        parser=verbosity,
        shown="Triton's",
    )
    log_info: str | None = variable(
        "SAGEMAKER_TRITON_LOG_INFO",
        default="",
        meaning="`--log-info`",
        parser=triton_boolean,
        shown="Triton's",
    )
    log_warning: str | None = variable(
        "SAGEMAKER_TRITON_LOG_WARNING",
        default="",
        meaning="`--log-warning`",
        parser=triton_boolean,
        shown="Triton's",
    )
    log_error: str | None = variable(
        "SAGEMAKER_TRITON_LOG_ERROR",
        default="",
        meaning="`--log-error`",
        parser=triton_boolean,
        shown="Triton's",
    )
    shm_default_byte_size: int = variable(
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
        default="",
        meaning="shared memory of a Python model instance at its start, in bytes",
        parser=whole(MIB),
        shown="`16777216`; `1048576`, Triton's own, where /dev/shm holds fewer than 64 of those",
    )
    shm_growth_byte_size: int = variable(
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
        default=str(MIB),
        meaning="step by which it grows, in bytes",
        parser=whole(1),
    )
    tensorflow_version: str | None = variable(
        "SAGEMAKER_TRITON_TENSORFLOW_VERSION",
        default="",
        meaning="`--backend-config=tensorflow,version=`",
        parser=text,
    )
    model_load_gpu_limit: float | None = variable(
        "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT",
        default="",
        meaning="`--model-load-gpu-limit` of each GPU, a fraction of its memory",
        parser=fraction,
    )
    inference_type: InferenceType = variable(
        "SAGEMAKER_TRITON_INFERENCE_TYPE",
        default="infer",
        meaning="what `/invocations` asks of the model: `infer`, `generate` or `generate_stream`",
        parser=one_of("infer", "generate", "generate_stream"),
    )
    additional_args: tuple[str, ...] = variable(
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS",
        default="",
        meaning="appended to tritonserver's command line; shell quoting is respected. What would"
        " keep the container from its tritonserver is refused (`--load-model`, `--http-port`)",
        parser=parse_triton_arguments,
    )
