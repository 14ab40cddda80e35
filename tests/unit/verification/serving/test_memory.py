"""What the processes of a form hold."""

from __future__ import annotations

from pathlib import Path

from verification.serving.memory import Memory, measure

STUB = "/t/triton_python_backend_stub"


def process(proc: Path, pid: int, words: tuple[str, ...], resident: int, share: int) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_text("\0".join((*words, "")))
    (proc / str(pid) / "status").write_text(f"Name:\tx\nVmRSS:\t{resident} kB\n")
    (proc / str(pid) / "smaps_rollup").write_text(f"Pss:\t{share} kB\n")


def test_stubs_and_what_runs_models_for_them(tmp_path: Path) -> None:
    """Of these models alone; a process that was forked says by its command whose it is."""
    serving = Path("/w/serving")
    process(tmp_path, 1, (STUB, "/w/serving/m/1/model.py", "region"), 20, 10)
    process(tmp_path, 2, ("merlin-model", "/w/serving/m/1"), 300, 30)
    process(tmp_path, 3, ("merlin-model", "/w/serving/other/1"), 300, 30)
    process(tmp_path, 4, (STUB, "/w/elsewhere/m/1/model.py"), 300, 30)
    process(tmp_path, 5, ("python", "/w/serving/m/1/model.py"), 300, 30)
    assert measure(serving, ["m"], tmp_path) == Memory(2, 320 * 1024, 40 * 1024)
