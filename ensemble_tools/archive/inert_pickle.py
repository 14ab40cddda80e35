"""Read a pickle as a tree of names and states, running none of it.

How it works. Python's unpickler asks `find_class` for everything that a pickle names, and then
calls it, makes instances of it, or sets state on it. Here `find_class` never imports: it answers
with a new class that bears the name and does nothing but remember. What cloudpickle ships by value
(classes, functions, lambdas) goes through calls of `_make_skeleton_class`, `_make_function` and so
on, which are names like any other, so their code objects stay data.

Before that the opcodes are walked once without building anything, which refuses what could make the
unpickler itself spend memory or crash: memo numbers out of any order, objects of another process,
and tuples in tuples without end, which no hash of them would survive. Since a few bytes can ask for
another copy of a long list, whatever is copied while the pickle is read is counted.

Keys. Who chooses the hashes of a dict's keys or a set's items can make each meet all others,
and the unpickler holds the interpreter meanwhile. Strings and bytes are hashed with a secret, and
instances by their address; numbers are not, so only a few of them may be keys; tuples of other
things than a few strings, frozensets and very long numbers, whose hash can also take for ever, are
none at all.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterable
from typing import Any

from ensemble_tools.errors import shortened

#: An executor graph is a few KB. Operators may hold tables, so the limit is far above that.
MAX_PICKLE_BYTES = 64 * 1024 * 1024
#: The walk takes about 2 s for so many. A graph has some thousands; a table is one opcode.
MAX_OPCODES = 1_000_000
#: List items, dict entries and arguments that may be copied while the pickle is read.
MAX_COPIED = 1_000_000
#: Python hashes a tuple of tuples by recursion in C: 100,000 levels end the process.
MAX_TUPLE_NESTING = 100
#: Numbers that may be dict keys or set items, over all of the pickle: a graph has hardly any. With
#: chosen hashes each costs as much as there are others.
MAX_NUMBER_KEYS = 1_000
#: Texts in a tuple that is a key, such as the columns that HashedCross crosses.
MAX_KEY_TEXTS = 32
#: Longer numbers take long to hash, and Python hashes them anew each time.
MAX_KEY_BITS = 32 * 1024

_FOREIGN_OPCODES = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER"}
_MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}
_RECALLING_OPCODES = {"GET", "BINGET", "LONG_BINGET"}
_TUPLE_OPCODES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
#: They leave the object that they change on the stack.
_CHANGING_OPCODES = {"BUILD", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"}
_TEXT_OPCODES = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_NUMBER_OPCODES = {
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
}
#: Where the keys are among what the opcode takes from the stack.
_KEYS = {
    "SETITEM": slice(1, 2),
    "SETITEMS": slice(1, None, 2),
    "DICT": slice(0, None, 2),
    "ADDITEMS": slice(1, None),
    "FROZENSET": slice(0, None),
}


_UNFIT_KEY = "it has a tuple, a frozenset or a very long number as a key"


class NotInert(Exception):
    """The bytes are no pickle that can be read without running it."""


class _Budget:
    """What one pickle may still have copied, and how many numbers may still be keys."""

    __slots__ = ("copies_left", "number_keys_left")

    def __init__(self) -> None:
        self.copies_left = MAX_COPIED
        self.number_keys_left = MAX_NUMBER_KEYS

    def spend(self, items: int) -> None:
        self.copies_left -= items
        if self.copies_left < 0:
            raise NotInert(f"it copies more than {MAX_COPIED} items")

    def spend_number_key(self) -> None:
        self.number_keys_left -= 1
        if self.number_keys_left < 0:
            raise NotInert(f"it has more than {MAX_NUMBER_KEYS} numbers as keys")

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Before they are hashed: raise NotInert for keys whose hashes may have been chosen."""
        for key in keys:
            if isinstance(key, int | float):
                if isinstance(key, int) and key.bit_length() > MAX_KEY_BITS:
                    raise NotInert(_UNFIT_KEY)
                self.spend_number_key()
            elif isinstance(key, tuple):
                if len(key) > MAX_KEY_TEXTS or not all(type(item) is str for item in key):
                    raise NotInert(_UNFIT_KEY)
            elif not isinstance(key, str | bytes | Inert | type | _FrozenSet | None):
                raise NotInert(_UNFIT_KEY)


class Inert:
    """Stands for an instance of a class that was not imported.

    args: what it was made with, by place. state: its attributes, merged from every state it was
    given.
    """

    qualified_name = ""
    budget: _Budget

    args: tuple[Any, ...]
    state: dict[str, Any]

    def __new__(cls, *args: Any, **named: Any) -> Any:
        cls.budget.spend(len(args) + len(named))
        self = super().__new__(cls)
        self.args = args
        self.state = {}
        return self

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take any arguments, as the class that is stood for might."""

    def __setstate__(self, state: Any) -> None:
        """Remember a state: a dict, or the (dict, slots) pair of a class with slots."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.budget.spend(len(part))
                self.budget.check_keys(part)
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
    A MemoryError is the machine's, since the walk has seen how much is asked for: it is raised.
    """
    _check_opcodes(data)
    try:
        return _InertUnpickler(io.BytesIO(data)).load()
    except (NotInert, MemoryError):
        raise
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        reason = shortened(f"{type(error).__name__}: {error}")
        raise NotInert(f"it does not unpickle ({reason})") from error


def class_name(value: Any) -> str:
    """`module.name` of the class that an Inert stands for; empty for anything else."""
    return value.qualified_name if isinstance(value, Inert) else ""


def _check_opcodes(data: bytes) -> None:
    walk = _Walk()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= MAX_OPCODES:
                raise NotInert(f"it has more than {MAX_OPCODES} opcodes")
            walk.step(opcode, argument)
    except (NotInert, MemoryError):
        raise
    except Exception as error:  # genops raises ValueError mostly, and what its decoders raise
        raise NotInert(f"it is truncated or no pickle ({shortened(str(error))})") from error


def is_pickle(data: bytes) -> bool:
    """False for what nothing can unpickle: other bytes, or the beginning of a pickle."""
    try:
        for number, _ in enumerate(pickletools.genops(data)):
            if number >= MAX_OPCODES:
                break
    except UnicodeDecodeError:  # names that pickletools takes for ASCII
        return True
    except ValueError:
        return False
    return True


class _Walk:
    """The unpickler's stack and memo, with a number in the place of each object.

    Above 0: a tuple, and how deep tuples are nested in it; one of texts alone has a number of its
    own. 0: anything else, but for the following.
    """

    _MARK, _NUMBER, _UNFIT_AS_KEY, _TEXT, _TEXTS = -1, -2, -3, -4, -5

    def __init__(self) -> None:
        self._stack: list[int] = []
        self._memo: dict[int, int] = {}
        self._budget = _Budget()

    def step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow one opcode; raises NotInert, or IndexError or KeyError where nothing was put."""
        # 1. What would reach out of the pickle is refused.
        # 2. The memo is written to, always at its end or anew in a place that it has; 3. and read.
        # 4. What the unpickler does to its stack alone is done to this one.
        # 5. All else takes operands from the stack and puts what it makes of them in their place.
        name = opcode.name
        if name in _FOREIGN_OPCODES:  # 1
            raise NotInert(f"it refers to objects outside of itself ({name})")
        if name in _MEMO_OPCODES or name == "MEMOIZE":  # 2
            self._remember(len(self._memo) if name == "MEMOIZE" else int(argument))
        elif name in _RECALLING_OPCODES:  # 3
            self._stack.append(self._memo[int(argument)])
        elif name == "MARK":  # 4
            self._stack.append(self._MARK)
        elif name == "POP":
            self._stack.pop()
        elif name == "DUP":
            self._stack.append(self._stack[-1])
        else:  # 5
            self._replace(opcode, argument)

    def _remember(self, place: int) -> None:
        if not 0 <= place <= len(self._memo):
            raise NotInert("its memo is out of order")
        self._memo[place] = self._stack[-1]

    def _replace(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        operands = self._pop_operands(opcode)
        if opcode.name in _KEYS:
            self._check_keys(operands[_KEYS[opcode.name]])
        self._stack.extend(
            [self._stand_in(opcode.name, argument, operands)] * len(opcode.stack_after)
        )

    def _stand_in(self, opcode: str, argument: Any, operands: list[int]) -> int:
        # 1. A text. 2. A tuple: of a few texts, or as deep as its deepest item and one more.
        # 3. The object that was changed, still there. 4. What may be no key, whatever is in it.
        # 5. A number, if it is short enough for a key. 6. Anything else.
        if opcode in _TEXT_OPCODES:  # 1
            return self._TEXT
        if opcode in _TUPLE_OPCODES:  # 2
            if 0 < len(operands) <= MAX_KEY_TEXTS and set(operands) == {self._TEXT}:
                return self._TEXTS
            nesting = 1 + max([0, *operands])
            if nesting > MAX_TUPLE_NESTING:
                raise NotInert(f"it nests tuples deeper than {MAX_TUPLE_NESTING}")
            return nesting
        if opcode in _CHANGING_OPCODES:  # 3
            return operands[0]
        if opcode == "FROZENSET":  # 4
            return self._UNFIT_AS_KEY
        if opcode in _NUMBER_OPCODES:  # 5
            long = isinstance(argument, int) and argument.bit_length() > MAX_KEY_BITS
            return self._UNFIT_AS_KEY if long else self._NUMBER
        return 0  # 6

    def _check_keys(self, keys: list[int]) -> None:
        for key in keys:
            if key == self._NUMBER:
                self._budget.spend_number_key()
            elif key not in (0, self._TEXT, self._TEXTS):
                raise NotInert(_UNFIT_KEY)

    def _pop_operands(self, opcode: pickletools.OpcodeInfo) -> list[int]:
        before = opcode.stack_before
        if pickletools.markobject not in before:
            return [self._stack.pop() for _ in before][::-1]
        items: list[int] = []
        while (item := self._stack.pop()) != self._MARK:
            items.append(item)
        below = [self._stack.pop() for _ in range(before.index(pickletools.markobject))]
        return [*below[::-1], *items[::-1]]


class _InertUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._classes: dict[tuple[str, str], type[Inert]] = {}
        self._budget = _Budget()

    def find_class(self, module: str, name: str) -> type[Inert]:
        key = (module, name)
        if key not in self._classes:
            constructor = _PLAIN.get(key) or _CONSTRUCTORS.get(name)
            self._classes[key] = _inert_class(module, name, self._budget, constructor)
        return self._classes[key]

    def persistent_load(self, pid: Any) -> Any:
        raise NotInert("it refers to an object outside of itself")


def _inert_class(
    module: str, name: str, budget: _Budget, constructor: Callable[..., Any] | None = None
) -> type[Inert]:
    """A class of that name; calling it does nothing, or what the constructor does.

    Always a class, also in the place of a function: a pickle can set attributes on functions.
    """
    members: dict[str, Any] = {"qualified_name": f"{module}.{name}", "budget": budget}
    if constructor is not None:
        members["__new__"] = lambda cls, *args: constructor(cls.budget, *args)
    return type(name.rpartition(".")[2], (Inert,), members)


def _make_class(budget: _Budget, _metaclass: Any, name: Any, *_: Any) -> type[Inert]:
    """In the place of cloudpickle's _make_skeleton_class and _make_skeleton_enum."""
    return _inert_class("(pickled by value)", str(name), budget)


def _make_builtin_type(budget: _Budget, name: Any, *_: Any) -> type[Inert]:
    """In the place of cloudpickle's _builtin_type, which names CodeType and others."""
    return _inert_class("types", str(name), budget)


def _make_instance(_: _Budget, cls: Any, *args: Any) -> Any:
    """In the place of copyreg's _reconstructor, __newobj__ and __newobj_ex__."""
    if not (isinstance(cls, type) and issubclass(cls, Inert)):
        raise NotInert("it makes an instance of what is no class")
    return cls.__new__(cls, *args)


def _set_function_state(_: _Budget, function: Any, state: Any) -> Any:
    """In the place of cloudpickle's _function_setstate: names, and what it closes over."""
    if isinstance(function, Inert):
        function.__setstate__(state)
    return function


def _make_list(budget: _Budget, *args: Any) -> Any:
    budget.spend(sum(len(arg) for arg in args))
    return list(*args)


def _set_maker(kind: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """The builtin itself, counting what it copies and checking what it hashes."""

    def make(budget: _Budget, items: Any = ()) -> Any:
        budget.spend(len(items))
        listed = list(items)
        budget.check_keys(listed)
        return kind(listed)

    return make


def _make_dict(budget: _Budget, items: Any = ()) -> Any:
    pairs = items.items() if isinstance(items, dict) else items
    budget.spend(len(pairs))
    copied = []
    for pair in pairs:
        budget.spend(len(pair))
        copied.append(tuple(pair))
    budget.check_keys(pair[0] for pair in copied if pair)
    return dict(copied)


class _FrozenSet(frozenset[Any]):
    """Hashed by its address, so that it may be a key: its items do not choose its hash."""

    __slots__ = ()

    __hash__ = object.__hash__


_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "_make_skeleton_class": _make_class,
    "_make_skeleton_enum": _make_class,
    "_builtin_type": _make_builtin_type,
    "_function_setstate": _set_function_state,
    "_reconstructor": _make_instance,
    "__newobj__": _make_instance,
    "__newobj_ex__": _make_instance,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "list": _make_list,
    "dict": _make_dict,
    "set": _set_maker(set),
    "frozenset": _set_maker(_FrozenSet),
}
#: Up to protocol 2 Python writes the names that Python 2 had.
_PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    (module, name): make
    for name, make in _BUILTINS.items()
    for module in ("builtins", "__builtin__")
} | {("collections", "OrderedDict"): _make_dict}
