"""Which inner ensembles are split, and into what."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.asked_in_part import answer_parts
from ensemble_tools.serving.namespace import NAME_MAX
from ensemble_tools.serving.plan import PublishedModel

_HEAD = """
platform: "ensemble"
max_batch_size: 8
version_policy { all {} }
input { name: "IN" data_type: TYPE_FP32 dims: [4] reshape { shape: [2, 2] } optional: true }
output { name: "LAST" data_type: TYPE_FP32 dims: [4] label_filename: "labels" }
"""
_MIDDLE = 'output { name: "MIDDLE" data_type: TYPE_FP32 dims: [4] }\n'
_STEPS = """
ensemble_scheduling {
  step { model_name: "one" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "MIDDLE" } }
  step { model_name: "two" model_version: -1
    input_map { key: "IN" value: "MIDDLE" } output_map { key: "OUT" value: "LAST" } }
}
"""
_INNER = _HEAD + _MIDDLE + _STEPS


def _outer(inner: str, *outputs: str) -> str:
    maps = "".join(f'output_map {{ key: "{it}" value: "{it}" }} ' for it in outputs)
    return f'ensemble_scheduling {{ step {{ model_name: "{inner}" model_version: 2 {maps}}} }}\n'


def _planned(configs: dict[str, str], called: tuple[str, ...] = ()) -> ServingPlan:
    links = (("1", Path("/a/1")), ("2", Path("/a/2")), ("labels", Path("/a/labels")))
    models = tuple(PublishedModel(name, name, text, links) for name, text in configs.items())
    return ServingPlan("m", Form.AS_DELIVERED, models[-1].triton_name, models, called)


@pytest.mark.parametrize(
    "plan",
    [
        _planned({"m": _INNER}),
        _planned({"inner": _INNER, "m": _outer("inner", "LAST", "MIDDLE")}),
        _planned({"inner": _HEAD + _STEPS, "m": _outer("inner", "LAST")}, ("inner",)),
        _planned({"one": 'backend: "python"', "m": _INNER}, ("one",)),
        _planned({"i" * NAME_MAX: _INNER, "m": _outer("i" * NAME_MAX, "LAST")}),
    ],
)
def test_none_to_split(plan: ServingPlan) -> None:
    """The entry model, one that is asked for all it has, and what can be given no longer name."""
    assert answer_parts(plan.models, plan.entry, plan.called) == plan.models


@pytest.mark.parametrize("called", [("inner",), ()])
def test_an_ensemble_of_one_step_takes_the_name(called: tuple[str, ...]) -> None:
    """In the order of loads; a name that the archive has is not taken."""
    outer = _outer("inner", *(("LAST", "MIDDLE") if called else ("MIDDLE",)))
    configs = {"inner.whole": 'backend: "python"', "inner": f'name: "inner"\n{_INNER}', "m": outer}
    plan = _planned(configs, called)
    models = answer_parts(plan.models, plan.entry, called)
    names = ["inner.whole", "inner.whole_", "inner", "m"]
    assert [it.triton_name for it in models] == names
    whole, front = models[1:3]
    assert whole.config_text == f'name: "inner.whole_"\n{_INNER}'
    assert whole.source_name == front.source_name == "inner"
    assert (front.links, front.empty_versions) == ((), (1, 2))
    expected = """
    name: "inner"
    platform: "ensemble"
    max_batch_size: 8
    version_policy { all {} }
    input { name: "IN" data_type: TYPE_FP32 dims: [4] optional: true }
    output { name: "LAST" data_type: TYPE_FP32 dims: [4] }
    output { name: "MIDDLE" data_type: TYPE_FP32 dims: [4] }
    ensemble_scheduling { step { model_name: "inner.whole_" model_version: -1
      input_map { key: "IN" value: "IN" }
      output_map { key: "LAST" value: "LAST" } output_map { key: "MIDDLE" value: "MIDDLE" } } }
    """
    found = text_format.Parse(front.config_text or "", pb.ModelConfig())
    assert found == text_format.Parse(expected, pb.ModelConfig())
