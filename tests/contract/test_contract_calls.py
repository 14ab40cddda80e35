"""Python models that call others of their archive by name (business logic scripting)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container, until
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

#: Calls models, each with what the one before has put out.
_CALLING = """
def request(name, values):
    given = [pb_utils.Tensor("IN", np.asarray(values, dtype=np.float32))]
    return pb_utils.InferenceRequest(
        model_name=name, requested_output_names=["OUT"], inputs=given
    )


def out(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
"""

#: Calls an ensemble, and what the parameter `then` names.
TOP = f"""
{_CALLING}

class TritonPythonModel(Each):
    def answer(self, request_in, values):
        assert isinstance(request_in, pb_utils.InferenceRequest)
        asked = request("sum", values)
        assert isinstance(asked, pb_utils.InferenceRequest)
        return respond(request_in, out(request(self.words["then"], out(asked.exec())).exec()))
"""

#: Calls by place, without waiting, and asks which models are ready; has no initialize.
ASYNCHRONOUS = f"""
{_CALLING}
import asyncio


class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*(self.answer(each) for each in requests))

    async def answer(self, request):
        given = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        inputs = [pb_utils.Tensor("IN", given)]
        asked = [
            pb_utils.InferenceRequest("id", 7, inputs, ["OUT"], name) for name in ("one", "two")
        ]
        answers = await asyncio.gather(*(each.async_exec() for each in asked))
        ready = [pb_utils.is_model_ready(name) for name in ("one", "two", "nowhere", "m2.one")]
        assert ready == [True, True, False, False], ready
        return respond(request, sum(out(answer) for answer in answers))
"""

#: Adds up what a decoupled model answers.
SUMMING = f"""
{_CALLING}

class TritonPythonModel(Each):
    def answer(self, request_in, values):
        answers = request("several", values).exec(decoupled=True)
        return respond(request_in, sum(out(each) for each in answers if each.output_tensors()))
"""

#: Answers twice, with what the called models say.
DECOUPLED = f"""
{_CALLING}

class TritonPythonModel:
    def execute(self, requests):
        for each in requests:
            given = pb_utils.get_input_tensor_by_name(each, "IN").as_numpy()
            sender = each.get_response_sender()
            for name in ("one", "two"):
                sender.send(respond(each, out(request(name, given).exec())))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

#: Calls what the first byte of IN says, whatever it is.
FREE = f"""
{_CALLING}
NAMES = ("one", "nowhere", "second", "second.one", "witness")


class TritonPythonModel(Each):
    def answer(self, request_in, values):
        return respond(request_in, out(request(NAMES[int(values[0])], values).exec()))
"""

#: Finds files and pickles as a module that is loaded from its own file would.
MODULE = """
import pickle
from pathlib import Path


class Word:
    pass


class TritonPythonModel(Each):
    def initialize(self, args):
        super(TritonPythonModel, self).initialize(args)
        self.called = ["one"]
        self.number = float((Path(__file__).parent / "number").read_text())

    def answer(self, request, values):
        assert type(pickle.loads(pickle.dumps(Word()))) is Word
        asked = pb_utils.InferenceRequest(
            model_name="one", requested_output_names=["OUT"],
            inputs=[pb_utils.Tensor("IN", values)],
        )
        given = pb_utils.get_output_tensor_by_name(asked.exec(), "OUT").as_numpy()
        return respond(request, given + self.number)
"""


#: Calls IN[0] and up by names of each kind; those that Triton's own module has, too. What a request
#: to a stranger answers is its error; what the model answers is IN and all that was wrong.
KINDS = f"""
from c_python_backend_utils import InferenceRequest as EARLY, unload_model
{_CALLING}


class Loud(str):
    __hash__ = lambda self: hash("one")
    __eq__ = lambda self, other: True
    __str__ = lambda self: "one"


class TritonPythonModel(Each):
    def answer(self, request_in, values):
        class Own(pb_utils.InferenceRequest):
            pass

        kinds = (str, str.encode, np.str_, Loud, lambda it: np.bytes_(it.encode()),
                 lambda it: bytearray(it, "utf-8"), lambda it: np.array([it.encode()], object)[0])
        classes = (EARLY, Own, pb_utils.InferenceRequest, getattr(pb_utils, "Inference" "Request"))
        inputs = [pb_utils.Tensor("IN", values)]
        for kind in kinds:
            for make in classes:
                assert out(make("", 0, inputs, ["OUT"], kind("one")).exec())[0] == values[0] + 1
                response = make("", 0, inputs, ["OUT"], kind("witness")).exec()
                assert response.has_error(), kind
                assert "which can call 'one', 'top'" in response.error().message()
            assert pb_utils.is_model_ready(kind("one"))
            assert not pb_utils.is_model_ready(kind("witness"))
            for control in (unload_model, pb_utils.unload_model, pb_utils.load_model):
                try:
                    control(kind("witness"))
                except pb_utils.TritonModelException as error:
                    assert "'witness'" in str(error)
                else:
                    raise AssertionError(kind)
        for name in (None, 7, np.array(["one"])):
            try:
                pb_utils.InferenceRequest(model_name=name, inputs=inputs, requested_output_names=[])
            except TypeError as error:
                assert "expected str or bytes" in str(error)
            else:
                raise AssertionError(name)
        return respond(request_in, values)
"""

#: Calls by a name that came as bytes, of an archive whose files do not say it.
HIDDEN = """
class TritonPythonModel(Each):
    def answer(self, request_in, values):
        asked = getattr(pb_utils, "Inference" "Request")(
            model_name=b"witness",
            requested_output_names=["OUT"],
            inputs=[pb_utils.Tensor("IN", values)],
        )
        raise pb_utils.TritonModelException(asked.exec().error().message())
"""


@BOTH
def test_names_of_every_kind(container: Container, archive: Archive) -> None:
    """What Triton takes for a name means this archive's model, or none: never another archive's."""
    directory = archive(top=models.PythonModel(KINDS), one=models.adder(1))
    other = archive("other", sole=models.adder(100))
    with container.loaded("one", other), container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([1]))) == [1.0]
        assert values(container.invoke("one", infer([1]))) == [101.0]


@BOTH
def test_siblings_are_called(container: Container, archive: Archive) -> None:
    """Two archives with equal names side by side: each calls its own; unload frees all of it."""
    first = archive("a", **_archive(10, 100))
    second = archive("b", **_archive(20, 200))
    with container.loaded("m1", first), container.loaded("m2", second):
        assert values(container.invoke("m1", infer([1]))) == [121.0]
        assert values(container.invoke("m2", infer([1]))) == [241.0]
        steps = {"", ".sum", ".add0", ".add1", ".plus"}
        published = {f"{name}{step}" for name in ("m1", "m2") for step in steps}
        assert {name for name in container.published() if name[:2] in ("m1", "m2")} == published
        assert len(container.stubs("m1.plus")) == 1
    assert not list(container.model_root.rglob("__pycache__"))


def _archive(step: float, then: float) -> dict[str, models.Writable]:
    """A top that calls the ensemble `sum` (two steps) and the model that a parameter names."""
    return {
        "top": models.PythonModel(TOP, parameters={"then": "plus"}),
        "sum": models.Chain(("add0", "add1")),
        "add0": models.adder(step),
        "add1": models.adder(step),
        "plus": models.adder(then),
    }


_TWO = {"one": models.adder(1), "two": models.adder(2)}
#: Archives, and what they make of 5.
CALLERS: Mapping[str, tuple[dict[str, models.Writable], float]] = {
    "a step of an ensemble calls what is no step": (
        {"whole": models.Chain(("first", "top")), "first": models.adder(1), **_archive(10, 100)},
        126.0,
    ),
    "by place and without waiting": ({"top": models.PythonModel(ASYNCHRONOUS), **_TWO}, 13.0),
    "a decoupled model calls and is called": (
        {
            "top": models.PythonModel(SUMMING),
            "several": models.PythonModel(
                DECOUPLED, "model_transaction_policy { decoupled: true }\n"
            ),
            **_TWO,
        },
        13.0,
    ),
    "the delivered file runs as it would": (
        {"top": models.PythonModel(MODULE), "one": models.adder(1)},
        46.0,
    ),
}


@BOTH
@pytest.mark.parametrize("way", CALLERS)
def test_ways_to_call(way: str, container: Container, archive: Archive) -> None:
    """From a step, asynchronously, between answers; with paths and pickles as from a file."""
    written, answer = CALLERS[way]
    directory = archive(**written)
    for top in directory.glob("top"):
        (top / "1/number").write_text("40")
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([5]))) == [answer]


@pytest.fixture(scope="module")
def free(shared: Container) -> Iterator[None]:
    """Archives whose models call what they are told; of `hidden` its files do not show it."""
    top = models.PythonModel(FREE)
    archives: dict[str, dict[str, models.Writable]] = {
        "first": {"top": top, "one": models.adder(1)},
        "second": {"top": top, "one": models.adder(2)},
        "alone": {"top": top},
        "hidden": {"top": models.PythonModel(HIDDEN)},
    }
    with ExitStack() as loaded:
        for name, written in archives.items():
            directory = shared.model_root / "free" / name / "model"
            loaded.enter_context(shared.loaded(name, models.write_archive(directory, written)))
        yield


@BOTH
@pytest.mark.parametrize(
    ("caller", "number", "name", "siblings"),
    [
        ("first", 1, "nowhere", "'one', 'top'"),
        ("first", 2, "second", "'one', 'top'"),
        ("first", 3, "second.one", "'one', 'top'"),
        ("first", 4, WITNESS, "'one', 'top'"),
        ("alone", 4, WITNESS, "'top'"),
        ("hidden", 4, WITNESS, "'top'"),
    ],
)
def test_no_other_archive_is_reached(
    caller: str, number: int, name: str, siblings: str, free: None, container: Container
) -> None:
    """A call to what is not in the archive fails with a sentence, though others have that name."""
    assert values(container.invoke("second", infer([0]))) == [2.0]
    answer = container.invoke(caller, infer([number]))
    assert answer.status_code == 500, answer.text
    said = complaint(answer)
    assert f"'{name}' (not served with this model, which can call {siblings}; " in said


@BOTH
def test_killed_stub(mortal: Container, archive: Archive) -> None:
    """The request that meets a called model's dead stub is answered: all is loaded again.

    Be it that of the model, of a step of an ensemble, or of the caller itself, one after another.
    """
    with mortal.loaded("m1", archive(**_archive(10, 100))):
        for dying in ("m1.plus", "m1.add1", "m1"):
            for pid in mortal.stubs(dying):
                os.kill(pid, signal.SIGKILL)
            until(partial(_has_no_stub, mortal, dying), f"the stub of {dying} is gone")
            assert values(mortal.invoke("m1", infer([1]))) == [121.0], dying
            assert len(mortal.stubs(dying)) == 1, dying


def _has_no_stub(container: Container, model: str) -> bool:
    return not container.stubs(model)
