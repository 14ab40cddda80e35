"""Describes this container in one line of the log. No I/O, but for a look at backends' folders.

Whoever reads a log first wants to know what was started: in which mode, for which models, with
which Python and backends, and which settings are not the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from container.machine.hardware import PLAIN, Hardware
from container.settings.reading import Settings, list_changes
from container.tritonserver.features import GRPC_RESTRICTED, HTTP_RESTRICTED, METRICS_ADDRESS
from container.tritonserver.runtime import TritonRuntime

#: What the line says in words of its own.
_SAID = {"multi_model", "bind_port", "model_root", "single_model_dir", "backend_python"}
#: Its value may open tritonserver's APIs: the options' names alone are shown.
_ARGUMENTS = "additional_args"


def describe_start(
    settings: Settings,
    runtime: TritonRuntime,
    environment: Mapping[str, str],
    hardware: Hardware = PLAIN,
) -> dict[str, str | int]:
    """The fields of the line."""
    python = runtime.backend_python
    changed = [
        f"{name}={_names(settings.additional_args) if field == _ARGUMENTS else value}"
        for field, name, value in list_changes(environment)
        if field not in _SAID
    ]
    return {
        "mode": "multi-model" if settings.multi_model else "single-model",
        "models": str(settings.model_root if settings.multi_model else settings.single_model_dir),
        "port": settings.bind_port,
        "python": f"{python.executable} ({python.version})" if python else "the image's python3",
        "packages": ", ".join(f"{name} {it}" for name, it in python.packages) if python else "",
        "backends": ", ".join(
            f"{name} (stand-in)" if name in runtime.stand_ins else name for name in runtime.backends
        ),
        "gpus": hardware.gpus,
        "shared_memory": _describe_shared_memory(hardware, settings.shm_default_byte_size),
        "settings": " ".join(changed) or "defaults",
    }


def _describe_shared_memory(hardware: Hardware, region: int) -> str:
    """Which is what Python models are made of; no document says how much SageMaker gives."""
    size = hardware.shared_memory
    shown = "no limit known" if size is None else f"{size >> 20} MB"
    return f"{shown}, {region >> 20} MB for each instance of a Python model"


def describe_open_apis(runtime: TritonRuntime) -> str:
    """A sentence on what models can reach of this tritonserver; empty where it can be shut."""
    flags = {"HTTP": HTTP_RESTRICTED, "gRPC": GRPC_RESTRICTED}
    are_open = [protocol for protocol, flag in flags.items() if flag not in runtime.knows]
    if not are_open:
        return ""
    lacking = " and no ".join(f"--{flags[protocol]}" for protocol in are_open)
    return (
        f"the models can load, unload and ask other models over {' and '.join(are_open)}: found no "
        f"{lacking} in tritonserver {runtime.version or runtime.executable}, expected 2.40 (23.11) "
        "or newer; where archives are not all of one owner, take a newer BASE_IMAGE "
        "(docs/images.md)"
    )


def describe_lacking_metrics(runtime: TritonRuntime) -> str:
    """Why the metrics page has none of tritonserver's own, in a sentence."""
    return (
        f"tritonserver's own metrics are off: found no --{METRICS_ADDRESS} in tritonserver "
        f"{runtime.version or runtime.executable}, expected 2.34 (23.05) or newer"
    )


def _names(arguments: tuple[str, ...]) -> str:
    parted = (it.partition("=") for it in arguments if it.startswith("-"))
    return " ".join(f"{name}{sign}…" if sign else name for name, sign, _ in parted)
