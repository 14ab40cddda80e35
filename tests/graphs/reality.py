"""Holds the oracle against tritonserver: exports served as Merlin wrote them, no container between.

    python -m tests.graphs.reality DIR...

For each case (tensors.py, answered by oracle.py) a plain tritonserver loads the executor and its
children by their names, and answers the same requests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import httpx

from tests.graphs.compare import (
    INVOKE_TIMEOUT_S,
    Result,
    Verdict,
    judge,
    print_result,
    print_table,
    refused,
)
from tests.graphs.tensors import (
    REPOSITORY,
    Answer,
    Tensors,
    read_answers,
    read_case,
    read_requests,
    served_version,
)
from tests.graphs.wire import answer_tensors, request_body
from tests.support.plain_triton import PlainTriton, plain_triton

HEADER_SIZE = "Inference-Header-Content-Length"


def check_case(directory: Path) -> Result:
    """tritonserver's answers judged by the oracle's, as a container's would be."""
    case, truth = read_case(directory), read_answers(directory)
    children = sorted(path.name for path in (directory / REPOSITORY).iterdir())
    children.remove(case["model"])
    with (
        tempfile.TemporaryDirectory(prefix="graphs-") as work,
        plain_triton(Path(work), pruned(directory / REPOSITORY, Path(work)), ()) as triton,
    ):
        for child in children:
            load(triton, child)  # one that does not load is missing when it is called
        refusal = load(triton, case["model"])
        if refusal:
            return refused(directory, truth, refusal)
        answers = [ask(triton, case["model"], request) for request in read_requests(directory)]
    return judge(directory, truth, answers, case.get("random", {}))


def pruned(repository: Path, work: Path) -> Path:
    """A copy without versions that hold no file: tritonserver waits for their model.py for ever.

    An export with another version than 1 has one beside the executor's own.
    """
    copied = work / "pruned"
    shutil.copytree(repository, copied)
    for model in copied.iterdir():
        kept = str(served_version(model))
        for version in model.iterdir():
            if version.name.isdigit() and version.name != kept:
                shutil.rmtree(version)
    return copied


def load(triton: PlainTriton, model: str) -> str:
    """Why it did not load; empty if it did."""
    answer = triton.http.post(f"/v2/repository/models/{model}/load")
    return "" if answer.status_code == 200 else answer.text


def ask(triton: PlainTriton, model: str, request: Tensors) -> Answer | None:
    """One request in the binary form; None if no answer came in time."""
    body, head_size = request_body(request)
    try:
        answer = triton.http.post(
            f"/v2/models/{model}/infer",
            content=body,
            headers={HEADER_SIZE: str(head_size)},
            timeout=INVOKE_TIMEOUT_S,
        )
    except httpx.TimeoutException:
        return None
    if answer.status_code != 200:
        return Answer(None, answer.text)
    size = int(answer.headers.get(HEADER_SIZE, len(answer.content)))
    return Answer(answer_tensors(answer.content, size))


def check_all(directories: Iterable[Path]) -> list[Result]:
    """Each case in a tritonserver of its own, printed as it comes."""
    results = []
    for directory in directories:
        try:
            results.append(check_case(directory))
        except subprocess.TimeoutExpired:
            results.append(Result(directory, Verdict.HANG, "tritonserver did not end in time"))
        print_result(results[-1])
    return results


def main(arguments: list[str]) -> int:
    """0 if tritonserver and the oracle agree on every case."""
    results = check_all(Path(text) for text in arguments)
    print_table(results)
    return 0 if all(result.verdict.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
