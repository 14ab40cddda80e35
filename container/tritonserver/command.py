"""Settings into tritonserver's command line and environment. No I/O.

Models run beside tritonserver and can reach its sockets, so what steers it is shut to everybody but
this container (serve/triton/access.py), as far as its version can shut it.

Only flags that 2.35 (in Merlin's images before 23.12) knows are used without a look whether the
tritonserver that is there knows them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import uvloop

from container.addresses import Addresses
from container.model_environment import hide_from_models
from container.settings.reading import Settings
from container.settings.values import pair_flags
from container.traces_endpoint import find_traces_endpoint
from container.tritonserver.features import (
    CLIENT_SHM,
    GRPC_RESTRICTED,
    HISTOGRAMS,
    HTTP_RESTRICTED,
    MAX_INPUT,
    METRICS_ADDRESS,
    TRACEPARENT,
)
from container.tritonserver.runtime import TritonRuntime
from serve.triton.access import GRPC_KEY, HTTP_HEADER, TritonAccess

#: For how long tritonserver itself waits for requests in flight when it is told to stop. They have
#: been answered or given up before; one that hangs costs this much.
EXIT_TIMEOUT_S = 5
#: Threads for the calls of one Python model instance to others; tritonserver's own 32 cost each
#: load time and memory (docs/performance.md).
PYTHON_THREADS = 8

# Meant for our own interpreter; in a stub they would mix our packages or its library with the
# models'.
OUR_PYTHON = ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME", "__PYVENV_LAUNCHER__")
#: What PYTHONPATH may name of ours: the folders of our code and of our packages.
OUR_FOLDERS = (Path(__file__).parents[2], Path(uvloop.__file__).parents[1])
#: A folder of packages that an interpreter has on its path by itself. Merlin's images name theirs.
_INTERPRETERS_OWN = re.compile(r"/python\d(\.\d+)?/(site|dist)-packages/?$")

#: The APIs that steer tritonserver or tell of its models; health stays open.
CONTROL = (
    "model-repository",
    "shared-memory",
    "model-config",
    "statistics",
    "trace",
    "logging",
    "metadata",
)
#: Where models find warm interpreters (container.warm).
WARM = "MERLIN_WARM_INTERPRETERS"
#: How long a step waits for a feature store (ensemble_tools/steps/lookup_model.py); and what keeps
#: Feast from telling its authors of each call.
STORE_TIMEOUT, STORE_REPORTS = "MERLIN_FEATURE_STORE_TIMEOUT", "FEAST_USAGE"
#: Keeps TensorFlow from taking all of a GPU's memory that is free, also where the model's own code
#: imports it: others are to use it as well.
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
#: Read by OpenMP (torch, XGBoost, LightGBM, numpy's BLAS) and by TensorFlow.
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_TRACES = "--trace-config=opentelemetry,"
#: Of one export, as tritonserver reads it: its stop waits for those that are left, a few at most.
_EXPORT_TIMEOUT = "500ms"
#: More bytes than any request has.
_ANY_SIZE = 2**40
_FORWARDED = "http-header"  # --http-header-forward-pattern


@dataclass(frozen=True)
class TritonCommand:
    """The command that starts tritonserver."""

    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    #: Begins the name of every region that it makes in /dev/shm.
    shm_prefix: str
    #: Words of argv that nobody else is to read.
    secrets: tuple[str, ...] = field(default=(), repr=False)
    #: Whether argv ends with an operator's own arguments.
    has_added: bool = False
    #: What of an earlier life keeps it from listening.
    socket_files: tuple[Path, ...] = ()


def build_command(
    settings: Settings,
    runtime: TritonRuntime,
    addresses: Addresses,
    serving_repository: Path,
    environment: Mapping[str, str],
    *,
    gpu_count: int,
    shm_prefix: str,
    access: TritonAccess | None = None,
    warm: Path | None = None,
    cuda_compat: Path | None = None,
) -> TritonCommand:
    """The command for this container.

    `environment` is what tritonserver and the models inherit, as far as they may; `shm_prefix`
    must be this container's alone among all that share a /dev/shm. access: what opens its APIs;
    none leaves them open. warm: where models find warm interpreters. cuda_compat: the folder of the
    CUDA compatibility libraries, if they are to be found before the host's.
    """
    if not can_show_metrics(runtime):
        addresses = replace(addresses, metrics=None)
    argv = (
        str(runtime.executable),
        f"--model-repository={serving_repository}",
        *_make_control_options(settings),
        *addresses.listening_options(),
        f"--http-thread-count={settings.thread_count}",
        *_where_known(settings, runtime, addresses),
        *_make_backend_options(settings, runtime, shm_prefix),
        *_make_log_options(settings),
        *_make_gpu_limits(settings.model_load_gpu_limit, gpu_count),
        *(_make_restrictions(settings, runtime, access) if access else ()),
        *_make_trace_options(settings, runtime, find_traces_endpoint(environment)),
        *settings.additional_args,
    )
    seen = hide_from_models(environment, settings.model_environment)
    hidden = (access.control, access.inference) if access else ()
    child = _make_environment(runtime, seen)
    _lead(child, "LD_LIBRARY_PATH", cuda_compat)
    if settings.intra_op_threads:
        child |= {name: str(settings.intra_op_threads) for name in THREADS if name not in child}
    child[STORE_TIMEOUT] = f"{settings.feature_store_timeout:g}"
    child.setdefault(STORE_REPORTS, "False")
    child.setdefault(GROWTH, "true")
    if warm is not None:
        child[WARM] = str(warm)
    if any(argument.startswith(_TRACES) for argument in argv):
        _bound_exports(child, environment)
    return TritonCommand(
        argv, child, shm_prefix, hidden, bool(settings.additional_args), addresses.socket_files
    )


def can_show_metrics(runtime: TritonRuntime) -> bool:
    """Whether its metrics can be listened for apart from HTTP; there are none else."""
    return METRICS_ADDRESS in runtime.knows


def name_shm_prefix(process_id: int, token: str) -> str:
    """A name that no other container on this machine has; the token tells apart equal ids."""
    return f"serve_{process_id}_{token}_"


def _make_control_options(settings: Settings) -> Iterator[str]:
    yield "--model-control-mode=explicit"
    yield f"--model-namespacing={settings.model_namespacing}"
    yield "--strict-readiness=false"  # one model that failed must not make the server unready
    if not settings.auto_complete:
        yield "--disable-auto-complete-config"
    yield f"--exit-timeout-secs={EXIT_TIMEOUT_S}"


def _where_known(settings: Settings, runtime: TritonRuntime, addresses: Addresses) -> Iterator[str]:
    """Arguments of newer tritonservers; left out where the additional arguments have them.

    Nobody names regions of shared memory: callers may not, and models are to reach no others. How
    large a request may be the container says, by SERVE_MAX_REQUEST_MB.
    """
    for flag, value in ((CLIENT_SHM, "false"), (MAX_INPUT, _ANY_SIZE)):
        if flag in runtime.knows and not _names(settings.additional_args, flag):
            yield f"--{flag}={value}"
    configured = any(HISTOGRAMS in argument for argument in settings.additional_args)
    if HISTOGRAMS in runtime.knows and addresses.metrics is not None and not configured:
        yield f"--metrics-config={HISTOGRAMS}=true"


def _make_backend_options(
    settings: Settings, runtime: TritonRuntime, shm_prefix: str
) -> Iterator[str]:
    yield f"--backend-directory={runtime.backend_directory}"
    if runtime.cache_directory:
        yield f"--cache-directory={runtime.cache_directory}"
    prefixes = {name: f"{shm_prefix}{name}-" for name in runtime.configured_apart}
    for name, prefix in {"python": shm_prefix, **prefixes}.items():
        config = f"--backend-config={name}"
        yield f"{config},shm-default-byte-size={settings.shm_default_byte_size}"
        yield f"{config},shm-growth-byte-size={settings.shm_growth_byte_size}"
        yield f"{config},shm-region-prefix-name={prefix}"
        yield f"{config},thread-pool-size={PYTHON_THREADS}"
    if settings.tensorflow_version:
        yield f"--backend-config=tensorflow,version={settings.tensorflow_version}"
    if settings.buffer_manager_thread_count is not None:
        yield f"--buffer-manager-thread-count={settings.buffer_manager_thread_count}"


def _make_log_options(settings: Settings) -> Iterator[str]:
    for kind in ("verbose", "info", "warning", "error"):
        value = getattr(settings, f"log_{kind}")
        if value is not None:
            yield f"--log-{kind}={value}"


def _make_restrictions(
    settings: Settings, runtime: TritonRuntime, access: TritonAccess
) -> Iterator[str]:
    """The APIs that are shut; tritonserver takes each in one group only.

    A flag that is among the additional arguments is left to them. Over HTTP this container never
    sends the secret of model control, so that there those APIs are shut to everybody.
    """
    left = [flag for flag in runtime.knows if not _names(settings.additional_args, flag)]
    control = ",".join(CONTROL)
    if HTTP_RESTRICTED in left:
        yield f"--{HTTP_RESTRICTED}={control}:{HTTP_HEADER}={access.control}"
        if not _forwards_access(settings.additional_args):
            yield f"--{HTTP_RESTRICTED}=inference:{HTTP_HEADER}={access.inference}"
    if GRPC_RESTRICTED in left:
        # SAGEMAKER_TRITON_ALLOW_GRPC is for others in the container, who are to ask the models.
        shut = ",".join(CONTROL[:-1]) if settings.allow_grpc else f"{control},inference"
        yield f"--{GRPC_RESTRICTED}={shut}:{GRPC_KEY}={access.control}"


def _make_trace_options(
    settings: Settings, runtime: TritonRuntime, endpoint: str | None
) -> Iterator[str]:
    """Spans of its own, of what bears a traceparent and of nothing else: so says a rate of 0.

    Left to the additional arguments if they say a word about tracing. An endpoint with a password
    is not handed to it: the models would see it on its command line.
    """
    if endpoint is None or TRACEPARENT not in runtime.knows or "@" in endpoint:
        return
    if not any(argument.startswith("--trace-") for argument in settings.additional_args):
        yield "--trace-config=mode=opentelemetry"
        yield f"{_TRACES}url={endpoint}"
        yield "--trace-config=rate=0"
        yield "--trace-config=level=TIMESTAMPS"


def _names(arguments: Sequence[str], flag: str) -> bool:
    return any(name == flag for name, _ in pair_flags(arguments))


def _forwards_access(arguments: Sequence[str]) -> bool:
    """Whether tritonserver is told to give the models the header that opens inference.

    A pattern need fit only a part of a header's name. It is RE2's, which Python reads but for rare
    forms; one that it cannot read counts.
    """
    for name, pattern in pair_flags(arguments):
        if name.startswith(_FORWARDED):  # tritonserver takes flags that are cut short, too
            try:
                return bool(re.search(pattern, HTTP_HEADER, re.I))
            except re.error:
                return True
    return False


def _make_gpu_limits(limit: float | None, gpu_count: int) -> Iterator[str]:
    if limit is not None:
        for gpu in range(gpu_count):
            yield f"--model-load-gpu-limit={gpu}:{limit:g}"


def _make_environment(runtime: TritonRuntime, environment: Mapping[str, str]) -> dict[str, str]:
    child = {name: value for name, value in environment.items() if name not in OUR_PYTHON}
    _lead(child, "PATH", runtime.bin_path, without=_own_bins(runtime, environment))
    _lead(child, "LD_LIBRARY_PATH", runtime.library_path)
    if path := _make_python_path(runtime, child.pop("PYTHONPATH", "")):
        child["PYTHONPATH"] = path
    return child


def _make_python_path(runtime: TritonRuntime, path: str) -> str:
    """The image's PYTHONPATH, in which its backends may have packages (DALI's has), without ours.

    Where another Python than the image's runs the models, the packages of the image's go, too: they
    would come before that Python's own. The empty entry goes, which is the working directory.
    """
    ours = {folder.resolve() for folder in OUR_FOLDERS}
    others = [it for it in path.split(os.pathsep) if it and Path(it).resolve() not in ours]
    if runtime.backend_python is not None:
        others = [it for it in others if not _INTERPRETERS_OWN.search(it)]
    return os.pathsep.join(dict.fromkeys(others))


def _own_bins(runtime: TritonRuntime, environment: Mapping[str, str]) -> frozenset[str]:
    """Folders on PATH that belong to our server's virtual environment."""
    active = environment.get("VIRTUAL_ENV")
    bins = {str(Path(active, "bin"))} if active else set()
    return frozenset(bins | ({str(runtime.server_bin)} if runtime.server_bin else set()))


def _bound_exports(child: dict[str, str], environment: Mapping[str, str]) -> None:
    """A receiver that is slow may not hold up tritonserver's end, unless somebody wants it so."""
    ours, common = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"
    if not (environment.get(ours) or environment.get(common)):
        child[ours] = _EXPORT_TIMEOUT


def _lead(
    child: dict[str, str], name: str, first: Path | None, without: frozenset[str] = frozenset()
) -> None:
    """Puts a folder first in a path variable; an empty entry, the working directory, goes."""
    rest = [folder for folder in child.pop(name, "").split(os.pathsep) if folder]
    folders = [*([str(first)] if first else []), *(f for f in rest if f not in without)]
    if folders:
        child[name] = os.pathsep.join(dict.fromkeys(folders))
