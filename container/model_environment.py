"""The part of the container's environment that models see.

A model runs its own code. The container's environment leads to its role's credentials, which on
most endpoints read every tenant's archives, and holds its settings: neither is a model's business
where archives are not all of one owner. With `clean`, models are started without them, and the
container's own process, whose environment keeps them, shuts itself to other processes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Literal

ModelEnvironment = Literal["all", "clean"]

#: AWS's variables hold credentials, or say where some are to be had
#: (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, AWS_WEB_IDENTITY_TOKEN_FILE). OpenTelemetry's hold what
#: opens the receiver of the traces (OTEL_EXPORTER_OTLP_HEADERS). The others are settings of this
#: container.
HIDDEN = ("AWS_", "OTEL_", "SERVE_", "SAGEMAKER_TRITON_")

PR_SET_DUMPABLE = 4  # linux/prctl.h


def hide_from_models(environment: Mapping[str, str], choice: ModelEnvironment) -> dict[str, str]:
    """The container's environment without what models are not to see."""
    hidden = HIDDEN if choice == "clean" else ()
    return {name: value for name, value in environment.items() if not name.startswith(hidden)}


def shut_ourselves() -> None:
    """Keep other processes from reading our environment and memory, and from tracing us.

    The kernel then asks them for CAP_SYS_PTRACE, which neither Docker nor SageMaker grants, not
    even to root; nor can our memory be dumped. What we start is as open as ever: the next exec
    resets it.
    """
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
