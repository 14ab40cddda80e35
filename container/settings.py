"""Every environment variable, its meaning and its default.

`SETTINGS` is the one table: parsing and the README's table both come from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from container.errors import Mistake, SettingsError
from container.model_environment import ModelEnvironment
from container.setting_values import (
    Parser,
    PortRange,
    Unfit,
    absolute_path,
    arguments,
    boolean,
    fraction,
    level,
    one_of,
    port,
    port_range,
    seconds,
    text,
    triton_boolean,
    verbosity,
    whole,
)

PingMode = Literal["live", "ready"]
InferenceType = Literal["infer", "generate", "generate_stream"]

MIB = 1024 * 1024
DEFAULT_GRPC_PORT, DEFAULT_METRICS_PORT = 8001, 8002  # tritonserver's own
#: Stands above the table.
UNITS = "MB in the table are MiB (1024 × 1024 bytes)."
OUR_PREFIXES = ("SERVE_", "SAGEMAKER_TRITON_")


@dataclass(frozen=True)
class Variable:
    """One row of the table; of several names the first that is set counts.

    `default` is written as it would stand in the environment; "" is unset. `shown` replaces it
    in the README where the default is not one fixed word.
    """

    names: tuple[str, ...]
    field: str
    default: str
    meaning: str
    parser: Parser
    shown: str = ""


@dataclass(frozen=True)
class UnknownVariable:
    """A variable that looks like ours and is not: probably a slip of the pen."""

    name: str
    closest: str | None

    def __str__(self) -> str:
        hint = f"; did you mean {self.closest}?" if self.closest else ""
        return f"{self.name} is not a variable of this container{hint}"


@dataclass(frozen=True)
class Settings:
    """All that the environment says, checked and with defaults filled in; times in seconds.

    `grpc_port` and `metrics_port` are None where a free port is to be chosen. `unknown` is for
    warnings. Paths are not looked at here.
    """

    multi_model: bool
    bind_port: int
    bind_address: str
    safe_port_range: PortRange | None
    default_model_name: str | None
    ping_mode: PingMode
    model_namespacing: str
    allow_grpc: bool
    grpc_port: int | None
    allow_metrics: bool
    metrics_port: int | None
    publish_metrics: bool
    cloudwatch_log_group: str | None
    cloudwatch_metric_namespace: str | None
    thread_count: int
    buffer_manager_thread_count: int | None
    log_verbose: str | None
    log_info: str | None
    log_warning: str | None
    log_error: str | None
    shm_default_byte_size: int
    shm_growth_byte_size: int
    tensorflow_version: str | None
    model_load_gpu_limit: float | None
    inference_type: InferenceType
    additional_args: tuple[str, ...]
    model_root: Path
    single_model_dir: Path
    backend_python: Path | None
    triton_server: Path | None
    work_dir: Path | None
    auto_complete: bool
    rewrite: Literal["auto", "ensemble", "executor"]
    compile: Literal["auto", "off"]
    compile_check: bool
    start_timeout: float
    load_timeout: float
    unload_timeout: float
    invoke_timeout: float
    read_timeout: float
    shutdown_timeout: float
    restart_limit: int
    restart_window: float
    memory_reserve_mb: int
    gpu_memory_reserve_mb: int
    max_instances: int | None
    max_request_mb: int
    max_waiting: int
    max_waiting_mb: int
    max_waiting_total: int
    max_waiting_total_mb: int
    max_connections: int | None
    translate_json_from: int
    python_threads: int
    model_environment: ModelEnvironment
    log_level: str
    unknown: tuple[UnknownVariable, ...] = ()


def _triton(suffix: str) -> str:
    return f"SAGEMAKER_TRITON_{suffix}"


SETTINGS: tuple[Variable, ...] = (
    Variable(("SAGEMAKER_MULTI_MODEL",), "multi_model", "false",
             "`true`: multi-model endpoint; otherwise one model", boolean),
    Variable(("SAGEMAKER_BIND_TO_PORT",), "bind_port", "8080",
             "port of the SageMaker API", port),
    Variable(("SAGEMAKER_SAFE_PORT_RANGE",), "safe_port_range", "",
             "`low-high`: every other port lies inside it", port_range),
    Variable((_triton("DEFAULT_MODEL_NAME"),), "default_model_name", "",
             "the model that a single-model endpoint answers with", text,
             shown="the only directory"),
    Variable((_triton("OVERRIDE_PING_MODE"), _triton("PING_MODE")), "ping_mode", "",
             "what `/ping` asks: `live` (tritonserver lives) or `ready` (the model is ready)",
             one_of("live", "ready"), shown="`live` in multi-model mode, else `ready`"),
    Variable((_triton("DISABLE_MODEL_NAMESPACING"),), "model_namespacing", "true",
             "passed as it is to `--model-namespacing` (upstream's name is inverted: `false`"
             " switches namespacing off)", triton_boolean),
    Variable((_triton("ALLOW_GRPC"),), "allow_grpc", "false",
             "fixes tritonserver's gRPC port (loopback; used for model control in any case)",
             boolean),
    Variable((_triton("GRPC_PORT"),), "grpc_port", "",
             "that port", port, shown="`8001`, or from the safe range"),
    Variable((_triton("ALLOW_METRICS"),), "allow_metrics", "false",
             "tritonserver's Prometheus metrics (loopback)", boolean),
    Variable((_triton("METRICS_PORT"),), "metrics_port", "",
             "their port", port, shown="`8002`, or from the safe range"),
    Variable((_triton("PUBLISH_METRICS_TO_CLOUDWATCH"),), "publish_metrics", "false",
             "send the metrics to CloudWatch every minute; switches them on", boolean),
    Variable((_triton("CLOUDWATCH_LOG_GROUP"), _triton("LOG_GROUP")),
             "cloudwatch_log_group", "", "log group they go to; required for publishing", text),
    Variable((_triton("CLOUDWATCH_METRIC_NAMESPACE"), _triton("METRIC_NAMESPACE")),
             "cloudwatch_metric_namespace", "",
             "CloudWatch namespace they appear in; required for publishing", text),
    Variable((_triton("THREAD_COUNT"),), "thread_count", "8",
             "tritonserver's HTTP threads", whole(1, 10_000)),
    Variable((_triton("BUFFER_MANAGER_THREAD_COUNT"),), "buffer_manager_thread_count", "",
             "`--buffer-manager-thread-count`", whole(0, 10_000)),
    Variable((_triton("LOG_VERBOSE"),), "log_verbose", "",
             "`--log-verbose`: a level or a boolean", verbosity, shown="Triton's"),
    Variable((_triton("LOG_INFO"),), "log_info", "", "`--log-info`", triton_boolean,
             shown="Triton's"),
    Variable((_triton("LOG_WARNING"),), "log_warning", "", "`--log-warning`", triton_boolean,
             shown="Triton's"),
    Variable((_triton("LOG_ERROR"),), "log_error", "", "`--log-error`", triton_boolean,
             shown="Triton's"),
    Variable((_triton("SHM_DEFAULT_BYTE_SIZE"),), "shm_default_byte_size", str(16 * MIB),
             "shared memory of a Python model instance at its start, in bytes", whole(MIB)),
    Variable((_triton("SHM_GROWTH_BYTE_SIZE"),), "shm_growth_byte_size", str(MIB),
             "step by which it grows, in bytes", whole(1)),
    Variable((_triton("TENSORFLOW_VERSION"),), "tensorflow_version", "",
             "`--backend-config=tensorflow,version=`", text),
    Variable((_triton("MODEL_LOAD_GPU_LIMIT"),), "model_load_gpu_limit", "",
             "`--model-load-gpu-limit` of each GPU, a fraction of its memory", fraction),
    Variable((_triton("INFERENCE_TYPE"),), "inference_type", "infer",
             "what `/invocations` asks of the model: `infer`, `generate` or `generate_stream`",
             one_of("infer", "generate", "generate_stream")),
    Variable((_triton("ADDITIONAL_ARGS"),), "additional_args", "",
             "appended to tritonserver's command line; shell quoting is respected", arguments),
    Variable(("SERVE_MODEL_ROOT",), "model_root", "/opt/ml/models",
             "directory that every model's `url` must lie in", absolute_path),
    Variable(("SERVE_SINGLE_MODEL_DIR",), "single_model_dir", "/opt/ml/model",
             "repository of a single-model endpoint", absolute_path),
    Variable(("SERVE_BACKEND_PYTHON",), "backend_python", "",
             "interpreter whose packages Python models get", absolute_path,
             shown="`.venv-merlin/bin/python` beside the package, else the image's `python3`"),
    Variable(("SERVE_TRITON_SERVER",), "triton_server", "", "the tritonserver program",
             absolute_path, shown="`/opt/tritonserver`, `PATH`, the wheel nvidia-pytriton"),
    Variable(("SERVE_WORK_DIR",), "work_dir", "",
             "where the serving repository and the runtime's overlay are made", absolute_path,
             shown="a fresh temporary directory"),
    Variable(("SERVE_AUTO_COMPLETE",), "auto_complete", "false",
             "`true`: Triton completes model configurations (slower loads)", boolean),
    Variable(("SERVE_REWRITE",), "rewrite", "auto",
             "what becomes of executor models: `auto`, the best form; `ensemble`, an ensemble or"
             " nothing; `executor`, the executor itself", one_of("auto", "ensemble", "executor")),
    Variable(("SERVE_COMPILE",), "compile", "auto",
             "what becomes of NVTabular workflows: `auto`, a numpy program where the numbers are"
             " certain to be the same; `off`, NVTabular itself", one_of("auto", "off")),
    Variable(("SERVE_COMPILE_CHECK",), "compile_check", "false",
             "`true`: a load compares each compiled workflow with NVTabular, on generated rows"
             " (some seconds), and serves NVTabular where they differ", boolean),
    Variable(("SERVE_BIND_ADDRESS",), "bind_address", "0.0.0.0",
             "address of the SageMaker API", text),
    Variable(("SERVE_START_TIMEOUT",), "start_timeout", "120",
             "seconds for tritonserver to become live", seconds),
    Variable(("SERVE_LOAD_TIMEOUT",), "load_timeout", "350",
             "seconds for a load (the platform gives up after 360); giving one up takes up to some"
             " ten seconds more, in which its processes are ended: the default leaves them",
             seconds),
    Variable(("SERVE_UNLOAD_TIMEOUT",), "unload_timeout", "350",
             "seconds for an unload (the platform gives up after 360); giving one up takes up to"
             " some ten seconds more, as with a load", seconds),
    Variable(("SERVE_INVOKE_TIMEOUT",), "invoke_timeout", "60",
             "seconds for an invocation (the platform's own limit)", seconds),
    Variable(("SERVE_READ_TIMEOUT",), "read_timeout", "30",
             "seconds for a request to arrive whole; then 408", seconds),
    Variable(("SERVE_SHUTDOWN_TIMEOUT",), "shutdown_timeout", "25",
             "seconds from SIGTERM to exit (the platform kills after 30)", seconds),
    Variable(("SERVE_RESTART_LIMIT",), "restart_limit", "3",
             "deaths of tritonserver within the window that are healed; one more ends the"
             " container", whole(0, 10_000)),
    Variable(("SERVE_RESTART_WINDOW",), "restart_window", "60",
             "that window, in seconds", seconds),
    Variable(("SERVE_MEMORY_RESERVE_MB",), "memory_reserve_mb", "256",
             "memory that loads leave free: a load that is expected to take more is refused with"
             " 507; `0`: never, whatever is lacking", whole(0)),
    Variable(("SERVE_GPU_MEMORY_RESERVE_MB",), "gpu_memory_reserve_mb", "256",
             "the same of each GPU that the model may use; `0`: GPUs are never asked", whole(0)),
    Variable(("SERVE_MAX_INSTANCES",), "max_instances", "",
             "instances that one model may have, of all its groups and versions: each of a Python"
             " model is a process, and takes a second to unload", whole(1, 100_000),
             shown="`16`, or the number of CPUs where there are more"),
    Variable(("SERVE_MAX_REQUEST_MB",), "max_request_mb", "64",
             "MB that an invocation's body may have, also once it is inflated; more is 413. The"
             " least of this, `SERVE_MAX_WAITING_MB` and `SERVE_MAX_WAITING_TOTAL_MB` counts; JSON"
             " that is not turned into binary tensors may have 16 (Payloads, above). tritonserver"
             " up to 2.51 has no limit of its own; to one that has, give a larger"
             " `--http-max-input-size` in `SAGEMAKER_TRITON_ADDITIONAL_ARGS`", whole(1)),
    Variable(("SERVE_MAX_WAITING",), "max_waiting", "1000",
             "requests of one model that wait for a place in tritonserver; one more gets 503 with"
             " `Retry-After`. Places come first: at least 4 requests of each model are at work"
             " before one waits, more with more instances, with batches, or while it is quick",
             whole(0)),
    Variable(("SERVE_MAX_WAITING_MB",), "max_waiting_mb", "256",
             "MB of requests and answers that are held for one model, those still coming and what"
             " is made of them included, before more get 503; what alone is more is 413, or 500 for"
             " an answer", whole(1)),
    Variable(("SERVE_MAX_WAITING_TOTAL",), "max_waiting_total", "4000",
             "the same for all models: requests that wait", whole(0)),
    Variable(("SERVE_MAX_WAITING_TOTAL_MB",), "max_waiting_total_mb", "1024",
             "the same for all models: MB of requests and answers", whole(1)),
    Variable(("SERVE_MAX_CONNECTIONS",), "max_connections", "",
             "connections of callers; for one more, one makes way: first those that never asked,"
             " then that which has been idle for longest; if none may, it gets 503", whole(1),
             shown="half of the descriptors that it may have, at most 10,000"),
    Variable(("SERVE_TRANSLATE_JSON_FROM",), "translate_json_from", str(64 * 1024),
             "JSON requests and answers of this many bytes and more pass tritonserver as binary"
             " tensors; `0`: none does", whole(0)),
    Variable(("SERVE_PYTHON_THREADS",), "python_threads", "8",
             "threads that tritonserver keeps for the calls of one Python model instance to others"
             " (its own default is 32)", whole(1, 10_000)),
    Variable(("SERVE_MODEL_ENVIRONMENT",), "model_environment", "",
             "what of the container's environment models see: `all`, or `clean`: no `AWS_*`, no"
             " `SERVE_*`, no `SAGEMAKER_TRITON_*`", one_of("all", "clean"),
             shown="`clean` in multi-model mode, else `all`"),
    Variable(("SERVE_LOG_LEVEL",), "log_level", "info",
             "`debug`, `info`, `warning` or `error`", level),
)  # fmt: skip


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Reads every variable; an empty one counts as unset, as in upstream's serve script.

    Raises SettingsError with all mistakes at once.
    """
    mistakes: list[Mistake] = []
    values = _completed({row.field: _read(row, environment, mistakes) for row in SETTINGS})
    mistakes += _unpublishable(values, environment)
    mistakes += _port_conflicts(values)
    if mistakes:
        raise SettingsError(mistakes)
    return Settings(**values, unknown=_unknown(environment))


def settings_table() -> str:
    """The README's table, in Markdown, header included."""
    rows = ["| variable | effect | default |", "|---|---|---|"]
    return "\n".join(rows + [_table_row(row) for row in SETTINGS]) + "\n"


def _table_row(row: Variable) -> str:
    names = ", ".join(f"`{name}`" for name in row.names)
    default = row.shown or (f"`{row.default}`" if row.default else "unset")
    return f"| {names} | {row.meaning} | {default} |"


def _set_name(row: Variable, environment: Mapping[str, str]) -> str | None:
    return next((name for name in row.names if environment.get(name)), None)


def _read(row: Variable, environment: Mapping[str, str], mistakes: list[Mistake]) -> Any:
    name = _set_name(row, environment)
    raw = environment[name] if name else row.default
    try:
        return row.parser(raw) if raw else None
    except Unfit as error:
        mistakes.append(Mistake(name or row.names[0], raw, str(error)))
        return None


def _unpublishable(values: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Mistake]:
    for row in SETTINGS if values["publish_metrics"] else ():
        if row.field.startswith("cloudwatch_") and not _set_name(row, environment):
            yield Mistake(row.names[0], "", "a name, since metrics are to be published")


def _port_conflicts(values: Mapping[str, Any]) -> Iterator[Mistake]:
    safe: PortRange | None = values["safe_port_range"]
    taken = {values["bind_port"]: "SAGEMAKER_BIND_TO_PORT"}
    for kind in ("grpc", "metrics"):
        name, number = _triton(f"{kind.upper()}_PORT"), values[f"{kind}_port"]
        if number and safe and number not in safe:
            yield Mistake(name, str(number), f"a port in SAGEMAKER_SAFE_PORT_RANGE ({safe})")
        if number and number in taken:
            yield Mistake(name, str(number), f"another port than {taken[number]}")
        taken[number] = name


def _completed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values whose defaults depend on other values, filled in."""
    metrics = bool(values["allow_metrics"] or values["publish_metrics"])
    free = values["safe_port_range"] is not None
    return {
        **values,
        "ping_mode": values["ping_mode"] or ("live" if values["multi_model"] else "ready"),
        "allow_metrics": metrics,
        "grpc_port": _fixed(values, "grpc", DEFAULT_GRPC_PORT, values["allow_grpc"], free),
        "metrics_port": _fixed(values, "metrics", DEFAULT_METRICS_PORT, metrics, free),
        "additional_args": values["additional_args"] or (),
        "model_environment": values["model_environment"]
        or ("clean" if values["multi_model"] else "all"),
    }


def _fixed(
    values: Mapping[str, Any], kind: str, default: int, wanted: bool, free: bool
) -> int | None:
    if not wanted:
        return None
    asked: int | None = values[f"{kind}_port"]
    return asked or (None if free else default)


def _unknown(environment: Mapping[str, str]) -> tuple[UnknownVariable, ...]:
    known = {name for row in SETTINGS for name in row.names}
    ours = sorted(name for name in environment if name.startswith(OUR_PREFIXES))
    return tuple(
        UnknownVariable(name, next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None))
        for name in ours
        if name not in known
    )
