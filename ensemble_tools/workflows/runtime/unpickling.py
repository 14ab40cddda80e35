"""A workflow's pickle without NVTabular: its operators, for frames of pandas.

Classes of NVTabular's that pandas_operators.py has are made of those. In the place of all others a
Placeholder is made, which takes any state and is of no use: the graph is walked, and forgotten. All
else is unpickled as ever: functions by value with cloudpickle's own code, the user's classes, what
lies in modules.

1. Where code of the user's is seen to need NVTabular, nothing is unpickled: it derives from one of
   its operators, names a class of it or imports it, or its module has done so.
2. Where that is not seen at the load (such a class in a list), or need not be (in a method that is
   only called when the workflow is fitted), a Placeholder says so when it is touched. By then the
   pickle has been read: `sealed`.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from .kept import NodePath
from .pandas_operators import BASES, CLASSES, NeedsNVTabular, imported_packages, is_package

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift"),
    *("rshift", "matmul", "divmod"),
)
#: What Python looks for at the class when code touches an object, or a class as Enum's are touched.
_TOUCHED = (
    *("__bool__", "__len__", "__iter__", "__next__", "__contains__", "__getitem__", "__call__"),
    *("__delitem__", "__str__", "__repr__", "__format__", "__bytes__", "__int__", "__float__"),
    *("__index__", "__complex__", "__enter__", "__exit__", "__array__", "__reversed__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__pos__", "__abs__", "__invert__"),
)
#: The same of two objects. Of classes `|` makes a type, in annotations for instance.
_TOUCHED_WITH_ANOTHER = tuple(f"__{side}{name}__" for side in ("", "r") for name in _BINARY)

_SUBGRAPH = ("merlin.dag.ops.subgraph", "Subgraph")
#: What NVTabular asks of an operator when the workflow is fitted, or exported, and at no request.
_AT_FITTING = (
    *("output_dtype", "output_tags", "output_properties", "supports", "validate_schemas"),
    *("compute_selector", "compute_input_schema", "compute_output_schema"),
    *("compute_column_schema", "_compute_column_schema", "_compute_dtype", "_compute_tags"),
    *("_compute_properties", "_compute_shape", "_validate_matching_cols", "create_node", "export"),
    *("fit", "fit_finalize", "clear", "set_storage_path"),
)

#: Pandas operators that do less than the classes in whose place they are made.
_FITTED = {*CLASSES.values()} - {*BASES}


class _Reading:
    """The reading of one pickle. sealed: it has been read."""

    sealed = False


class _PlaceholderClass(type):
    """The class of a class that stands for one of NVTabular's."""

    def __getattribute__(cls, name: str) -> Any:
        _check_touched(cls)
        return super().__getattribute__(name)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsNVTabular(f"it is unpickled with {name} of {cls.__qualname__}")

    def __instancecheck__(cls, instance: Any) -> bool:
        _check_touched(cls)
        return super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        _check_touched(cls)
        return super().__subclasscheck__(subclass)


class Placeholder(metaclass=_PlaceholderClass):
    """An object of no use. `reading`, which its class has: of which pickle it is."""

    reading = _Reading()

    def __new__(cls, *_: Any, **__: Any) -> Any:
        _check_touched(cls)
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any arguments."""

    def __getattribute__(self, name: str) -> Any:
        _check_touched(type(self))
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "extend":  # pickle asks for these
            raise AttributeError(name)
        raise NeedsNVTabular(f"it is unpickled with {name} of {type(self).__name__}")

    def __setstate__(self, state: Any) -> None:
        """Remember attributes."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take items, as a mapping."""
        _check_touched(type(self))

    def append(self, item: Any) -> None:
        """Take items, as a list."""

    def add(self, item: Any) -> None:
        """Take items, as a set."""

    def __eq__(self, other: object) -> bool:
        _check_touched(type(self))
        return self is other

    def __hash__(self) -> int:
        _check_touched(type(self))
        return object.__hash__(self)


def _check_touched(cls: type) -> None:
    """cls: a Placeholder's. Its attributes are asked past its own way of giving them."""
    if type.__getattribute__(cls, "reading").sealed:
        name = type.__getattribute__(cls, "__qualname__")
        raise NeedsNVTabular(f"an operator uses {name}")


def _touch(self: Any, *_: Any, **__: Any) -> Any:
    _check_touched(type(self))
    raise NeedsNVTabular(f"it is unpickled with {type(self).__name__}")


def _touch_class(cls: type, *_: Any, **__: Any) -> Any:
    _check_touched(cls)
    raise NeedsNVTabular(f"it is unpickled with {type.__getattribute__(cls, '__qualname__')}")


for _name in (*_TOUCHED, *_TOUCHED_WITH_ANOTHER):
    setattr(Placeholder, _name, _touch)
for _name in {*_TOUCHED} - {"__call__"}:  # which asks __new__
    setattr(_PlaceholderClass, _name, _touch_class)


def load_operators(directory: Path) -> dict[NodePath, Any]:
    """The operators of the workflow that lies there as a pickle, by the paths of their nodes.

    Raises NeedsNVTabular, and what unpickling raises.
    """
    before = imported_packages()
    with (directory / "workflow.pkl").open("rb") as file:
        unpickler = _Unpickler(file)
        workflow = unpickler.load()
    if imported_packages() != before:
        raise NeedsNVTabular("a module of its functions imports NVTabular")
    output = _state(_state(workflow, "graph"), "output_node")
    nodes = walk_nodes(output, _upstream, _inner_output)
    operators = {path: _state(node, "op") for path, node in nodes}
    unpickler.reading.sealed = True
    return operators


def walk_nodes(
    output: Any,
    upstream: Callable[[Any], Iterable[Any]],
    inner_output: Callable[[Any], Any],
    path: NodePath = (),
) -> Iterator[tuple[NodePath, Any]]:
    """All nodes of a graph and of its Subgraphs, with their paths, as the compiler has them.

    output: the graph's last node. inner_output: that of a Subgraph's graph, None for other nodes.
    """
    for number, node in enumerate(_in_post_order(output, upstream)):
        yield (*path, number), node
        inner = inner_output(node)
        if inner is not None:
            yield from walk_nodes(inner, upstream, inner_output, (*path, number))


def _in_post_order(output: Any, upstream: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Nodes as the compiler numbers them: each after those that it needs, by its first use."""
    done, stack, seen = [], [(output, iter(upstream(output)))], set[int]()
    while stack:
        node, others = stack[-1]
        following = next((other for other in others if id(other) not in seen), None)
        if following is None:
            stack.pop()
            seen.add(id(node))
            done.append(node)
        else:
            stack.append((following, iter(upstream(following))))
    return done


def imports_nvtabular(code: CodeType) -> bool:
    """Whether a function's code, or that of one inside of it, names a package of NVTabular's."""
    texts = (*code.co_names, *(text for text in code.co_consts if isinstance(text, str)))
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return any(map(is_package, texts)) or any(map(imports_nvtabular, inner))


def _state(holder: Any, attribute: str) -> Any:
    try:
        return object.__getattribute__(holder, attribute)
    except AttributeError as error:
        raise NeedsNVTabular(f"it is no workflow of 23.08's: it has no {attribute}") from error


def _upstream(node: Any) -> Iterable[Any]:
    """merlin-core's Node.parents_with_dependencies."""
    for other in (*_state(node, "parents"), *_state(node, "dependencies")):
        yield from other if isinstance(other, list) else [other]


def _inner_output(node: Any) -> Any:
    cls = type(_state(node, "op"))
    if (cls.__module__, cls.__qualname__) != _SUBGRAPH:
        return None
    return _state(_state(_state(node, "op"), "graph"), "output_node")


class _Unpickler(pickle.Unpickler):
    """pickle's own, with other classes in the place of NVTabular's."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.reading = _Reading()
        self._placeholders: dict[tuple[str, str], type] = {}

    def find_class(self, module: str, name: str) -> Any:
        if is_package(module):
            return CLASSES.get((module, name)) or self._placeholder(module, name)
        value = super().find_class(module, name)
        if module.partition(".")[0] == "cloudpickle":
            if name == "subimport":
                return self._import(value)
            return _CHECKED.get(name, lambda made: made)(value)
        if _is_nvtabulars(value):
            raise NeedsNVTabular(f"{module}.{name} is made with NVTabular")
        return value

    def _import(self, import_module: Callable[[str], Any]) -> Callable[[str], Any]:
        """A module, or a placeholder for one of NVTabular's."""

        def checked(name: str) -> Any:
            return self._placeholder("", name) if is_package(name) else import_module(name)

        return checked

    def _placeholder(self, module: str, name: str) -> type:
        if (module, name) not in self._placeholders:
            members = {"reading": self.reading, "__module__": module, "__qualname__": name}
            placeholder = _PlaceholderClass(name.rpartition(".")[2], (Placeholder,), members)
            self._placeholders[module, name] = placeholder
        return self._placeholders[module, name]


def _is_nvtabulars(value: Any) -> bool:
    """Whether what was found in a module of the user's is of NVTabular's classes, or imports it."""
    if isinstance(value, type):
        return any(is_package(base.__module__) for base in value.__mro__)
    code = getattr(value, "__code__", None)
    return isinstance(code, CodeType) and imports_nvtabular(code)


# -- cloudpickle's functions, with a look at what they are given


def _check(values: Iterable[Any]) -> None:
    for value in values:
        cls = value if isinstance(value, type) else type(value)
        if type(cls) is _PlaceholderClass:
            raise NeedsNVTabular(f"a function uses {cls.__qualname__}")


def _make_function(make: Callable[..., Any]) -> Callable[..., Any]:
    def checked(code: CodeType, *others: Any) -> Any:
        if code.co_name not in _AT_FITTING and imports_nvtabular(code):
            raise NeedsNVTabular("a function imports NVTabular")
        return make(code, *others)

    return checked


def _set_function_state(set_state: Callable[..., Any]) -> Callable[..., Any]:
    def checked(function: Any, state: Any) -> Any:
        if function.__name__ in _AT_FITTING:
            return set_state(function, state)
        _, slots = state
        _check(slots["__globals__"].values())
        _check(slots.get("__defaults__") or ())
        _check((slots.get("__kwdefaults__") or {}).values())
        for cell in slots.get("__closure__") or ():
            with contextlib.suppress(ValueError):  # an empty one
                _check([cell.cell_contents])
        return set_state(function, state)

    return checked


def _make_class(make: Callable[..., Any]) -> Callable[..., Any]:
    def checked(kind: Any, name: str, bases: Any, arguments: Any, _: Any, extra: Any) -> Any:
        """cloudpickle finds a class again by its number: NVTabular is to make one of its own."""
        for base in bases:
            if type(base) is _PlaceholderClass or base in _FITTED:
                raise NeedsNVTabular(f"{name} derives from NVTabular's {base.__name__}")
        return make(kind, name, bases, arguments, None, extra)

    return checked


def _make_enum(make: Callable[..., Any]) -> Callable[..., Any]:
    def checked(
        bases: Any, name: str, module_path: str, members: Any, module: str, *others: Any
    ) -> Any:
        """Found again by its number, as a class is."""
        _check(members.values())
        _, extra = others
        return make(bases, name, module_path, members, module, None, extra)

    return checked


def _set_class_state(set_state: Callable[..., Any]) -> Callable[..., Any]:
    def checked(cls: type, state: Any) -> Any:
        attributes, _ = state
        _check(attributes.values())
        return set_state(cls, state)

    return checked


_CHECKED: dict[str, Callable[[Any], Any]] = {
    "_make_function": _make_function,
    "_function_setstate": _set_function_state,
    "_make_skeleton_class": _make_class,
    "_make_skeleton_enum": _make_enum,
    "_class_setstate": _set_class_state,
}
