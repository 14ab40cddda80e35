"""Additional arguments for tritonserver, held against how this container runs it. No I/O.

tritonserver takes the last one of two: an additional argument replaces the container's own. Some
would keep it from starting (`--load-model`), some from being reached (`--http-port`), some would
have it answer callers beside the container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from container.settings.values import FALSE, TRUE, Unfit, arguments, pair_flags

#: Of restricted APIs: what the container asks for without an operator's key.
_HTTP_NEEDED, _GRPC_NEEDED = {"health", "inference"}, {"health", "model-repository"}
_LOADS = "the container loads archives itself"
_SOCKET = "tritonserver listens for HTTP on a Unix socket"
_REACHED = "the container must reach tritonserver"


def _never(_: str) -> bool:
    return False


def _is_true(value: str) -> bool:
    return value.lower() in TRUE


def _is_false(value: str) -> bool:
    return value.lower() in FALSE


def _is_reached(address: str) -> bool:
    return address in ("0.0.0.0", "127.0.0.1", "localhost")


def _spares(needed: set[str]) -> Callable[[str], bool]:
    return lambda value: needed.isdisjoint(value.partition(":")[0].split(","))


#: Flag -> which of its values go well with the container, and why others do not.
_CONFLICTS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "model-repository": (
        _never,
        "SERVE_MODEL_ROOT and SERVE_SINGLE_MODEL_DIR say where models lie",
    ),
    "model-store": (_never, "SERVE_MODEL_ROOT and SERVE_SINGLE_MODEL_DIR say where models lie"),
    "model-control-mode": (lambda value: value == "explicit", _LOADS),
    "load-model": (_never, _LOADS),
    "model-config-name": (_never, "the container checks and rewrites config.pbtxt alone"),
    "strict-readiness": (_is_false, "one model that failed must not make all unready"),
    "backend-directory": (_never, "the container adds backends to those of the image"),
    "allow-http": (_is_true, _REACHED),
    "http-address": (_never, _SOCKET),
    "http-port": (_never, _SOCKET),
    "allow-grpc": (_is_true, _REACHED),
    "grpc-address": (_is_reached, _REACHED),
    "grpc-port": (_never, "SAGEMAKER_TRITON_GRPC_PORT sets it"),
    "grpc-use-ssl": (_is_false, _REACHED),
    "grpc-use-ssl-mutual": (_is_false, _REACHED),
    "http-restricted-api": (_spares(_HTTP_NEEDED), "the container asks for health and inference"),
    "grpc-restricted-protocol": (
        _spares(_GRPC_NEEDED),
        "the container asks for health and model-repository",
    ),
    "metrics-address": (_is_reached, _REACHED),
    "metrics-port": (_never, "SAGEMAKER_TRITON_METRICS_PORT sets it"),
    "allow-sagemaker": (_is_false, "the container answers SageMaker's calls"),
    "allow-vertex-ai": (_is_false, "callers come through the container"),
    "help": (_never, "it prints its arguments and ends"),
}
#: Their values open tritonserver's APIs.
_SECRET = {"http-restricted-api", "grpc-restricted-protocol"}


def parse_triton_arguments(raw: str) -> tuple[str, ...]:
    """Words as a shell splits them, none of which keeps the container from its tritonserver."""
    tokens = arguments(raw)
    for name, value in pair_flags(tokens):
        if not (flag := find_flag(name)):
            continue
        goes_well, why = _CONFLICTS[flag]
        if not goes_well(value):
            shown = f"--{flag}" if flag in _SECRET or not value else f"--{flag}={value}"
            raise Unfit(f"no such argument, since {why}", shown)
    return tokens


def find_flag(name: str) -> str:
    """The flag of a name that may be cut short, as getopt takes it; empty for others."""
    if name in _CONFLICTS or not name:
        return name
    return next((flag for flag in _CONFLICTS if flag.startswith(name)), "")
