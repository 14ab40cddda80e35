"""What becomes of each call of the services that the control plane plays: docs/aws-calls.md.

Which calls there are is botocore's to say; which are carried out stands in the code's own tables of
operations; which moto has, in its classes.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from botocore import xform_name
from botocore.session import get_session

from merlin_simulator.api.runtime_api import make_runtime_routes
from merlin_simulator.control.cloudwatch.service import MOTOS

_CONTROL = Path(__file__).parents[1] / "src/merlin_simulator/control"
#: Where each service's table of operations is: a file and the function that returns it.
_TABLES = {
    "sagemaker": ("sagemaker/endpoints.py", "make_operations"),
    "application-autoscaling": ("autoscaling/service.py", "operations"),
    "cloudwatch": ("cloudwatch/service.py", "operations"),
}
SERVICES = ("sagemaker", "sagemaker-runtime", "application-autoscaling", "cloudwatch")
WIDTH = 100
#: So many calls are named, except those that are carried out: all of them are.
_FEW = 20


@dataclass(frozen=True)
class Calls:
    """The operations of a service: three sets that have none in common, and are all."""

    carried_out: frozenset[str]
    motos: frozenset[str]
    refused: frozenset[str]


def aws_calls() -> str:
    """For each service the calls that are carried out, moto's, and refused ones, or how many."""
    return "\n\n".join(_section(service, calls_of(service)) for service in SERVICES)


@cache
def calls_of(service: str) -> Calls:
    """Of botocore's service model."""
    model = get_session().get_service_model(service)
    names = frozenset(model.operation_names)
    if service == "sagemaker-runtime":
        routes = {_shape(route.path) for route in make_runtime_routes(_Nothing())}
        uris = {name: model.operation_model(name).http["requestUri"] for name in names}
        ours = frozenset(name for name, uri in uris.items() if _shape(uri) in routes)
        return Calls(ours, frozenset(), names - ours)
    ours = frozenset(_table(*_TABLES[service]))
    motos = (frozenset(MOTOS) if service == "cloudwatch" else _of_moto(service, names)) - ours
    return Calls(ours, motos, names - ours - motos)


class _Nothing:
    """Stands where routes take what they ask."""

    def __getattr__(self, _: str) -> Any:
        return None


def _shape(path: str) -> str:
    """A path with whatever its parameters are called."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _table(file: str, function: str) -> Iterable[str]:
    """The keys of the dictionary that a function returns."""
    tree = ast.parse((_CONTROL / file).read_text())
    (found,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    returned = found.body[-1]
    assert isinstance(returned, ast.Return), f"{file}: {function} returns no table"
    assert isinstance(returned.value, ast.Dict), f"{file}: {function} returns no table"
    return [str(ast.literal_eval(key)) for key in returned.value.keys if key is not None]


def _of_moto(service: str, names: Iterable[str]) -> frozenset[str]:
    from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
    from moto.sagemaker.responses import SageMakerResponse

    classes: Mapping[str, type] = {
        "sagemaker": SageMakerResponse,
        "application-autoscaling": ApplicationAutoScalingResponse,
    }
    return frozenset(name for name in names if xform_name(name) in vars(classes[service]))


def _section(service: str, calls: Calls) -> str:
    words = [
        f"## {service}",
        _named("Carried out here", calls.carried_out),
        _named_if_few("Answered by moto", calls.motos),
        _named_if_few("Refused", calls.refused),
    ]
    return "\n\n".join(filter(None, words))


def _named_if_few(heading: str, names: frozenset[str]) -> str:
    return _named(heading, names) if len(names) <= _FEW else f"{heading}: {len(names)} others."


def _named(heading: str, names: Iterable[str]) -> str:
    listed = sorted(names)
    if not listed:
        return ""
    words = f"{heading} ({len(listed)}): " + ", ".join(f"`{name}`" for name in listed) + "."
    return textwrap.fill(words, WIDTH, break_on_hyphens=False, break_long_words=False)
