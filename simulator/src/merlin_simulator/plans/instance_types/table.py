"""Cores, memory and GPU memory of SageMaker's instance types. No I/O.

Cores are vCPUs. Memory and vCPUs: simulator/control/instance_types.py. GPUs: AWS Batch User Guide,
"Run GPU jobs", which lists GPUs and their memory by EC2 type (read on READ); P2 and P3: AWS,
"Amazon EC2 instance types".
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from merlin_simulator.control.production import count_cores, list_families, memory_of
from merlin_simulator.plans.errors import Impossible, shown
from merlin_simulator.rules import GIB

#: When AWS's tables were read.
READ = "2026-11-25"
#: GiB of one GPU.
_GPU_GIB = {"g4dn": 16, "g5": 24, "g6": 24, "g6e": 48, "gr6": 24, "p2": 12, "p3": 16}


@dataclass(frozen=True)
class InstanceType:
    """Bytes. gpu_memory: of one GPU, None: it has none. Triton puts a model on each GPU by default,
    so the memory of one is what bounds them.
    """

    name: str
    cores: int
    memory: int
    gpu_memory: int | None


def find_instance_type(name: str) -> InstanceType:
    """As ml.m5.xlarge. Raises Impossible for what is not known here."""
    memory, cores = memory_of(name), count_cores(name)
    if memory is None or cores is None:
        if memory_of(f"ml.{name}") is not None:
            raise Impossible(
                f"found instance type {shown(name)}, expected SageMaker's name of it: ml.{name}"
            )
        family = name.removeprefix("ml.").partition(".")[0]
        near = difflib.get_close_matches(family, list_families(), n=3)
        hint = f"families like it: {', '.join(near)}" if near else "as ml.m5.xlarge"
        raise Impossible(
            f"found instance type {shown(name)}, expected one of SageMaker whose memory is known "
            f"here ({hint}); give another with memory and cores of its own under [[instance_types]]"
        )
    gib = _GPU_GIB.get(name.removeprefix("ml.").partition(".")[0])
    return InstanceType(name, cores, memory, None if gib is None else gib * GIB)
