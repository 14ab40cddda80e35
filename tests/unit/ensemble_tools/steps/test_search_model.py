"""The generated step in the place of QueryFaiss, without tritonserver and with another FAISS."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ensemble_tools.steps.sources import render_operator
from tests.graphs import fake_backend

SOURCE = render_operator(
    "QueryFaiss",
    "search",
    {"query": ["query"]},
    {"candidate_ids": "query"},
    {"index": "items.faiss", "topk": 3},
)


class Index:
    """Answers the first ids for every vector."""

    d = 4

    def search(self, vectors: Any, count: int) -> tuple[Any, Any]:
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        return None, np.tile(np.arange(count, dtype=np.int64), (len(vectors), 1))


class Hnsw(Index):
    """One that is a graph."""


class Mapped:
    """The lists of an index with 4 bytes a vector: two of 3 vectors behind 100 bytes, one empty."""

    code_size, nlist = 4, 3

    def __init__(self, file_bytes: int, filename: str = "") -> None:
        self.totsize, self.filename = file_bytes, filename
        places = [SimpleNamespace(offset=offset, size=size) for offset, size in LISTS]
        self.lists = SimpleNamespace(at=places.__getitem__)


#: Where each begins, and its vectors; ids have 8 bytes.
LISTS = ((136, 3), (100, 3), (172, 0))


@pytest.fixture(autouse=True)
def faiss(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Also what a model imports."""
    before = sys.modules.get(fake_backend.MODULE)
    fake_backend.install()
    module: Any = ModuleType("faiss")
    module.IO_FLAG_MMAP, module.IO_FLAG_READ_ONLY = 1, 2
    module.read_index = lambda path, flags: Index()
    module.try_extract_index_ivf = lambda index: None
    module.OnDiskInvertedLists = Mapped
    module.downcast_index = lambda index: index
    module.IndexHNSW = Hnsw
    monkeypatch.setitem(sys.modules, "faiss", module)
    yield module
    if before is not None:
        sys.modules[fake_backend.MODULE] = before


def made(folder: Path, *dims: int, topk: int = 3, gpu: int | None = None) -> Any:
    """dims: those of the vectors, as the config has them. gpu: the instance's; None for the CPU."""
    path = folder / "model.py"
    module: dict[str, Any] = {"__file__": str(path)}
    exec(SOURCE.replace("'topk': 3", f"'topk': {topk}"), module)
    model = module["TritonPythonModel"]()
    given = {"name": "query", "dims": [str(it) for it in dims or (-1, 4)]}
    model.initialize(
        {
            "model_config": json.dumps({"input": [given]}),
            "model_instance_kind": "CPU" if gpu is None else "GPU",
            "model_instance_device_id": str(gpu or 0),
        }
    )
    return model


def ask(model: Any, vectors: Any) -> Any:
    tensor = fake_backend.Tensor("query", vectors)
    (response,) = model.execute([fake_backend.InferenceRequest("", 0, [tensor], ["candidate_ids"])])
    return response


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ids_of_all_vectors_in_one_row(tmp_path: Path, dtype: str) -> None:
    """As Merlin's operator flattens them, 32 bits each."""
    (tensor,) = ask(made(tmp_path), np.zeros((4, 2), dtype).T.repeat(1, 0)).output_tensors()
    assert tensor.name() == "candidate_ids"
    assert tensor.as_numpy().tolist() == [0, 1, 2, 0, 1, 2]
    assert tensor.as_numpy().dtype.name == "int32"


def test_no_vectors(tmp_path: Path) -> None:
    (tensor,) = ask(made(tmp_path), np.zeros((0, 4), np.float32)).output_tensors()
    assert tensor.as_numpy().shape == (0,)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 4, 1)])
def test_vectors_that_are_none(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """FAISS asserts without words."""
    error = ask(made(tmp_path), np.zeros(shape, np.float32)).error()
    assert error.code() == fake_backend.TritonError.INVALID_ARG
    assert error.message() == (
        f"QueryFaiss: the shape of column 'query' is {[*shape]}, and the index has vectors of 4 "
        "numbers; expected [rows, 4]"
    )


def test_an_index_of_other_vectors(tmp_path: Path) -> None:
    """Where the model before it says how long its vectors are, the load says so."""
    for dims in ((-1, -1), (-1,), (-1, 4)):
        made(tmp_path, *dims)
    with pytest.raises(ValueError, match="make the index of that model's vectors") as caught:
        made(tmp_path, -1, 8)
    assert (
        "vectors of column 'query' have 8 numbers, and those of the index items.faiss have 4"
        in (str(caught.value))
    )


def test_more_vectors_than_an_answer_holds_ids_of(tmp_path: Path) -> None:
    model = made(tmp_path, topk=1000)
    error = ask(model, np.zeros((1001, 4), np.float32)).error()
    assert error.code() == fake_backend.TritonError.INVALID_ARG
    assert "1001 vectors, for each of which 1000 ids are found; 1000000 ids are" in error.message()


def test_more_than_an_answer_holds(tmp_path: Path) -> None:
    """tritonserver would need gigabytes for the JSON, and take its neighbours with it."""
    with pytest.raises(ValueError, match="topk is 1000001, and up to 1000000 are found"):
        made(tmp_path, topk=1_000_001)


def test_an_index_that_cannot_be_read(tmp_path: Path, faiss: Any) -> None:
    """FAISS's words begin with its own code's."""

    def read(path: str, flags: int) -> Index:
        assert path == str(tmp_path / "items.faiss")
        raise RuntimeError(
            "Error in faiss::Index* read_index() at io.cpp:545: Error: 'ret == (size)' failed: "
            "read error: 902 != 2048 (Success)"
        )

    faiss.read_index = read
    with pytest.raises(ValueError, match=r"the index items\.faiss cannot be read") as caught:
        made(tmp_path)
    assert str(caught.value) == (
        "QueryFaiss: the index items.faiss cannot be read (read error: 902 != 2048 (Success)); "
        "export it again"
    )


@pytest.mark.parametrize("file_bytes", [171, 0, 172, 500])
def test_lists_behind_the_end_of_their_file(tmp_path: Path, faiss: Any, file_bytes: int) -> None:
    """What is read in place is not read at the load: a search there would end the process."""
    faiss.try_extract_index_ivf = lambda index: SimpleNamespace(invlists=Mapped(file_bytes))
    faiss.downcast_InvertedLists = lambda lists: lists
    if file_bytes >= 172:
        assert made(tmp_path).index.d == 4
        return
    with pytest.raises(ValueError, match="export it again") as caught:
        made(tmp_path)
    assert str(caught.value) == (
        f"QueryFaiss: the index items.faiss cannot be read (it has {file_bytes} bytes, and its "
        "lists end at byte 172); export it again"
    )


@pytest.mark.parametrize("file_bytes", [171, 172])
def test_lists_in_a_file_of_their_own(tmp_path: Path, faiss: Any, file_bytes: int) -> None:
    """Read without flags: with them FAISS leaves the lists out. The length of that file counts."""
    file = tmp_path / "lists"
    file.write_bytes(bytes(file_bytes))
    read: list[tuple[int, ...]] = []

    def read_index(path: str, *flags: int) -> Index:
        read.append(flags)
        return Index()

    faiss.read_index = read_index
    faiss.try_extract_index_ivf = lambda index: SimpleNamespace(invlists=Mapped(172, str(file)))
    faiss.downcast_InvertedLists = lambda lists: lists
    if file_bytes == 172:
        assert made(tmp_path).index.d == 4
    else:
        with pytest.raises(ValueError, match="it has 171 bytes, and its lists end at byte 172"):
            made(tmp_path)
    assert read == [(3,), ()]


@pytest.mark.parametrize("inside", [None, "index", "base_index", "quantizer"])
def test_numbers_that_a_graph_would_compare_without_end(
    tmp_path: Path, faiss: Any, inside: str | None
) -> None:
    """Others are searched as Merlin does, which finds nothing for what is no number."""
    around = Index()
    if inside:
        setattr(around, inside, Hnsw())
    faiss.read_index = lambda path, flags: around if inside else Hnsw()
    model = made(tmp_path)
    for number in (np.nan, np.inf, -1e18, 3e38):
        error = ask(model, np.array([[1, 2, 3, number]], np.float32)).error()
        assert error.code() == fake_backend.TritonError.INVALID_ARG
        assert error.message() == (
            "QueryFaiss: column 'query' has NaN, or numbers of 1e+18 and more; an HNSW index is "
            "searched with smaller numbers alone"
        )
    assert ask(model, np.full((1, 4), 1e17, np.float32)).error() is None
    faiss.read_index = lambda path, flags: Index()
    assert ask(made(tmp_path), np.full((1, 4), np.nan, np.float32)).error() is None


def test_lists_in_memory(tmp_path: Path, faiss: Any) -> None:
    faiss.try_extract_index_ivf = lambda index: SimpleNamespace(invlists=object())
    faiss.downcast_InvertedLists = lambda lists: lists
    assert made(tmp_path).index.d == 4


def test_without_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ValueError, match=r"QueryFaiss needs FAISS .*: install faiss-cpu into the"):
        made(tmp_path)


class OnGpu(Index):
    """What FAISS copies to a GPU."""


class Resources:
    """FAISS's, of one process on a GPU; by default 1.5 GB of it."""

    temporary = 1536 << 20

    def setTempMemory(self, size: int) -> None:
        self.temporary = size


@pytest.fixture
def gpus(faiss: Any) -> Any:
    """FAISS on a machine with two; `read` has the flags of each read, `copied` what went where."""
    read: list[int] = []
    copied: list[tuple[int, int]] = []

    def read_index(path: str, flags: int) -> Index:
        read.append(flags)
        return Index()

    def copy(resources: Resources, gpu: int, index: Index) -> OnGpu:
        copied.append((gpu, resources.temporary))
        return OnGpu()

    faiss.read_index, faiss.index_cpu_to_gpu, faiss.get_num_gpus = read_index, copy, lambda: 2
    faiss.StandardGpuResources = Resources
    return SimpleNamespace(read=read, copied=copied)


@pytest.mark.parametrize("gpu", [0, 1])
def test_on_a_gpu(tmp_path: Path, gpus: Any, gpu: int) -> None:
    """An instance of KIND_GPU, on its own; read whole, since a GPU cannot map a file, and with 64
    MB for what searches need: there may be hundreds of such processes."""
    assert isinstance(made(tmp_path, gpu=gpu).index, OnGpu)
    assert (gpus.read, gpus.copied) == ([0], [(gpu, 64 << 20)])


def test_on_the_cpu_beside_a_gpu(tmp_path: Path, gpus: Any) -> None:
    """An instance of KIND_CPU takes nothing of a GPU, and maps its file."""
    assert type(made(tmp_path).index) is Index
    assert (gpus.read, gpus.copied) == ([3], [])


def test_a_gpu_that_this_faiss_does_not_see(tmp_path: Path, gpus: Any, faiss: Any) -> None:
    """A build for CPUs on a machine with GPUs."""
    del faiss.get_num_gpus
    assert type(made(tmp_path, gpu=0).index) is Index


def test_a_gpu_that_cannot_hold_it(
    tmp_path: Path, gpus: Any, faiss: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one of another kind, or without memory for it: it is searched on the CPU."""

    def refuse(*_: object) -> None:
        raise RuntimeError(
            "Error in clone at GpuCloner.cpp:229: Error: 'false' failed: no such kind"
        )

    faiss.index_cpu_to_gpu = refuse
    assert type(made(tmp_path, gpu=0).index) is Index
    said = "QueryFaiss: the index items.faiss is searched on the CPU (no such kind)"
    assert said in capsys.readouterr().out
