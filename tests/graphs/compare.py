"""What the container makes of exported cases, held against what the executor itself answers.

    python -m tests.graphs.compare DIR...

Each case (tensors.py) is loaded into one running container, asked each of its requests, unloaded.
Tensors are equal when data type, shape and values are: floats within 1e-6 of one another, NaN where
NaN is. Where the executor errs, the container must refuse, at load or at the request.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from ensemble_tools import Form, Namespace, plan_archive, read_executor_graph, read_repository
from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.ensembles.operators import find_work
from tests.graphs.tensors import (
    REPOSITORY,
    Answer,
    Answers,
    Tensors,
    datatype,
    read_answers,
    read_case,
    read_requests,
)
from tests.graphs.wire import answer_tensors, request_body
from tests.support.container import Container, launch, until
from tests.support.protocol import sized

RELATIVE = 1e-6
ABSOLUTE = 1e-30
#: A hang is what this catches; the first request to a TorchScript model takes a second or two, and
#: on a busy machine much longer.
INVOKE_TIMEOUT_S = 60
#: What pb_utils.Tensor says of the type that a cast to Merlin's `str` gives.
STRINGS_FAIL = "Unable to cast Python instance of type <class 'NoneType'>"
#: The decision on ragged lists into fixed ones (decision 10).
ROWS_UNFIT = re.compile(r"its rows have (\d+) to \1 elements; rows of (?!\1)\d+ elements are")
#: Operators that choose columns, or call a Triton model: what they do is in the graph itself.
MERLINS_OWN = re.compile(
    r"merlin\..*\.(SelectionOp|ConcatColumns|SubsetColumns|GroupingOp|SubtractionOp|Subgraph|"
    r"AddMetadata|AddTags|AddProperties|Tag\w+|TransformWorkflowTriton|Predict\w+Triton)"
)
HEADER_SIZE = re.compile(r"json-header-size=(\d+)")


class Verdict(Enum):
    """What came of a case, the worst first."""

    WRONG = "wrong numbers"
    HANG = "hang"
    LOST = "errs though the executor answers"
    LENIENT = "answers though the executor errs"
    SKIPPED = "answers where the executor errs at what the answer does not need"
    UNFIT = "refuses rows of another length, of which the executor makes other rows"
    REFUSED = "refused though the executor serves"
    BOTH_REFUSE = "refused, and the executor errs at everything"
    EQUAL = "equal"

    @property
    def good(self) -> bool:
        """Is it what must be?"""
        return self in _GOOD


_GOOD = {Verdict.EQUAL, Verdict.BOTH_REFUSE, Verdict.SKIPPED, Verdict.UNFIT}


@dataclass(frozen=True)
class Result:
    """One case's verdict, and the sentence that says where it comes from."""

    directory: Path
    verdict: Verdict
    detail: str = ""


def compare_case(container: Container, directory: Path) -> Result:
    """Loads, asks, unloads, judges."""
    case, truth = read_case(directory), read_answers(directory)
    name = directory.name
    try:
        loaded = container.load(name, directory / REPOSITORY)
        if loaded.status_code != 200:
            return refused(directory, truth, complaint(loaded))
        answers = ask_all(container, name, read_requests(directory))
        if None not in answers:  # an unload waits for its model's last answer
            unloaded = container.unload(name)
            if unloaded.status_code != 200:
                return Result(directory, Verdict.HANG, f"unload: {complaint(unloaded)}")
    except httpx.TimeoutException as late:
        return Result(directory, Verdict.HANG, f"{late.request.method} {late.request.url.path}")
    except httpx.TransportError as lost:
        return Result(directory, Verdict.HANG, f"the container is gone: {lost}")
    result = judge(directory, truth, answers, case.get("random", {}))
    errors = [
        expected.error
        for expected, found in zip(truth.answers, answers, strict=False)
        if expected.tensors is None and found is not None and found.tensors is not None
    ]
    if result.verdict is Verdict.LENIENT and beside_the_answer(directory, errors):
        return replace(result, verdict=Verdict.SKIPPED)
    return result


def beside_the_answer(directory: Path, errors: list[str]) -> bool:
    """Whether the executor's errors are of two kinds that cannot make a number wrong:

    what is dropped before the answer, a model or an inline operator, which only the executor runs;
    and a column of strings, which it cannot pass on in any graph.
    """
    repository = read_repository(directory / REPOSITORY)
    graph = read_executor_graph(repository)
    assert graph is not None
    made = plan_archive(repository, graph, Namespace("model"))
    if made.form in (Form.PURE_ENSEMBLE, Form.STEP_ALONE) and has_inline_operators(graph):
        return True
    served = {model.source_name for model in made.models}
    dropped = repository.models.keys() - served - {repository.entry.name}
    texts = "".join(text for model in made.models for _, text in model.files)
    if "\nREADERS = " not in texts:  # else Merlin's own code runs its operators
        known = {node.operator.label for node in graph.nodes if find_work(node) is not None}
        dropped |= {f"in {it}: " for it in known if f"OPERATOR = '{it}'\n" not in texts}
    return all(STRINGS_FAIL in error or any(name in error for name in dropped) for error in errors)


def has_inline_operators(graph: ExecutorGraph) -> bool:
    """Whether an operator, of a subgraph's as well, runs Python inside the executor."""
    operators = [node.operator for node in graph.nodes]
    return any(
        not MERLINS_OWN.fullmatch(operator.class_name)
        or (operator.subgraph is not None and has_inline_operators(operator.subgraph))
        for operator in operators
    )


def refused(directory: Path, truth: Answers, reason: str) -> Result:
    """A load that was refused is right where the executor never answers."""
    verdict = Verdict.REFUSED if truth.served else Verdict.BOTH_REFUSE
    return Result(directory, verdict, reason)


def ask_all(container: Container, name: str, requests: list[Tensors]) -> list[Answer | None]:
    """Their answers in turn; once one does not come, no other is asked for."""
    answers: list[Answer | None] = []
    for request in requests:
        answers.append(ask(container, name, request))
        if answers[-1] is None:
            break
    return answers


def ask(container: Container, name: str, request: Tensors) -> Answer | None:
    """The container's answer; None if there was none in time."""
    body, head_size = request_body(request)
    try:
        answer = container.invoke(name, body, content_type=sized(head_size))
    except httpx.TimeoutException:
        return None
    if answer.status_code == 504:
        return None
    if answer.status_code != 200:
        return Answer(None, f"{answer.status_code}: {complaint(answer)}")
    found = HEADER_SIZE.search(answer.headers["content-type"])
    return Answer(answer_tensors(answer.content, int(found[1]) if found else len(answer.content)))


def complaint(answer: httpx.Response) -> str:
    """The sentence of an error."""
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return answer.text


def judge(
    directory: Path,
    truth: Answers,
    answers: Iterable[Answer | None],
    random: Mapping[str, str],
) -> Result:
    """The worst verdict over all requests that were asked."""
    if truth.load_error:
        return Result(directory, Verdict.LENIENT, f"the executor does not load: {truth.load_error}")
    verdicts = [
        judge_answer(expected, found, random)
        for expected, found in zip(truth.answers, answers, strict=False)
    ]
    order = list(Verdict)
    place, (verdict, detail) = min(enumerate(verdicts), key=lambda v: order.index(v[1][0]))
    return Result(directory, verdict, f"request {place}: {detail}" if detail else "")


def judge_answer(
    expected: Answer, found: Answer | None, random: Mapping[str, str]
) -> tuple[Verdict, str]:
    """One request's verdict."""
    if found is None:
        return Verdict.HANG, f"no answer in {INVOKE_TIMEOUT_S} s"
    if expected.tensors is None:
        if found.tensors is None:
            return Verdict.EQUAL, ""
        return Verdict.LENIENT, f"the executor says: {last_line(expected.error)}"
    if found.tensors is None:
        return Verdict.UNFIT if ROWS_UNFIT.search(found.error) else Verdict.LOST, found.error
    difference = difference_of(expected.tensors, found.tensors, random)
    return (Verdict.WRONG, difference) if difference else (Verdict.EQUAL, "")


def difference_of(expected: Tensors, found: Tensors, random: Mapping[str, str]) -> str:
    """The first difference; empty if there is none. random: tensors of which only the kind is."""
    if expected.keys() != found.keys():
        return f"outputs {sorted(found)}, expected {sorted(expected)}"
    for name, array in expected.items():
        got = found[name]
        kinds = [f"{datatype(one)} {list(one.shape)}" for one in (got, array)]
        if kinds[0] != kinds[1]:
            return f"'{name}' is {kinds[0]}, expected {kinds[1]}"
        if name not in random and not equal(array, got):
            return (
                f"'{name}' is {got.ravel()[:8].tolist()}…, expected {array.ravel()[:8].tolist()}…"
            )
    return ""


def equal(expected: Any, found: Any) -> bool:
    """Of one type and shape already: of one content?"""
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, found))
    with np.errstate(all="ignore"):
        return bool(
            np.allclose(
                found.astype("float64"),
                expected.astype("float64"),
                rtol=RELATIVE,
                atol=ABSOLUTE,
                equal_nan=True,
            )
        )


def last_line(text: str) -> str:
    """Of a traceback its last line, which says what it was."""
    return text.strip().splitlines()[-1] if text.strip() else ""


def compare_all(
    directories: Iterable[Path], report: Callable[[Result], None], **environment: str
) -> list[Result]:
    """Every case in one container; after one that hung, in a fresh one."""
    results = []
    remaining = iter(directories)
    hung = True
    while hung:
        hung = False
        with a_container(**environment) as container:
            for directory in remaining:
                result = compare_case(container, directory)
                report(result)
                results.append(result)
                hung = result.verdict is Verdict.HANG
                if hung:
                    break
    return results


@contextlib.contextmanager
def a_container(**environment: str) -> Iterator[Container]:
    """One that serves cases from anywhere, and need not end in order."""
    settings = {
        "SERVE_INVOKE_TIMEOUT": str(INVOKE_TIMEOUT_S),
        "SERVE_MODEL_ROOT": "/",
        **environment,
    }
    with tempfile.TemporaryDirectory(prefix="graphs-") as work:
        container = launch(Path(work), **settings)
        try:
            until(lambda: container.ping() == 200, "/ping is 200", container)
            yield container
        finally:
            container.descendants()
            container.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                container.wait()
            container.process.kill()
            container.discard()


def print_result(result: Result) -> None:
    """One line a case."""
    case = read_case(result.directory)
    print(f"  seed {case['seed']}: {result.verdict.value}  {result.detail}"[:400], flush=True)


def print_table(results: Iterable[Result]) -> None:
    """How many of each verdict; the reasons of refusals without their names."""
    counts = Counter(result.verdict for result in results)
    for verdict in Verdict:
        if counts[verdict]:
            print(f"  {counts[verdict]:5}  {verdict.value}")


def main(arguments: list[str]) -> int:
    """0 if every case is as it must be."""
    results = compare_all([Path(text) for text in arguments], print_result)
    print_table(results)
    return 0 if all(result.verdict.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
