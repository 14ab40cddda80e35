"""Candidates in a real tritonserver: what is measured, and that each bad kind hurts nobody."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.metrics_page import Samples, sample, scrape
from tests.support.protocol import binary, infer, sized, values
from tests.support.quick_container import told

#: Answers the values in reverse order: the first item scores what the last one does.
REVERSED = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, values[::-1])
"""
#: The bad kinds, and the beginning of the line that says why each is dropped; the one that is
#: waited for longest comes first.
BAD = {
    "hanging": (models.FOREVER, "it gave no answer within "),
    "unwilling": (models.UNWILLING, "it cannot be loaded: "),
    "raising": (models.RAISING, "it failed at 5 requests one after the other; at the last one: "),
    "killing": (models.KILLING, "its process died: "),
    "hungry": (models.GREEDY, "its processes grew from "),
}
SCORES = [float(number) for number in range(12)]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where requests lie at which answers differ."""
    return tmp_path_factory.mktemp("captured")


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory, captured: Path) -> Iterator[Container]:
    """A container that asks candidates all that their models are asked."""
    environment = {
        "SERVE_CANDIDATE_PERCENT": "100",
        "SERVE_MEMORY_RESERVE_MB": "0",
        "SERVE_CAPTURE": str(captured),
        # It keeps what met a dead stub, and does not end by itself.
        **told(Constants(triton_stop_timeout_s=1)),
    }
    with running(tmp_path_factory.mktemp("candidates"), **environment) as container:
        yield container


def write(container: Container, name: str, source: str) -> Path:
    """An archive whose model adds 1, and a candidate."""
    archive = models.write_archive(container.model_root / name / "model", {"m": models.adder(1)})
    models.write_archive(archive / "candidate", {"m": models.PythonModel(source)})
    return archive


def number(page: Samples, metric: str, name: str, **labels: str) -> float:
    """One value of a model's candidate; 0 for none."""
    named = {"target_model": name, "model_name": name, **labels}
    return sample(page, f"serve_candidate_{metric}", **named)


def read_differences(captured: Path) -> Iterator[tuple[bool, list[list[float]]]]:
    """Of each request to `good` at which answers differ: whether it is binary, and the values of
    the request, of the model and of its candidate."""
    files = captured.glob(".writing-*/endpoint/AllTraffic=candidate/good/**/*.part")
    for line in "".join(file.read_text() for file in files).splitlines():
        data = json.loads(line)["captureData"]
        sides = [data[name] for name in ("endpointInput", "endpointOutput", "candidateOutput")]
        yield sides[0]["encoding"] == "BASE64", [read_values(side) for side in sides]


def read_values(side: dict[str, str]) -> list[float]:
    """Of the only tensor."""
    body = b64decode(side["data"]) if side["encoding"] == "BASE64" else side["data"].encode()
    _, _, size = side["observedContentType"].partition("json-header-size=")
    text, behind = (body[: int(size)], body[int(size) :]) if size else (body, b"")
    message = json.loads(text)
    (tensor,) = message.get("outputs") or message["inputs"]
    found: list[float] = tensor.get("data") or np.frombuffer(behind, "<f4").tolist()
    return found


def test_every_kind(comparing: Container, captured: Path) -> None:
    """Callers get the models' answers, whatever the candidates do; a good one's answers are laid
    beside its model's, as counted by hand, and both are captured; a bad one is dropped with one
    line, and nothing is left of any when the models are unloaded."""
    before = comparing.snapshot()
    sources = {**{name: source for name, (source, _) in BAD.items()}, "good": REVERSED}
    for name, source in sources.items():
        assert comparing.load(name, write(comparing, name, source)).status_code == 200
    body, size = binary(SCORES)

    def ask_until_all_are_known() -> bool:
        for name in sources:
            answer = comparing.invoke(name, infer(SCORES))
            assert values(answer) == [score + 1 for score in SCORES]
            assert comparing.invoke(name, body, content_type=sized(size)).status_code == 200
        page = scrape(comparing)
        dropped = all(number(page, "drops_total", name) for name in BAD)
        return dropped and number(page, "overlap_count", "good", k="10") >= 2

    until(ask_until_all_are_known, "all are known", comparing)
    page = scrape(comparing)
    measured = number(page, "overlap_count", "good", k="10")
    # The model's first ten are items 2 to 11, the candidate's 0 to 9.
    assert number(page, "overlap_sum", "good", k="10") == pytest.approx(0.8 * measured)
    assert number(page, "overlap_sum", "good", k="1") == 0.0
    assert number(page, "errors_total", "good") == 0.0
    own = [score + 1 for score in SCORES]

    for is_binary, headers in ((True, {"content_type": sized(size)}), (False, {})):

        def is_captured(is_binary: bool = is_binary, headers: dict[str, str] = headers) -> bool:
            request = body if is_binary else infer(SCORES)
            assert comparing.invoke("good", request, **headers).status_code == 200
            differences = [*read_differences(captured)]
            assert all(values == [SCORES, own, SCORES[::-1]] for _, values in differences)
            return is_binary in (binary for binary, _ in differences)

        until(is_captured, "both answers are captured", comparing)
    assert number(page, "errors_total", "raising") == 5.0
    lines = [line for line in comparing.log.splitlines() if "is dropped: " in line]
    for name, (_, why) in BAD.items():
        (line,) = [it for it in lines if f"model_name={name}" in it]
        assert f"the model's candidate is dropped: {why}" in line
    assert sorted(comparing.models()) == sorted(sources)
    with ThreadPoolExecutor(len(sources)) as pool:
        assert {it.status_code for it in pool.map(comparing.unload, sources)} == {200}
    comparing.until_nothing_is_published()
    after = comparing.snapshot()
    assert (after.models, after.stubs) == (before.models, before.stubs)
