"""Functions of other modules that a graph names: reading it imports them. No I/O.

Functions and classes that are named, operators of your own among them, and modules that functions
use which are pickled by value. What is pickled by value itself is in no module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ensemble_tools.archive.inert_pickle import BY_VALUE, CALLED, Inert, Key, class_name
from ensemble_tools.archive.operator_forms import FUNCTION

#: A graph's nodes, whose `op` is an operator.
_NODES = {"merlin.dag.node.Node", "nvtabular.workflow.node.WorkflowNode"}
#: How cloudpickle names a module that a function uses.
_MODULE = "cloudpickle.cloudpickle.subimport"
_CODE = "types.CodeType"
#: Of Python 3.8 to 3.12: opcodes, each with a byte of its argument behind it.
_IMPORT_NAME, _EXTENDED_ARG = 108, 144
#: Python's functions that may import what only their arguments name.
_IMPORTERS = {"__import__", "eval", "exec"}
#: What users call an operator that they know by another name.
_LABELS = {"UDF": "LambdaOp"}
_BUILTINS = {"builtins", "__builtin__"}
#: Of what no module has: objects of Python's own kinds among them.
_NO_MODULES = {"", BY_VALUE, CALLED}
#: Objects that are looked at; a table in a function may have millions.
_MOST = 500_000


@dataclass(frozen=True)
class NamedFunction:
    """A function or class as a graph names it."""

    #: The class of the operator that uses it.
    operator: str
    module: str
    qualname: str


def find_named(objects: Any) -> Iterator[NamedFunction]:
    """Each name with the operator that it was found in; those of Python and of Merlin, too.

    objects: as read_objects reads them. A module alone has the qualname `__init__`.
    """
    stack = [("", objects)]
    seen: set[int] = set()
    while stack and len(seen) < _MOST:
        operator, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        named = _find_name(value)
        if all(part.isidentifier() for part in ".".join(named).split(".")):
            yield NamedFunction(operator, *named)
        if isinstance(value, Inert) and class_name(value) in _NODES:
            op = value.state.get("op")
            stack += [("", part) for part in value.state.values() if part is not op]
            label = class_name(op).rpartition(".")[2]
            stack.append((_LABELS.get(label, label), op))
        else:
            stack += [(operator, part) for part in _parts(value)]


def find_imports(objects: Any) -> Iterator[str]:
    """The modules that functions and methods import which are pickled by value.

    "" stands for a module that cannot be told, one whose name no import statement can have, and for
    objects that were not looked at.
    """
    stack, seen = [objects], set[int]()
    while stack and len(seen) < _MOST:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Inert) and class_name(value) == _CODE:
            yield from _read_imports(value.args)
        module, name = _find_name(value)
        if module not in _NO_MODULES and not all(map(str.isidentifier, module.split("."))):
            yield ""
        if module in _BUILTINS and name in _IMPORTERS:
            yield ""
        stack += _parts(value)
    if stack:
        yield ""


def _read_imports(code: tuple[Any, ...]) -> Iterator[str]:
    """code: the arguments of CodeType, the first of which are the same in Python 3.8 to 3.12."""
    instructions, names = (code[6], code[8]) if len(code) > 8 else (None, None)
    if not isinstance(instructions, bytes) or not isinstance(names, tuple):
        yield ""
        return
    if any(isinstance(name, str) and name in _IMPORTERS for name in names):
        yield ""
    argument = 0
    for opcode, low in zip(instructions[::2], instructions[1::2], strict=False):
        argument = argument << 8 | low
        if opcode == _IMPORT_NAME:
            name = names[argument] if argument < len(names) else ""
            yield name if isinstance(name, str) else ""
        if opcode != _EXTENDED_ARG:
            argument = 0


def _find_name(value: Any) -> tuple[str, str]:
    """Module and name of a class, a function, or an instance's class; empty for another object."""
    is_class = isinstance(value, type) and issubclass(value, Inert)
    name = value.qualified_name if is_class else class_name(value)
    if name == FUNCTION and not is_class:
        return value.state["__module__"], value.state["__qualname__"]
    if name == _MODULE and not is_class and value.args and isinstance(value.args[0], str):
        return value.args[0], "__init__"
    module, _, qualname = name.rpartition(".")
    return module, qualname


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Inert):
        return value.args, value.state, value.parts, value.held_items, value.contents
    if isinstance(value, type) and issubclass(value, Inert):
        return value.contents
    if isinstance(value, Key):
        return (value.value,)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset) else ()
