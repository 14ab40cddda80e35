"""The reasons for which the container ends or does not start, and whose fault each is.

ContainerError
├── SettingsError            the operator's: the environment
├── RuntimeNotFound          the image's: no tritonserver
├── RuntimeUnusable          the image's: a tritonserver that cannot run the models' Python
├── PortsExhausted           the platform's: too few ports in the safe range
├── SocketPathLong           the operator's: the directory's path is too long for Unix sockets
├── WorkDirUnfit             the operator's: its path has characters that tritonserver does not take
├── BindFailed               the platform's: the main port cannot be had
├── SingleModelUnusable      the archive's: a single-model endpoint's model cannot be told or served
└── TritonFailed             tritonserver's
    ├── TritonArgumentsRefused  it does not take its arguments, which it would not next time either
    ├── TritonNotLive        it never came up
    └── TritonCrashLoop      it came up and died, too often
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ContainerError(Exception):
    """Any reason for the container to end with a last word instead of a traceback."""


@dataclass(frozen=True)
class Mistake:
    """A variable that cannot be used as it is."""

    variable: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.variable} is {self.found!r}, expected {self.expected}"


class SettingsError(ContainerError):
    """Every mistake in the environment, in one message."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(map(str, self.mistakes)))


class RuntimeNotFound(ContainerError):
    """No tritonserver in any of the places searched."""

    def __init__(self, searched: Sequence[str]) -> None:
        self.searched = tuple(searched)
        super().__init__(
            f"no tritonserver found; looked at: {', '.join(self.searched)}; "
            "set SERVE_TRITON_SERVER to its path or install the wheel nvidia-pytriton"
        )


class RuntimeUnusable(ContainerError):
    """A part of the runtime does not fit: which one, what it is, what it should be."""

    def __init__(self, part: str, found: str, remedy: str) -> None:
        self.part, self.found, self.remedy = part, found, remedy
        super().__init__(f"{part}: {found}; {remedy}")


class PortsExhausted(ContainerError):
    """The range holds fewer bindable ports than were asked for."""

    def __init__(self, low: int, high: int, needed: int, found: int) -> None:
        self.low, self.high, self.needed, self.found = low, high, needed, found
        super().__init__(
            f"{needed} ports are asked for in {low}-{high}, {found} can be bound; "
            "widen SAGEMAKER_SAFE_PORT_RANGE"
        )


class SocketPathLong(ContainerError):
    """A Unix socket's path would be longer than the kernel takes."""

    def __init__(self, folder: Path, too_many: int) -> None:
        self.folder, self.too_many = folder, too_many
        super().__init__(
            f"tritonserver's Unix sockets are to lie in {folder}, whose path is {too_many} bytes "
            "longer than the kernel takes; set TMPDIR to a shorter one"
        )


class WorkDirUnfit(ContainerError):
    """The directory's path has characters with which no model would load."""

    def __init__(self, folder: Path, found: str) -> None:
        self.folder, self.found = folder, found
        super().__init__(
            f"files are written to {str(folder)!r}, whose path has {found!r} in it; tritonserver "
            "starts models by a shell, and gRPC reads the path, so that only letters, digits and "
            "@%+=:./_- can be in it: set TMPDIR to another directory"
        )


class BindFailed(ContainerError):
    """The port of the SageMaker API cannot be listened on."""

    def __init__(self, address: str, port: int, reason: str) -> None:
        self.address, self.port = address, port
        super().__init__(
            f"cannot listen on {address} port {port}: {reason}; "
            "free the port, or set SAGEMAKER_BIND_TO_PORT or SERVE_BIND_ADDRESS"
        )


class WorkDirUnusable(ContainerError):
    """The directory for what a run writes cannot be made."""

    def __init__(self, configured: Path | None, reason: str) -> None:
        where = f"TMPDIR={configured}" if configured else "the directory for temporary files"
        super().__init__(
            f"{where}: no directory can be made there ({reason}); "
            "set TMPDIR to one that can be written to"
        )


class SingleModelUnusable(ContainerError):
    """The single-model endpoint's model: which is meant is unclear, or it does not load."""

    @classmethod
    def unclear(cls, found: str) -> SingleModelUnusable:
        """Not exactly one model, and none of them named."""
        return cls(
            f"{found}; a single-model endpoint serves the only model of SERVE_SINGLE_MODEL_DIR, or "
            "the one that SAGEMAKER_TRITON_DEFAULT_MODEL_NAME names; for a multi-model endpoint "
            "set SAGEMAKER_MULTI_MODEL=true"
        )

    @classmethod
    def failed(cls, name: str, reason: str) -> SingleModelUnusable:
        """Its archive cannot be served, or it raised while it was loaded."""
        return cls(f"the model {name} cannot be served: {reason}")


class TritonFailed(ContainerError):
    """tritonserver is not running and will not be started again."""


class TritonArgumentsRefused(TritonFailed):
    """tritonserver ended at once, since it does not take an argument; said: its words for it."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"tritonserver refuses its arguments ({said}); correct "
            "SAGEMAKER_TRITON_ADDITIONAL_ARGS, or use a tritonserver that takes them "
            "(tritonserver --help lists those of one)"
        )


class TritonNotLive(TritonFailed):
    """tritonserver ran, and did not become live in time."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(
            f"tritonserver was not live after {timeout_s:g} s; its own log above says why"
        )


class TritonCrashLoop(TritonFailed):
    """tritonserver died more often than the limit allows.

    `status` is the last one as the operating system gave it: negative for a signal.
    """

    def __init__(self, status: int, deaths: int, window_s: float) -> None:
        self.status, self.deaths, self.window_s = status, deaths, window_s
        super().__init__(
            f"tritonserver died {deaths} times in {window_s:g} s, "
            f"the last time with {describe_status(status)}; its own log above says why"
        )


def describe_status(status: int) -> str:
    """An exit status in words: `exit code 3`, `signal SIGKILL`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
