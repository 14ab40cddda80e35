"""The generated step in the place of PredictImplicit, without tritonserver and with no implicit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ensemble_tools.steps.sources import render_operator
from tests.graphs import fake_backend

SOURCE = render_operator(
    "PredictImplicit",
    "recommend",
    {"user_id": ["user_id"]},
    {"ids": "user_id", "scores": "user_id"},
    {"model": "model.npz", "module": "implicit.als", "class": "Factors", "count": 3},
)


class Factors:
    """Knows ten users, and recommends them what comes after themselves."""

    @classmethod
    def load(cls, path: str) -> Factors:
        if not Path(path).exists():
            raise FileNotFoundError(path)
        return cls()

    def recommend(self, users: Any, liked: Any, N: int, filter_already_liked_items: bool) -> Any:
        assert liked is None
        assert not filter_already_liked_items
        if (users > 9).any():
            raise IndexError(f"index {users.max()} is out of bounds for axis 0 with size 10")
        ids = users[:, None].astype(np.int32) + np.arange(1, N + 1, dtype=np.int32)
        return ids, ids.astype(np.float32) / 2


@pytest.fixture(autouse=True)
def implicit(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Also what a model imports."""
    before = sys.modules.get(fake_backend.MODULE)
    fake_backend.install()
    module: Any = ModuleType("implicit.als")
    module.Factors = Factors
    monkeypatch.setitem(sys.modules, "implicit", ModuleType("implicit"))
    monkeypatch.setitem(sys.modules, "implicit.als", module)
    yield module
    if before is not None:
        sys.modules[fake_backend.MODULE] = before


def made(folder: Path) -> Any:
    module: dict[str, Any] = {"__file__": str(folder / "model.py")}
    exec(SOURCE, module)
    model = module["TritonPythonModel"]()
    model.initialize({})
    return model


def ask(model: Any, users: Any) -> Any:
    tensor = fake_backend.Tensor("user_id", users)
    (response,) = model.execute([fake_backend.InferenceRequest("", 0, [tensor], ["ids", "scores"])])
    return response


def test_a_row_for_each_user(tmp_path: Path) -> None:
    """As Merlin gives them: 64 bits each."""
    (tmp_path / "model.npz").touch()
    ids, scores = ask(made(tmp_path), np.array([[1], [4]])).output_tensors()
    assert (ids.name(), scores.name()) == ("ids", "scores")
    assert ids.as_numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    assert scores.as_numpy().tolist() == [[1.0, 1.5, 2.0], [2.5, 3.0, 3.5]]
    assert [it.as_numpy().dtype.name for it in (ids, scores)] == ["int64", "float64"]


def test_a_user_that_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "model.npz").touch()
    error = ask(made(tmp_path), np.array([10])).error()
    assert error.code() == fake_backend.TritonError.INVALID_ARG
    assert error.message() == (
        "PredictImplicit, column 'user_id': index 10 is out of bounds for axis 0 with size 10"
    )


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the model model\.npz cannot be read \(FileNotFound"):
        made(tmp_path)


class Unaligned(Factors):
    """Its factors are of several widths."""

    def recommend(self, users: Any, liked: Any, N: int, filter_already_liked_items: bool) -> Any:
        raise ValueError("shapes (1,4) and (8,30) not aligned")


class Nobody(Factors):
    """Knows no users."""

    def recommend(self, users: Any, liked: Any, N: int, filter_already_liked_items: bool) -> Any:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")


class TooLarge(Factors):
    """Takes more memory than there is."""

    @classmethod
    def load(cls, path: str) -> Factors:
        raise MemoryError("Unable to allocate 9 GiB")


def test_a_model_that_cannot_recommend(tmp_path: Path, implicit: Any) -> None:
    """Found at the load. One that knows nobody is a model."""
    (tmp_path / "model.npz").touch()
    implicit.Factors = Nobody
    made(tmp_path)
    implicit.Factors = Unaligned
    with pytest.raises(ValueError, match=r"the model model\.npz cannot be read \(ValueError: sha"):
        made(tmp_path)


def test_memory_that_lacks(tmp_path: Path, implicit: Any) -> None:
    """It is not said to be the file's fault."""
    (tmp_path / "model.npz").touch()
    implicit.Factors = TooLarge
    with pytest.raises(MemoryError):
        made(tmp_path)


@pytest.mark.parametrize("lacking", ["library", "class"])
def test_without_implicit(tmp_path: Path, implicit: Any, lacking: str) -> None:
    """Or with one that has no such model."""
    if lacking == "class":
        del implicit.Factors
    else:
        sys.modules["implicit.als"] = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"PredictImplicit needs implicit \(.*install it into"):
        made(tmp_path)
