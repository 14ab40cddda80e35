"""An ensemble answers any part of its outputs, whoever asks: a caller, a step, a call.

tritonserver itself says "unexpected deadlock" (triton-inference-server/server#7482) where a step
reads an output, and where the first step does not read each input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import binary, binary_values, complaint, infer, sized, values
from tests.support.tritons import BOTH

_OUTPUTS = """
platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "LAST" data_type: TYPE_FP32 dims: [-1] }
output { name: "MIDDLE" data_type: TYPE_FP32 dims: [-1] }
output { name: "OTHER" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling {
  step { model_name: "one" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "MIDDLE" } }
  step { model_name: "ten" model_version: -1
    input_map { key: "IN" value: "MIDDLE" } output_map { key: "OUT" value: "LAST" } }
  step { model_name: "ten" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OTHER" } }
}
"""
_ADDED = {"MIDDLE": 1.0, "LAST": 11.0, "OTHER": 10.0}


@pytest.fixture
def model(container: Container, archive: Archive) -> Iterator[str]:
    """Its outputs are IN + 1, + 11 and + 10."""
    directory = archive(one=models.adder(1), ten=models.adder(10), whole=models.Chain(("one",)))
    (directory / "whole/config.pbtxt").write_text(_OUTPUTS)
    with container.loaded("partly", directory) as name:
        yield name


def _asking(*outputs: str, count: int = 2, **parameters: object) -> dict[str, object]:
    said = {"parameters": parameters} if parameters else {}
    wanted = [{"name": name, **said} for name in outputs]
    return {**infer([float(number) for number in range(count)]), "outputs": wanted}


@pytest.mark.parametrize("count", [2, 30_000])
def test_each_part(count: int, container: Container, model: str) -> None:
    """Alone, in twos in the order asked for, all, or none named: small and large.

    A name that it has not, or twice, is refused as ever.
    """
    given = [float(number) for number in range(count)]
    parts = [("LAST",), ("MIDDLE",), ("OTHER",), ("LAST", "OTHER"), ("OTHER", "MIDDLE")]
    for part in parts:
        for encoding in ("identity", "gzip"):
            answer = container.invoke(model, _asking(*part, count=count), Accept_Encoding=encoding)
            assert answer.headers["content-type"] == "application/json"
            for name in part:
                assert values(answer, name) == [number + _ADDED[name] for number in given]
            assert tuple(output["name"] for output in answer.json()["outputs"]) == part
    for whole in ((), ("MIDDLE", "LAST", "OTHER")):
        answer = container.invoke(model, _asking(*whole, count=count))
        for name, added in _ADDED.items():
            assert values(answer, name) == [number + added for number in given]
    for outputs, said in {
        ("NONE",): "unexpected inference output 'NONE'",
        ("LAST", "NONE"): "expected one of 'LAST', 'MIDDLE', 'OTHER'",
        ("LAST", "LAST"): "the outputs: found 'LAST' twice",
    }.items():
        answer = container.invoke(model, _asking(*outputs, count=count))
        assert answer.status_code == 400
        assert said in complaint(answer)


def test_binary_both_ways(container: Container, model: str) -> None:
    """A part in binary, beside one in JSON, and asked for by a binary request."""
    answer = container.invoke(model, _asking("LAST", binary_data=True))
    assert binary_values(answer, "LAST") == [11.0, 12.0]
    request = _asking("LAST", "MIDDLE")
    request["outputs"][0]["parameters"] = {"binary_data": True}  # type: ignore[index]
    answer = container.invoke(model, request)
    size = int(answer.headers["content-type"].rpartition("=")[2])
    last, middle = json.loads(answer.content[:size])["outputs"]
    assert (last["name"], last["parameters"]) == ("LAST", {"binary_data_size": 8})
    assert (middle["name"], middle["data"]) == ("MIDDLE", [1.0, 2.0])
    body, size = binary([1, 2])
    body, size = body.replace(b'"OUT"', b'"LAST"'), size + 1
    answer = container.invoke(model, body, Content_Type=sized(size))
    assert binary_values(answer, "LAST") == [12.0, 13.0]


#: Two branches, which have nothing in common.
_BRANCHES = """
platform: "ensemble"
input { name: "A" data_type: TYPE_FP32 dims: [-1] }
input { name: "B" data_type: TYPE_FP32 dims: [-1] }
output { name: "X" data_type: TYPE_FP32 dims: [-1] }
output { name: "Y" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling {
  step { model_name: "one" model_version: -1
    input_map { key: "IN" value: "A" } output_map { key: "OUT" value: "X" } }
  step { model_name: "ten" model_version: -1
    input_map { key: "IN" value: "B" } output_map { key: "OUT" value: "Y" } }
}
"""
_OUTER = """
platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "PART" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling {
  step { model_name: "whole" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "LAST" value: "PART" } }
}
"""
#: Asks the models for one output each, and answers what they say in a row.
_CALLER = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        given = {name: pb_utils.Tensor(name, values) for name in ("IN", "A", "B")}
        asked = [("whole", "LAST", "IN"), ("whole", "MIDDLE", "IN"), ("whole", "OTHER", "IN")]
        asked += [("outer", "PART", "IN"), ("branches", "X", "AB"), ("branches", "Y", "AB")]
        return respond(request, np.concatenate([self.ask(given, *each) for each in asked]))

    def ask(self, given, model, output, read):
        inputs = [given["IN"]] if read == "IN" else [given["A"], given["B"]]
        answer = pb_utils.InferenceRequest(
            model_name=model, requested_output_names=[output], inputs=inputs
        ).exec()
        if answer.has_error():
            raise pb_utils.TritonModelException(answer.error().message())
        (tensor,) = answer.output_tensors()
        assert tensor.name() == output
        return tensor.as_numpy()
"""


def test_branches_with_inputs_of_their_own(container: Container, archive: Archive) -> None:
    """Either branch answers alone."""
    directory = archive(one=models.adder(1), ten=models.adder(10), whole=models.Chain(("one",)))
    (directory / "whole/config.pbtxt").write_text(_BRANCHES)
    given = [{"name": name, "shape": [1], "datatype": "FP32", "data": [1]} for name in "AB"]
    with container.loaded("branches", directory) as name:
        for output, value in (("X", 2.0), ("Y", 11.0)):
            answer = container.invoke(name, {"inputs": given, "outputs": [{"name": output}]})
            assert values(answer, output) == [value]


@BOTH
def test_a_part_of_inner_ensembles(container: Container, archive: Archive) -> None:
    """As a step of another ensemble, and by calls; two loads of one archive."""
    chain = models.Chain(("one",))
    directory = archive(
        one=models.adder(1),
        ten=models.adder(10),
        whole=chain,
        branches=chain,
        outer=models.Chain(("whole",)),
        caller=models.PythonModel(_CALLER),
    )
    for inner, config in {"whole": _OUTPUTS, "branches": _BRANCHES, "outer": _OUTER}.items():
        (directory / inner / "config.pbtxt").write_text(config)
    for _ in range(2):
        with container.loaded("calling", directory) as name:
            answer = container.invoke(name, infer([1]))
            assert values(answer) == [12.0, 2.0, 11.0, 12.0, 2.0, 11.0]
