"""Which python stubs run, as /proc tells."""

from __future__ import annotations

from pathlib import Path

from serve.stub_processes import missing, running_stubs

STUB = "/opt/tritonserver/backends/python/triton_python_backend_stub"


def process(root: Path, pid: int, *command: str) -> None:
    (root / str(pid)).mkdir(parents=True)
    (root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))


def test_stubs_are_counted_by_model(tmp_path: Path) -> None:
    """Only stubs, only of this serving repository, only of the models asked for."""
    serving = Path("/run/serving")
    process(tmp_path, 1, STUB, "/run/serving/m.a/1/model.py", "region")
    process(tmp_path, 2, STUB, "/run/serving/m.a/1/model.py", "region")
    process(tmp_path, 3, STUB, "/run/serving/m/1/model.py", "region")
    process(tmp_path, 4, STUB, "/run/serving/other/1/model.py")
    process(tmp_path, 5, STUB, "/run2/serving/m.b/1/model.py")
    process(tmp_path, 6, "vim", "/run/serving/m.b/1/model.py")
    process(tmp_path, 7, STUB, "/run/serving")
    process(tmp_path, 8, STUB)
    process(tmp_path, 9)
    (tmp_path / "10").mkdir()  # ended between two looks
    (tmp_path / "11").mkdir()
    (tmp_path / "11/cmdline").write_bytes(b"\xff\xfe\0")
    (tmp_path / "meminfo").touch()
    assert running_stubs(serving, {"m", "m.a", "m.b"}, tmp_path) == {"m.a": 2, "m": 1}


def test_missing() -> None:
    """A model with fewer stubs than it had; one that never had any cannot lose one."""
    assert missing({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 1, "d": 5}) == {"a", "c"}
    assert missing({}, {"a": 1}) == frozenset()
