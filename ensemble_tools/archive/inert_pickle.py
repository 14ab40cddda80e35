"""Read a pickle as a tree of names and states, running none of it.

How it works. Python's unpickler asks `find_class` for everything that a pickle names, and then
calls it, makes instances of it, or sets state on it. Here `find_class` never imports: it answers
with a new class that bears the name and does nothing but remember. What cloudpickle ships by value
(classes, functions, lambdas) goes through calls of `_make_skeleton_class`, `_make_function` and so
on, which are names like any other, so their code objects stay data.

The unpickler is the standard library's own in Python, not the one in C: it gives up the interpreter
to other threads, and its opcodes can be replaced. Those are replaced that could make a few bytes
cost much: a memo numbered out of any order, sizes that the file does not have, and objects of
another process. Opcodes, kept bytes and copies are counted. Of an array that is large, and of what
exceeds the count of bytes, nothing is read: an Unread stands for it.

Keys. Who chooses the hashes of a dict's keys or a set's items can make each meet all others.
Strings and bytes are hashed with a secret, and instances by their address; whatever else is a key
(numbers, tuples, frozensets, texts too long to be compared again and again) stands there in a Key,
which is hashed by its address, too.

NotInert says that a pickle cannot be read here, Unpicklable that nobody can read it: it is
truncated, no pickle, or names objects outside of itself.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from ensemble_tools.archive.files import POINTER
from ensemble_tools.errors import shortened

#: About 2 s. A graph has some thousands; a table in an array is one opcode, in a dict two a value.
MAX_OPCODES = 2_000_000
#: List items, dict entries and arguments that may be copied while the pickle is read.
MAX_COPIED = 1_000_000
#: Each name becomes a class, which takes more than a KB.
MAX_CLASSES = 20_000
#: Texts and bytes that are kept. An executor graph is a few KB.
MAX_KEPT_BYTES = 64 * 1024 * 1024
#: Bytes objects are read up to this size; longer ones are arrays that nothing here looks into.
MAX_BYTES_OBJECT = 16 * 1024 * 1024
#: Of a name or a number that is written as a line.
MAX_LINE = 1024 * 1024
#: Of a state that is a tuple: functools.partial has four, what has slots two.
_STATE_PARTS = 4
#: Of a module's name, or a class's; each is compared whenever it comes again.
MAX_NAME = 4096
#: Texts in a tuple that is a key as it is, such as the columns that HashedCross crosses.
MAX_KEY_TEXTS = 32
#: Of all texts in one key, which is compared with its like whenever it comes again.
MAX_KEY_LENGTH = 16 * 1024


#: The module of classes that a pickle has itself.
BY_VALUE = "(pickled by value)"
#: That of what stands for the result of a call.
CALLED = "(called)"


class NotInert(Exception):
    """The pickle cannot be read without running it, or takes too much to read."""


class Unpicklable(NotInert):
    """Nothing can read it: its beginning, other bytes, or what belongs to another process."""


class Key:
    """Stands in a dict or set for a key whose hash may have been chosen; hashed by its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, eq=False)
class Unread:
    """Stands for a bytes object that was not read."""

    size: int


def as_key(key: Any) -> Any:
    """The key itself where nobody can have chosen what it costs, else a Key that holds it."""
    if isinstance(key, str | bytes):
        return key if len(key) <= MAX_KEY_LENGTH else Key(key)
    if isinstance(key, list | dict | set | bytearray):
        raise Unpicklable("it has a list, a dict or a set as a key")
    if type(key) is tuple:
        texts = len(key) <= MAX_KEY_TEXTS and all(type(item) is str for item in key)
        return key if texts and sum(map(len, key)) <= MAX_KEY_LENGTH else Key(key)
    return key if isinstance(key, bool | Inert | type | Unread | None) else Key(key)


class _Budget:
    """How much one pickle may still have copied, and how many classes it may still name.

    operator: the one that was named last, for messages; empty before the first.
    """

    __slots__ = ("classes_left", "copies_left", "operator")

    def __init__(self) -> None:
        self.copies_left, self.classes_left = MAX_COPIED, MAX_CLASSES
        self.operator = ""

    def spend(self, items: int) -> None:
        self.copies_left -= items
        if self.copies_left < 0:
            raise NotInert(f"it copies more than {MAX_COPIED} items")

    def spend_class(self) -> None:
        self.classes_left -= 1
        if self.classes_left < 0:
            raise NotInert(f"it names more than {MAX_CLASSES} classes and functions")


class Inert:
    """Stands for an instance of a class that was not imported."""

    qualified_name = ""
    budget: _Budget

    #: The arguments that the instance was made with, by position.
    args: tuple[Any, ...]
    #: The attributes, merged from every state that the instance was given.
    state: dict[str, Any]
    #: The last state that was a tuple, such as that of numpy's arrays.
    parts: tuple[Any, ...] = ()
    #: The items of a list, a set or a mapping that was not imported, and keys.
    held_items: Sequence[Any] = ()
    #: Of a class that the pickle has itself: its bases, methods and other attributes.
    contents: ClassVar[tuple[Any, ...]] = ()

    def __new__(cls, *args: Any, **named: Any) -> Any:
        cls.budget.spend(len(args) + len(named))
        self = super().__new__(cls)
        self.args = args
        self.state = {}
        return self

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any arguments, as the class that is stood for might."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Stands for what the call of a method or function that was looked up returns."""
        return _inert_class(CALLED, type(self).__name__, self.budget)(*args, **named)

    def __setstate__(self, state: Any) -> None:
        """Remember a state: a dict, or the (dict, slots) pair of a class with slots."""
        if isinstance(state, tuple):
            self.parts = state
        for part in state[:_STATE_PARTS] if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.budget.spend(len(part))
                self.state.update(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take the items of a mapping that was not imported."""
        self.append(key)
        self.append(value)

    def append(self, item: Any) -> None:
        """Take the items of a list that was not imported."""
        if not isinstance(self.held_items, list):
            self.held_items = []
        self.held_items.append(item)

    def add(self, item: Any) -> None:
        """Take the items of a set that was not imported."""
        self.append(item)


def read_pickle(data: bytes) -> Any:
    """The pickled object, as read_pickle_file reads it."""
    return read_pickle_file(io.BytesIO(data))


def read_pickle_file(file: BinaryIO) -> Any:
    """The pickled object, with an Inert for every instance of a class; raises NotInert, OSError.

    Dicts, lists, tuples, sets, strings and numbers are themselves, but for keys (Key) and large
    bytes objects (Unread). Nothing is imported or called. Blocking, some 2 s at most.
    A MemoryError is the machine's, since what is asked for is counted: it is raised.
    """
    unpickler = _InertUnpickler(file)
    try:
        return unpickler.load()
    except (Unpicklable, MemoryError, OSError):
        raise
    except NotInert as error:
        raise NotInert(f"{error}{unpickler.where}") from error
    except _UNREADABLE as error:
        file.seek(0)
        if file.read(len(POINTER)) == POINTER:
            raise Unpicklable(
                "it is a pointer of Git LFS (`git lfs pull` fetches the file)"
            ) from error
        reason = shortened(f"{type(error).__name__}: {error}")
        raise Unpicklable(f"it is truncated or no pickle ({reason})") from error
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        reason = shortened(f"{type(error).__name__}: {error}")
        raise NotInert(f"it does not unpickle ({reason}){unpickler.where}") from error


def class_name(value: Any) -> str:
    """`module.name` of the class that an Inert stands for; empty for anything else."""
    return value.qualified_name if isinstance(value, Inert) else ""


#: What the unpickler raises for bytes that mean nothing; all else may come of our inert objects.
_UNREADABLE = (
    EOFError,
    pickle.UnpicklingError,
    struct.error,
    LookupError,
    ValueError,
)


#: Modules with operators, and what users call one that they know by another name.
_OPERATORS = re.compile(
    r"(nvtabular|merlin|merlin\.systems)\.(dag\.)?(runtimes\.triton\.)?ops\.\w+"
)
_LABELS = {"UDF": "LambdaOp"}
#: Opcodes between two looks at how much was read.
_COUNTED_EVERY = 10_000


class _InertUnpickler(pickle._Unpickler):
    """pickle's unpickler in Python; `dispatch` has a function for each opcode."""

    memo: dict[int, Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._skipped = 0
        self._classes: dict[tuple[str, str], type[Inert]] = {}
        self._budget = _Budget()

    @property
    def where(self) -> str:
        """The operator of the last part, for messages."""
        return f" (in {self._budget.operator})" if self._budget.operator else ""

    def load(self) -> Any:
        """Follow the opcodes up to STOP. Frames are only hints for who reads ahead."""
        self.read, self.readline = self._file.read, self._read_line
        self.metastack: list[Any] = []
        self.stack: list[Any] = []
        self.append = self.stack.append
        self.proto = 0
        read, dispatch = self.read, self.dispatch
        for _ in range(MAX_OPCODES // _COUNTED_EVERY):
            for _ in range(_COUNTED_EVERY):
                code = read(1)
                if code == pickle.STOP:
                    return self.stack.pop()
                dispatch[code[0]](self)
            self._check_kept()
        raise NotInert(f"it has more than {MAX_OPCODES} opcodes")

    def _check_kept(self) -> None:
        if self._file.tell() - self._skipped > MAX_KEPT_BYTES:
            raise NotInert(f"it has more than {MAX_KEPT_BYTES} bytes beside large arrays")

    def find_class(self, module: str, name: str) -> type[Inert]:
        key = (_checked_name(module), _checked_name(name))
        if _OPERATORS.fullmatch(module):
            self._budget.operator = shortened(_LABELS.get(name, name))
        if key not in self._classes:
            constructor = _PLAIN.get(key) or _CONSTRUCTORS.get(name)
            self._classes[key] = _inert_class(module, name, self._budget, constructor)
        return self._classes[key]

    def persistent_load(self, pid: Any) -> Any:
        raise Unpicklable("it is truncated or no pickle, or refers to objects outside of itself")

    def get_extension(self, code: int) -> Any:
        raise Unpicklable(f"it refers to a class outside of itself (extension {code})")

    def _read_line(self) -> bytes:
        line = self._file.readline(MAX_LINE + 1)
        if len(line) > MAX_LINE:
            raise NotInert(f"it has a text of more than {MAX_LINE} bytes in a line")
        self._check_kept()
        if not line.endswith(b"\n"):
            raise EOFError("a line without an end")
        return line

    def _read_size(self, form: str) -> int:
        """How many bytes follow, which the file has."""
        (size,) = struct.unpack(form, self._file.read(struct.calcsize(form)))
        if not 0 <= size <= self._size - self._file.tell():
            raise EOFError(f"{size} bytes are to follow, more than there are")
        return int(size)

    def _read_bytes(self, form: str, most: int = MAX_KEPT_BYTES) -> Any:
        """That many bytes; an Unread where they are more than may be kept."""
        size = self._read_size(form)
        if size <= min(most, MAX_KEPT_BYTES - (self._file.tell() - self._skipped)):
            return self._file.read(size)
        if most == MAX_KEPT_BYTES:
            raise NotInert(f"it has more than {MAX_KEPT_BYTES} bytes beside large arrays")
        self._file.seek(size, os.SEEK_CUR)
        self._skipped += size
        return Unread(size)

    def _load_frame(self) -> None:
        self._read_size("<Q")

    def _load_long(self) -> None:
        self.append(int.from_bytes(self._read_bytes("<i"), "little", signed=True))

    def _load_ascii(self) -> None:
        self.append(self._read_bytes("<i").decode("ascii"))

    def _load_bytes(self, form: str) -> None:
        self.append(self._read_bytes(form, MAX_BYTES_OBJECT))

    def _load_text(self, form: str) -> None:
        self.append(str(self._read_bytes(form), "utf-8", "surrogatepass"))

    def _call(self, code: bytes, arguments: int) -> None:
        """Do as the opcode says, unless its arguments would have to be made of something long."""
        if not isinstance(self.stack[arguments], tuple):
            raise Unpicklable("it is no pickle: it calls something with what is no tuple")
        pickle._Unpickler.dispatch[code[0]](self)  # type: ignore[arg-type]  # typeshed: C's class

    def _put(self, memo_index: int) -> None:
        """Into the memo, at its end or in an entry that it has."""
        if not 0 <= memo_index <= len(self.memo):
            raise Unpicklable("its memo is out of order")
        self.memo[memo_index] = self.stack[-1]

    def _load_setitems(self) -> None:
        items = self.pop_mark()
        self._set_items(self.stack[-1], items)

    def _load_setitem(self) -> None:
        items = [self.stack.pop(), self.stack.pop()][::-1]
        self._set_items(self.stack[-1], items)

    def _load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set_items(self.stack[-1], items)

    def _set_items(self, mapping: Any, items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            mapping[as_key(key)] = value

    def _load_additems(self) -> None:
        items = self.pop_mark()
        for item in items:
            self.stack[-1].add(as_key(item))

    def _load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(frozenset(map(as_key, items)))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **{
            code[0]: load
            for code, load in {
                pickle.FRAME: _load_frame,
                pickle.LONG4: _load_long,
                pickle.BINSTRING: _load_ascii,
                pickle.BINBYTES: lambda self: self._load_bytes("<I"),
                pickle.BINBYTES8: lambda self: self._load_bytes("<Q"),
                pickle.BYTEARRAY8: lambda self: self._load_bytes("<Q"),
                pickle.READONLY_BUFFER: lambda self: None,
                pickle.BINUNICODE: lambda self: self._load_text("<I"),
                pickle.BINUNICODE8: lambda self: self._load_text("<Q"),
                pickle.REDUCE: lambda self: self._call(pickle.REDUCE, -1),
                pickle.NEWOBJ: lambda self: self._call(pickle.NEWOBJ, -1),
                pickle.NEWOBJ_EX: lambda self: self._call(pickle.NEWOBJ_EX, -2),
                pickle.PUT: lambda self: self._put(int(self.readline())),
                pickle.BINPUT: lambda self: self._put(self.read(1)[0]),
                pickle.LONG_BINPUT: lambda self: self._put(struct.unpack("<I", self.read(4))[0]),
                pickle.SETITEM: _load_setitem,
                pickle.SETITEMS: _load_setitems,
                pickle.DICT: _load_dict,
                pickle.ADDITEMS: _load_additems,
                pickle.FROZENSET: _load_frozenset,
            }.items()
        },
    }


def _inert_class(
    module: str, name: str, budget: _Budget, constructor: Callable[..., Any] | None = None
) -> type[Inert]:
    """A class of that name; calling it does nothing, or what the constructor does.

    Always a class, also in the place of a function: a pickle can set attributes on functions.
    """
    budget.spend_class()
    members: dict[str, Any] = {"qualified_name": f"{module}.{name}", "budget": budget}
    if constructor is not None:
        members["__new__"] = _counted(constructor)
    return type(name.rpartition(".")[2], (Inert,), members)


def stand_in(qualified_name: str) -> type[Inert]:
    """A class that stands for one of that name, for what another format than a pickle holds."""
    module, _, name = qualified_name.rpartition(".")
    return _inert_class(module, name, _Budget())


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise NotInert(f"it has a name that is no text of at most {MAX_NAME} characters")
    return name


def _counted(constructor: Callable[..., Any]) -> Callable[..., Any]:
    """Stands for a class's __new__; each call copies its arguments."""

    def make(cls: type[Inert], *args: Any) -> Any:
        cls.budget.spend(len(args))
        return constructor(cls.budget, *args)

    return make


def _make_class(budget: _Budget, first: Any, name: Any, *others: Any) -> type[Inert]:
    """Stands for cloudpickle's _make_skeleton_class and _make_skeleton_enum."""
    budget.operator = shortened(_checked_name(name))
    made = _inert_class(BY_VALUE, name, budget)
    made.contents = (first, *others)
    return made


def _set_class_state(_: _Budget, cls: Any, state: Any) -> Any:
    """Stands for cloudpickle's _class_setstate: methods, and other attributes."""
    if isinstance(cls, type) and issubclass(cls, Inert):
        cls.contents = (cls.contents, state)
    return cls


def _make_builtin_type(budget: _Budget, name: Any, *_: Any) -> type[Inert]:
    """Stands for cloudpickle's _builtin_type, which names CodeType and others."""
    return _inert_class("types", _checked_name(name), budget)


def _make_instance(_: _Budget, cls: Any, *args: Any) -> Any:
    """Stands for copyreg's _reconstructor, __newobj__ and __newobj_ex__."""
    if not (isinstance(cls, type) and issubclass(cls, Inert)):
        raise NotInert("it makes an instance of what is no class")
    return cls.__new__(cls, *args)


def _set_function_state(_: _Budget, function: Any, state: Any) -> Any:
    """Stands for cloudpickle's _function_setstate: names, and what it closes over."""
    if isinstance(function, Inert):
        function.__setstate__(state)
    return function


def _make_list(budget: _Budget, *args: Any) -> Any:
    budget.spend(sum(len(arg) for arg in args))
    return list(*args)


def _set_maker(kind: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    """The builtin itself, counting what it copies."""

    def make(budget: _Budget, items: Any = ()) -> Any:
        budget.spend(len(items))
        return kind(map(as_key, items))

    return make


def _make_dict(budget: _Budget, items: Any = ()) -> Any:
    pairs = items.items() if isinstance(items, dict) else items
    budget.spend(len(pairs))
    copied = []
    for pair in pairs:
        budget.spend(len(pair))
        key, value = pair
        copied.append((as_key(key), value))
    return dict(copied)


_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "_make_skeleton_class": _make_class,
    "_make_skeleton_enum": _make_class,
    "_builtin_type": _make_builtin_type,
    "_class_setstate": _set_class_state,
    "_function_setstate": _set_function_state,
    "_reconstructor": _make_instance,
    "__newobj__": _make_instance,
    "__newobj_ex__": _make_instance,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "list": _make_list,
    "dict": _make_dict,
    "set": _set_maker(set),
    "frozenset": _set_maker(frozenset),
}
#: Up to protocol 2 Python writes the names that Python 2 had.
_PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    (module, name): make
    for name, make in _BUILTINS.items()
    for module in ("builtins", "__builtin__")
} | {("collections", "OrderedDict"): _make_dict}
