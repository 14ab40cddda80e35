"""Load, list, describe, invoke, unload: each call of the contract and each of its statuses."""

from __future__ import annotations

import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container, until
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH


@BOTH
def test_life_of_a_model(container: Container, archive: Archive) -> None:
    """A loaded model is listed with its url and invoked; an unloaded one is known to no call."""
    directory = archive(m=models.identity)
    answer = container.load("m1", directory)
    assert (answer.status_code, answer.content) == (200, b"")
    assert container.models()["m1"] == str(directory)
    described = container.http.get("/models/m1")
    assert described.json() == {"modelName": "m1", "modelUrl": str(directory)}
    assert values(container.invoke("m1", infer([1.5, -2]))) == [1.5, -2.0]

    answer = container.unload("m1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert "m1" not in container.models()
    for gone in (
        container.http.get("/models/m1"),
        container.unload("m1"),
        container.invoke("m1", infer([1])),
    ):
        assert gone.status_code == 404
        assert "'m1'" in complaint(gone)


@BOTH
@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        (infer([1], name="OTHER"), "OTHER"),
        ({"inputs": []}, ""),
        ({"instances": [[1]]}, 'such as {"inputs": [{"name": "x"'),
        ({"inputs": [{"name": "IN", "datatype": "FP64", "shape": [1], "data": [1]}]}, "FP64"),
        ({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [2], "data": [1]}]}, ""),
        (b"{", ""),
        (b"no JSON", ""),
        (b"[]", "object"),
        (b"null", "object"),
        (b'{"inputs":3}', "inputs"),
        (b'{"inputs":[{}]}', ""),
        (b"\xff\xfe", ""),
    ],
)
def test_faults_of_the_caller(
    body: bytes | dict[str, object], fragment: str, container: Container
) -> None:
    """A request that the model cannot take is a 400 that says what tritonserver said."""
    answer = container.invoke(WITNESS, body)
    assert answer.status_code == 400, answer.text
    assert fragment in complaint(answer)


#: Raises in the way that the first value says, and answers 0 with itself.
_MOODY = """
import traceback


class TritonPythonModel(Each):
    def answer(self, request, values):
        if values[0] == 1:
            raise KeyError("row 1")
        if values[0] == 2:
            open("/nowhere/of/mine/labels.txt")
        if values[0] == 3:
            try:
                [][int(values[0])]  # a secret comment
            except IndexError:
                raise pb_utils.TritonModelException(traceback.format_exc())
        return respond(request, values)
"""


@BOTH
def test_whose_fault_a_failure_may_be(container: Container, archive: Archive) -> None:
    """500 while a model has answered nobody; 400 where it answers others, or speaks of an index.

    One that has failed at twenty requests one after another answers nobody any more. Its caller
    sees no code and no paths; the log has them.
    """
    with container.loaded("m1", archive(m=models.PythonModel(_MOODY))):
        answer = container.invoke("m1", infer([3]))
        assert answer.status_code == 400
        said = "the model m1 failed at this request: IndexError: list index out of range"
        assert complaint(answer) == said
        for _ in range(2):  # it stays loaded
            answer = container.invoke("m1", infer([1]))
            assert answer.status_code == 500
            assert complaint(answer) == "the model m1 failed: KeyError: 'row 1'"
        assert values(container.invoke("m1", infer([0]))) == [0.0]
        for number, said in (
            (1, "KeyError: 'row 1'"),
            (2, "FileNotFoundError: [Errno 2] No such file or directory: '…/labels.txt'"),
            (3, "IndexError: list index out of range"),
        ):
            answer = container.invoke("m1", infer([number]))
            assert answer.status_code == 400
            expected = f"the model m1 failed at this request, and answers others: {said}"
            assert complaint(answer) == expected
        until(lambda: "a secret comment" in container.log, "the log has it", container)
        statuses = [container.invoke("m1", infer([1])).status_code for _ in range(18)]
        assert statuses == [400] * 17 + [500]
        assert values(container.invoke("m1", infer([0]))) == [0.0]
        assert container.invoke("m1", infer([1])).status_code == 400
