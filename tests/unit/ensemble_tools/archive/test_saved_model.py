"""What a SavedModel's constants are as TensorFlow makes them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from ensemble_tools import Namespace, plan_archive, read_repository
from ensemble_tools.archive.saved_model import measure_constants
from ensemble_tools.errors import PayloadBroken

EXPORT = Path(__file__).parents[4] / "examples/merlin/tensorflow_ragged/repository"
PLACE = "1_predicttensorflowtriton/1/model.savedmodel"


def field(number: int, value: bytes | int) -> bytes:
    """On protobuf's wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    value, parts = value % 2**64, []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def graph(data_type: int, dims: Iterable[int], *, in_function: bool = False) -> bytes:
    """A SavedModel with a constant of one value."""
    shape = b"".join(field(2, field(1, dim)) for dim in dims)
    tensor = field(1, data_type) + field(2, shape) + field(5, b"\0\0\0\0")
    attribute = field(1, b"value") + field(2, field(8, tensor))
    node = field(1, b"name") + field(2, b"Const") + field(5, attribute)
    inside = field(2, field(1, field(3, node))) if in_function else field(1, node)
    return field(1, 1) + field(2, field(1, b"") + field(2, inside))


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize(
    ("data_type", "dims", "made"),
    [
        (1, (), 4),
        (1, (3, 5), 60),
        (9, (2**40,), 2**43),
        (7, (10,), 240),
        (99, (2, 2**62), 2**65),
        (1, (-1, 5), 0),
        (1, (0, 2**62), 0),
        (1, (2,) * 255, 0),
    ],
)
def test_what_a_constant_becomes(
    tmp_path: Path, data_type: int, dims: tuple[int, ...], made: int, in_function: bool
) -> None:
    content = graph(data_type, dims, in_function=in_function)
    (tmp_path / "saved_model.pb").write_bytes(content)
    assert measure_constants(tmp_path) == (len(content), made)


def test_variables_are_stored_with_it(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert measure_constants(tmp_path) == (0, 0)
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables/variables.data-00000-of-00001").write_bytes(bytes(1000))
    assert measure_constants(tmp_path) == (1000, 0)


def test_no_saved_model(tmp_path: Path) -> None:
    """Whatever stands there, the answer comes at once; tritonserver says what is wrong."""
    assert measure_constants(tmp_path) is None
    content, chance = (EXPORT / PLACE / "saved_model.pb").read_bytes(), random.Random(1)
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(5):
            damaged[chance.randrange(len(content))] = chance.randrange(256)
        (tmp_path / "saved_model.pb").write_bytes(damaged)
        found = measure_constants(tmp_path)
        assert found is None or found[1] >= 0


def test_a_graph_that_stands_for_gigabytes_is_refused(tmp_path: Path) -> None:
    """A real one is not, nor one whose variables are as large."""
    root = Path(shutil.copytree(EXPORT, tmp_path / "export"))
    for name in ("0_transformworkflowtriton", "executor_model"):
        shutil.rmtree(root / name, ignore_errors=True)
    file = root / PLACE / "saved_model.pb"
    assert plan_archive(read_repository(root), None, Namespace("m"))
    file.write_bytes(graph(1, [2**29]))
    with pytest.raises(PayloadBroken, match=r"saved_model\.pb: has constants of 2147483648 bytes"):
        plan_archive(read_repository(root), None, Namespace("m"))
    bare = Path(shutil.copytree(root / PLACE, tmp_path / "bare"))
    shutil.copy(root / "1_predicttensorflowtriton/config.pbtxt", bare)
    with pytest.raises(PayloadBroken, match="has constants of 2147483648 bytes"):
        plan_archive(read_repository(bare), None, Namespace("m"))
    with (root / PLACE / "variables/variables.data-00000-of-00001").open("ab") as variables:
        variables.truncate(2**26)
    assert plan_archive(read_repository(root), None, Namespace("m"))
