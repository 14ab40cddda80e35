"""Read a pickle as a tree of names and states, running none of it.

How it works. Python's unpickler asks `find_class` for everything that a pickle names, and then
calls it, makes instances of it, or sets state on it. Here `find_class` never imports: it answers
with a new class that bears the name and does nothing but remember. What cloudpickle ships by value
(classes, functions, lambdas) goes through calls of `_make_skeleton_class`, `_make_function` and so
on, which are names like any other, so their code objects stay data.

Before that the opcodes are walked once without building anything, which refuses what could make the
unpickler itself spend memory: memo numbers out of any order, and objects of another process.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

#: An executor graph is a few KB. Operators may hold tables, so the limit is far above that.
MAX_PICKLE_BYTES = 64 * 1024 * 1024

_FOREIGN_OPCODES = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"}
_MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


class NotInert(Exception):
    """The bytes are no pickle that can be read without running it."""


class Inert:
    """Stands for an instance of a class that was not imported.

    args: what it was constructed with. state: its attributes, merged from every state it was given.
    """

    qualified_name = ""

    def __new__(cls, *args: Any, **_: Any) -> Inert:
        self = super().__new__(cls)
        self.args = args
        self.state = {}
        return self

    args: tuple[Any, ...]
    state: dict[str, Any]

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any arguments, as the class that is stood for might."""

    def __setstate__(self, state: Any) -> None:
        """Remember a state: a dict, or the (dict, slots) pair of a class with slots."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.state.update(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take the items of a mapping that was not imported."""

    def append(self, _: Any) -> None:
        """Take the items of a list that was not imported."""

    def add(self, _: Any) -> None:
        """Take the items of a set that was not imported."""


def read_pickle(data: bytes) -> Any:
    """The pickled object, with an Inert for every instance of a class; raises NotInert.

    Dicts, lists, tuples, sets, strings and numbers are themselves. Nothing is imported or called.
    """
    _check_opcodes(data)
    try:
        return _InertUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        raise NotInert(f"it does not unpickle ({type(error).__name__}: {error})") from error


def class_name(value: Any) -> str:
    """`module.name` of the class that an Inert stands for; empty for anything else."""
    return value.qualified_name if isinstance(value, Inert) else ""


def _check_opcodes(data: bytes) -> None:
    written = 0
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _FOREIGN_OPCODES:
                raise NotInert(f"it refers to objects outside of itself ({opcode.name})")
            if opcode.name in _MEMO_OPCODES:
                if not 0 <= int(argument or 0) <= written:
                    raise NotInert("its memo is out of order")
                written += 1
            elif opcode.name == "MEMOIZE":
                written += 1
    except NotInert:
        raise
    except Exception as error:  # genops raises ValueError mostly, and what its decoders raise
        raise NotInert(f"it is truncated or no pickle ({error})") from error


def _inert_class(module: str, name: str) -> type[Inert]:
    return type(name.rpartition(".")[2], (Inert,), {"qualified_name": f"{module}.{name}"})


def _make_class(_metaclass: Any, name: Any, *_: Any) -> type[Inert]:
    """In the place of cloudpickle's _make_skeleton_class and _make_skeleton_enum."""
    return _inert_class("(pickled by value)", str(name))


def _make_instance(cls: type[Inert], *args: Any) -> Inert:
    """In the place of copyreg's _reconstructor, __newobj__ and __newobj_ex__."""
    return cls.__new__(cls, *args)


_CONSTRUCTORS = {
    "_make_skeleton_class": _make_class,
    "_make_skeleton_enum": _make_class,
    "_reconstructor": _make_instance,
    "__newobj__": _make_instance,
    "__newobj_ex__": _make_instance,
}
_PLAIN = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("collections", "OrderedDict"): dict,
}


class _InertUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._classes: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        key = (module, name)
        if key not in self._classes:
            self._classes[key] = (
                _PLAIN.get(key) or _CONSTRUCTORS.get(name) or _inert_class(module, name)
            )
        return self._classes[key]

    def persistent_load(self, pid: Any) -> Any:
        raise NotInert(f"it refers to an object outside of itself ({pid!r})")
