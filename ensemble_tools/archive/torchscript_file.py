"""Reads a TorchScript file: the arguments of `forward`, and how many tensors it gives."""

from __future__ import annotations

import errno
import pickletools
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with
from ensemble_tools.archive.zip_sizes import measure_unpacked

#: What every TorchScript file holds, and what torch.save writes does not.
TORCHSCRIPT_ENTRY = "constants.pkl"
#: Of TorchScript's code and of its data.
_MAX_CODE = 1024 * 1024
_ARGUMENT = re.compile(r"(\w+): Tensor")
_TABLE = re.compile(r"(\w+): Dict\[str, Tensor\]")
_RETURNED = re.compile(r"Tensor|Tuple\[(Tensor(?:, Tensor)*)\]")


@dataclass(frozen=True)
class Arguments:
    """The arguments of TorchScript's `forward`, by name, and how many tensors it gives.

    Of a dictionary the keys that `forward` itself reads.
    """

    inputs: tuple[str, ...]
    outputs: int


def read_arguments(path: Path) -> Arguments | None:
    """A TorchScript file's arguments; None where it tells none. Raises as read_with does."""
    return read_with(path, _read_arguments) if measure_unpacked(path) else None


def _read_arguments(file: BinaryIO) -> Arguments | None:
    try:
        with zipfile.ZipFile(file) as archive:
            return _parse_forward(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError):
        return None
    except (NotImplementedError, RuntimeError, OverflowError):  # encrypted, or of another method
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:  # an entry that begins in front of the file
            raise
        return None


def _parse_forward(archive: zipfile.ZipFile) -> Arguments | None:
    """The argument list of the class that data.pkl makes, from its code in the archive."""
    data = (name for name in archive.namelist() if re.fullmatch(r"[^/]+/data\.pkl", name))
    top = next(data, "").partition("/")[0]
    module, _, name = _find_first_class(_read_part(archive, f"{top}/data.pkl")).rpartition(" ")
    code = _read_part(archive, f"{top}/code/{module.replace('.', '/')}.py").decode()
    start = f"\n{code}".index(f"\nclass {name}(Module):\n")
    body = code[start:].partition("\nclass ")[0]
    declared, _, answer = (
        body[body.index("\n  def forward(") :].partition(":\n")[0].partition(") -> ")
    )
    parameters = declared.partition(",")[2].strip()  # behind the object itself
    returned = _RETURNED.fullmatch(answer)
    if returned is None:
        return None
    outputs = returned[1].count("Tensor") if returned[1] else 1
    if table := _TABLE.fullmatch(parameters):
        keys = re.findall(rf'\b{table[1]}\["([^"\\]+)"\]', body)
        return Arguments(tuple(dict.fromkeys(keys)), outputs) if keys else None
    arguments = [_ARGUMENT.fullmatch(it.strip()) for it in parameters.split(",")]
    names = tuple(it[1] for it in arguments if it)
    return Arguments(names, outputs) if len(names) == len(arguments) else None


def _find_first_class(data: bytes) -> str:
    """`module name` of the first class in a pickle; nothing of it is run."""
    for opcode, value, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            return str(value)
    raise LookupError


def _read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as part:
        return part.read(_MAX_CODE)
