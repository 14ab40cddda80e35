"""Instance types by AWS's tables, and their prices by the user's."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator as Reads

from merlin_simulator.control.instance_types import count_cores, list_families, memory_of
from merlin_simulator.measuring import values
from merlin_simulator.measuring.values import Table, shown
from merlin_simulator.plan_command.files import Impossible, UnusableFile, read_rows
from merlin_simulator.rules import GIB

#: When AWS's tables were read.
READ = "2026-11-25"
#: GiB of one GPU.
_GPU_GIB = {"g4dn": 16, "g5": 24, "g6": 24, "g6e": 48, "gr6": 24, "p2": 12, "p3": 16}


#: SageMaker's have 20 or so.
_MOST_NAME = 63


def _read_name(value: Any) -> str:
    name = values.text(value)
    if not name.isprintable() or len(name) > _MOST_NAME:
        values.refuse(name, f"one line of at most {_MOST_NAME} characters")
    return name


@dataclass(frozen=True)
class InstanceType(Table):
    """A type of instance, in bytes."""

    name: Annotated[str, Reads(_read_name)]
    cores: Annotated[int, Reads(values.whole(1, values.MOST_CORES))]
    memory: Annotated[int, Reads(values.size)]
    #: Of one GPU, None: it has none. Triton puts a model on each GPU by default, so the memory of
    #: one is what bounds them.
    gpu_memory: Annotated[int | None, Reads(values.size)] = None


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


#: Of an hour, in whatever currency.
_MOST_PRICE = 1e9
_COLUMNS = ("instance_type", "price_an_hour")


def read_prices(path: Path) -> dict[str, float]:
    """By instance type, in the file's currency. Raises UnusableFile."""
    prices: dict[str, float] = {}
    for row in read_rows(path, _COLUMNS):
        text = row.values[1]
        try:
            price = float(text)
        except ValueError:
            price = math.nan
        if not 0 <= price <= _MOST_PRICE:
            raise UnusableFile(
                path,
                f"found {shown(text)}, expected the price of an hour",
                row.line,
                row.columns[1],
            )
        prices[row.values[0]] = price
    if not prices:
        raise UnusableFile(path, f"found no rows, expected some of {','.join(_COLUMNS)}")
    return prices
