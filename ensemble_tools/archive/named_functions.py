"""PURE. What of other modules a pickled graph names: it is imported when the graph is unpickled.

Functions and classes that are named, operators of your own among them, and modules that functions
use which are pickled by value. What is pickled by value itself is in no module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ensemble_tools.archive.graph_json import NamedFunction
from ensemble_tools.archive.inert_pickle import Inert, Key, class_name

#: A graph's nodes, whose `op` is an operator.
_NODES = {"merlin.dag.node.Node", "nvtabular.workflow.node.WorkflowNode"}
#: How cloudpickle names a module that a function uses.
_MODULE = "cloudpickle.cloudpickle.subimport"
#: What users call an operator that they know by another name.
_LABELS = {"UDF": "LambdaOp"}
#: Objects that are looked at; a table in a function may have millions.
_MOST = 500_000


def find_named(objects: Any) -> Iterator[NamedFunction]:
    """Each name with the operator that it was found in; those of Python and of Merlin, too.

    objects: as read_pickle_file reads them. A name of a module alone has `__init__` behind it.
    """
    stack = [("", objects)]
    seen: set[int] = set()
    while stack and len(seen) < _MOST:
        operator, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        name = _name_of(value)
        if all(part.isidentifier() for part in name.split(".")):
            module, _, qualname = name.rpartition(".")
            yield NamedFunction(operator, module, qualname)
        if isinstance(value, Inert) and name in _NODES:
            op = value.state.get("op")
            stack += [("", part) for part in value.state.values() if part is not op]
            label = class_name(op).rpartition(".")[2]
            stack.append((_LABELS.get(label, label), op))
        else:
            stack += [(operator, part) for part in _parts(value)]


def _name_of(value: Any) -> str:
    """`module.name` of a class, a function, or an instance's class; empty for another object."""
    if isinstance(value, type) and issubclass(value, Inert):
        return value.qualified_name
    name = class_name(value)
    if name == _MODULE and value.args and isinstance(value.args[0], str):
        return f"{value.args[0]}.__init__"
    return name


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Inert):
        return value.args, value.state, value.parts
    if isinstance(value, Key):
        return (value.value,)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset) else ()
