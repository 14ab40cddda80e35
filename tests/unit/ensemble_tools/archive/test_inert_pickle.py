"""Hostile pickles: nothing in them runs, nothing is imported, and no few bytes cost much."""

from __future__ import annotations

import contextlib
import pickle
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools.archive.inert_pickle import (
    MAX_BYTES_OBJECT,
    MAX_CLASSES,
    MAX_COPIED,
    MAX_KEPT_BYTES,
    MAX_KEY_LENGTH,
    MAX_KEY_TEXTS,
    MAX_OPCODES,
    Inert,
    Key,
    NotInert,
    Unpicklable,
    Unread,
    class_name,
    read_pickle,
    read_pickle_file,
)
from tests.support.examples import examples, stride

ROOT = Path(__file__).parents[4]
EXPORTS = sorted((ROOT / "examples/merlin").glob("*/repository/executor_model/1/ensemble"))
#: What refusing a bomb may take on a busy machine; some would go on for minutes.
BOMB_SECONDS = 30.0
BOMB_MEGABYTES = 1_500


def text(value: str) -> bytes:
    """The opcode that pushes a string."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def named(module: str, name: str) -> bytes:
    """The opcodes that push what a module calls by a name."""
    return b"c" + f"{module}\n{name}\n".encode()


def hostile(sentinel: Path) -> dict[str, bytes]:
    """Pickles that make the file when they are unpickled in earnest, by each way that there is."""
    command = f"touch {sentinel}"
    say, system = text(command), named("os", "system")
    python = text(f"open({str(sentinel)!r}, 'w')")
    touched = text(str(sentinel))
    return {
        "REDUCE": b"\x80\x04" + system + say + b"\x85R.",
        "INST": b"(" + say + b"ios\nsystem\n.",
        "OBJ": b"(" + system + say + b"o.",
        "NEWOBJ": b"\x80\x02" + named("subprocess", "Popen") + text(command) + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\x04"
        + named("subprocess", "Popen")
        + b")}"
        + text("args")
        + text(command)
        + b"s\x92.",
        "STACK_GLOBAL": b"\x80\x04" + text("os") + text("system") + b"\x93" + say + b"\x85R.",
        "eval": b"\x80\x04" + named("builtins", "eval") + python + b"\x85R.",
        "exec": b"\x80\x04" + named("builtins", "exec") + python + b"\x85R.",
        "getattr": b"\x80\x04"
        + named("builtins", "getattr")
        + named("os", "path")
        + text("join")
        + b"\x86R.",
        "__import__": b"\x80\x04" + named("builtins", "__import__") + text("os") + b"\x85R.",
        "dotted name": b"\x80\x04"
        + text("pathlib")
        + text("Path.touch")
        + b"\x93"
        + named("pathlib", "Path")
        + touched
        + b"\x85R\x85R.",
        "operator.methodcaller": b"\x80\x04"
        + named("operator", "methodcaller")
        + text("touch")
        + b"\x85R"
        + named("pathlib", "Path")
        + touched
        + b"\x85R\x85R.",
        "BUILD": b"\x80\x04"
        + named("subprocess", "Popen")
        + b")\x81}"
        + text("__setstate__")
        + system
        + b"sb"
        + say
        + b"b.",
        "copyreg": b"\x80\x04"
        + named("copyreg", "_reconstructor")
        + named("subprocess", "Popen")
        + named("builtins", "object")
        + b"N\x87R.",
        "functools.partial": b"\x80\x04"
        + named("functools", "partial")
        + system
        + say
        + b"\x86R)R.",
        "runpy": b"\x80\x04" + named("runpy", "run_path") + touched + b"\x85R.",
        "logging.config": b"\x80\x04" + named("logging.config", "listen") + b")R.",
    }


@pytest.mark.parametrize("way", hostile(Path("x")))
def test_nothing_runs(way: str, tmp_path: Path) -> None:
    """No way of making a pickle call something calls anything: there is no file, no new module."""
    sentinel = tmp_path / "it-ran"
    before = set(sys.modules)
    try:
        value = read_pickle(hostile(sentinel)[way])
    except NotInert:
        value = None
    assert value is None or isinstance(value, Inert)
    assert not sentinel.exists()
    assert set(sys.modules) == before


def test_the_hostile_ones_are_hostile(tmp_path: Path) -> None:
    """They do run when Python's own unpickler reads them, in another process."""
    for way in ("REDUCE", "INST", "OBJ", "STACK_GLOBAL", "eval", "operator.methodcaller"):
        sentinel = tmp_path / way
        script = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
        subprocess.run(
            [sys.executable, "-c", script],
            input=hostile(sentinel)[way],
            timeout=60,
            check=True,
        )
        assert sentinel.exists(), way


@pytest.mark.parametrize(
    "function", ["_make_skeleton_class", "_reconstructor", "__newobj__", "_make_function"]
)
def test_our_own_functions_stay_as_they_are(function: str) -> None:
    """What stands in the place of cloudpickle's functions takes no attributes from a pickle."""
    spoil = b"N}" + text("__defaults__") + text("spoiled") + b"\x85s\x86b."
    with pytest.raises(NotInert):
        read_pickle(b"\x80\x04" + named("cloudpickle.cloudpickle", function) + spoil)
    sound = b"\x80\x04" + named("m", "_make_skeleton_class") + b"N" + text("C") + b"\x86R)\x81."
    assert class_name(read_pickle(sound)) == "(pickled by value).C"


def repeated(piece: bytes, times: int) -> bytes:
    return b"\x80\x04](" + piece * times + b"e."


LONG_TUPLE = b"(" + b"N" * 100_000 + b"t\x94"
LONG_LIST = b"](" + b"N" * 100_000 + b"e\x94"
LONG_DICT = b"}(" + b"".join(b"J" + struct.pack("<i", n) + b"N" for n in range(50_000)) + b"u\x94"
RECALL = b"h\x00"

BOMBS = {
    "memo number": b"\x80\x04Nr\xff\xff\xff\xff.",
    "memo number in text": b"\x80\x04Np99999999999\n.",
    "negative memo number": b"Np-1\n.",
    "bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".",
    "bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
    "string": b"\x80\x04\x8d" + struct.pack("<Q", 2**63 + 1) + b".",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N",
    "long": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",
    "long in text": b"L" + b"9" * 1_000_000 + b"L\n.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"Pos\n.",
    "persistent on the stack": b"\x80\x02NQ.",
    "buffer": b"\x80\x05\x97.",
    "opcodes": b"\x80\x04" + b"N0" * (MAX_OPCODES // 2) + b"N.",
    "tuples in tuples": b"\x80\x04)" + b"\x85" * 300_000 + b"\x90.",
    "copies of a list": b"\x80\x04"
    + LONG_LIST
    + b"0"
    + repeated(named("builtins", "list") + RECALL + b"\x85R", 20_000)[2:],
    "copies of a tuple as arguments": b"\x80\x04"
    + LONG_TUPLE
    + b"0"
    + repeated(named("some", "call") + RECALL + b"R", 20_000)[2:],
    "copies of a dict as state": b"\x80\x04"
    + LONG_DICT
    + b"0"
    + repeated(named("some", "call") + b")R" + RECALL + b"b", 20_000)[2:],
    "nothing": b"",
    "no pickle": b"PK\x03\x04 a zip file",
    "no end": b"\x80\x04N",
    "an empty stack": b"\x80\x04.",
    "names": b"\x80\x04"
    + b"".join(named("m", f"c{n}") + b"0" for n in range(MAX_CLASSES + 1))
    + b"N.",
    "texts": b"\x80\x04" + (text("x" * 2**20) + b"0") * (MAX_KEPT_BYTES >> 20) + text("y") + b".",
    "short texts": b"\x80\x04"
    + (b"\x8c\xff" + b"x" * 255 + b"0") * (MAX_KEPT_BYTES // 250)
    + b"N.",
    "a line": b"V" + b"x" * (2 << 20) + b"\n.",
    "a text as arguments": b"\x80\x04" + named("m", "c") + text("x" * (32 << 20)) + b"R.",
    "a text to make an instance": b"\x80\x04" + named("m", "c") + text("x" * (32 << 20)) + b"\x81.",
    "a name that is no string": b"\x80\x04NN\x93.",
    "a name with NUL": b"\x80\x04" + text("m") + text("a\0b") + b"\x93.",
    "a name with half a character": b"\x80\x04" + text("m") + b"X\x03\0\0\0\xed\xa0\x80" + b"\x93.",
    "unhashable": b"\x80\x04}]Ns.",
}


#: Python's own hash of these ends the process.
DEEP = {
    "tuples in tuples as a key": b"\x80\x04})" + b"\x85" * 300_000 + b"Ns.",
    "tuples in tuples through the memo": b"\x80\x04)"
    + b"".join(b"\x85r%b0j%b" % ((struct.pack("<I", n),) * 2) for n in range(150_000))
    + b".",
}

#: Multiples of the modulus of Python's hash of numbers: as keys, each meets all others.
HASH_MODULUS = 2**61 - 1
COLLIDING = [HASH_MODULUS * n for n in range(1, 40_001)]
#: The same low bits on every step of a dict's search, in numbers that are their own hash.
SMALL_INTS = [n << 44 for n in range(40_000)]
FLOATS = [float(2**61) * n for n in range(40_000)]


def listed(values: list[Any]) -> bytes:
    """The opcodes that push a list, without the end."""
    return pickle.dumps(values, 4)[:-1]


def marked(values: list[Any]) -> bytes:
    """The opcodes that push all of the values."""
    return b"".join(pickle.dumps(value, 2)[2:-1] for value in values)


def keyed(values: list[Any]) -> bytes:
    """A dict of these keys, as pickle writes it; to build one of them here would take seconds."""
    return b"\x80\x04}(" + b"".join(marked([value]) + b"N" for value in values) + b"u."


def doubling_tuple(levels: int) -> bytes:
    """A tuple whose hash takes two to the power of the levels."""
    return b"\x80\x04N" + b"q\x00h\x00\x86" * levels


def called(module: str, name: str, values: list[Any]) -> bytes:
    """A call with one argument, a list of the values."""
    return named(module, name) + listed(values)[2:] + b"\x85R."


#: Each is written only by the test that reads it: together they take a third of a second.
COLLISIONS: dict[str, Callable[[], bytes]] = (
    {
        "dict": lambda: keyed(COLLIDING),
        "dict by DICT": lambda: (
            b"\x80\x02(" + b"".join(marked([n]) + b"N" for n in COLLIDING) + b"d."
        ),
        "dict by SETITEM": lambda: (
            b"\x80\x02}" + b"".join(marked([n]) + b"Ns" for n in COLLIDING) + b"."
        ),
        "dict of small numbers": lambda: keyed(SMALL_INTS),
        "dict of floats": lambda: keyed(FLOATS),
        "dict of tuples": lambda: (
            b"\x80\x02}" + b"".join(marked([(n,)]) + b"Ns" for n in COLLIDING) + b"."
        ),
        "ADDITEMS": lambda: b"\x80\x04\x8f(" + marked(COLLIDING) + b"\x90.",
        "FROZENSET": lambda: b"\x80\x04(" + marked(COLLIDING) + b"\x91.",
        "frozensets": lambda: (
            b"\x80\x04\x8f"
            + b"".join(b"((" + marked([n]) + b"\x91\x90" for n in range(2_000))
            + b"."
        ),
        "numbers through the memo": lambda: b"\x80\x04}J\1\0\0\0\x940" + b"h\x00Ns" * 40_000 + b".",
        "a number of a megabyte": lambda: b"\x80\x04}" + marked([2 ** (8 << 20)]) + b"Ns.",
        "a tuple of tuples as a key": lambda: b"\x80\x04}" + doubling_tuple(90)[2:] + b"Ns.",
        "a tuple of tuples in set()": lambda: (
            named("builtins", "set") + b"]" + doubling_tuple(90)[2:] + b"a\x85R."
        ),
        "small sets, again and again": lambda: (
            listed(COLLIDING[:900])
            + b"0("
            + (named("builtins", "set") + b"h\x00\x85R") * 900
            + b"l."
        ),
        "states, again and again": lambda: (
            pickle.dumps(dict.fromkeys(SMALL_INTS[:900]), 4)[:-1]
            + b"0("
            + (named("some", "call") + b")Rh\x00b") * 900
            + b"l."
        ),
    }
    | {
        f"builtins.{kind} of {name}": partial(called, "builtins", kind, values)
        for kind in ("set", "frozenset")
        for name, values in (
            ("numbers", COLLIDING),
            ("small numbers", SMALL_INTS),
            ("floats", FLOATS),
            ("tuples", [(n,) for n in COLLIDING]),
        )
    }
    | {
        f"{module}.{kind} of {name}": partial(called, module, kind, [(n, None) for n in values])
        for module, kind in (("builtins", "dict"), ("collections", "OrderedDict"))
        for name, values in (("numbers", COLLIDING), ("floats", FLOATS))
    }
)
#: Texts, names and arguments that a few bytes each have compared or copied again.
LONG, MORE_ARGUMENTS = "a" * 4_000_000, b"\x80\x04(" + b"N" * 700_000 + b"t\x940"
REPEATED: dict[str, Callable[[], bytes]] = {
    "a long text as a key": lambda: repeated_key(text(LONG)),
    "long bytes as a key": lambda: repeated_key(pickle.dumps(LONG.encode(), 4)[2:-2]),
    "a long text in a tuple as a key": lambda: repeated_key(text(LONG) + b"\x85"),
    "a long text in a set": lambda: (
        b"\x80\x04" + (text(LONG) + b"\x940") * 2 + b"\x8f" + b"(h\0\x90(h\1\x90" * 100_000 + b"."
    ),
    "the name of a module": lambda: (
        b"\x80\x04"
        + (text(LONG) + b"\x940") * 2
        + b"h\0h\0\x930"
        + b"h\1h\1\x930" * 100_000
        + b"N."
    ),
    "the name of an operator": lambda: (
        b"\x80\x04" + text("merlin.dag.ops." + LONG) + b"\x940" + b"h\0h\0\x930" * 100_000 + b"N."
    ),
    "the name of a class by value": lambda: (
        MORE_ARGUMENTS[:3]
        + b"N"
        + text(LONG)
        + b"t\x940"
        + (named("cloudpickle", "_make_skeleton_class") + b"h\0R0") * 19_000
        + b"N."
    ),
    "a list of lists as a name": lambda: (
        named("cloudpickle", "_builtin_type") + b"]q\0" + b"(h\0h\0lq\0" * 90 + b"\x85R."
    ),
    "arguments of a class by value": lambda: (
        MORE_ARGUMENTS + (named("cloudpickle", "_make_skeleton_class") + b"h\0R0") * 19_000 + b"N."
    ),
    "arguments of a type": lambda: (
        MORE_ARGUMENTS + (named("cloudpickle", "_builtin_type") + b"h\0\x810") * 19_000 + b"N."
    ),
}


def repeated_key(key: bytes) -> bytes:
    """A dict that is given two like keys by turns. key: the opcodes that push one."""
    return b"\x80\x04" + (key + b"\x940") * 2 + b"}" + b"h\0Nsh\1Ns" * 100_000 + b"."


#: To let them meet takes from ten seconds to years.
COLLISION_SECONDS = 4.0


@pytest.mark.slow
@pytest.mark.parametrize("way", COLLISIONS)
def test_colliding_keys(way: str) -> None:
    """Keys whose hashes were chosen do not meet, by each way into dict and set."""
    written = COLLISIONS[way]()
    started = time.process_time()
    with contextlib.suppress(NotInert):  # what is copied too often
        read_pickle(written)
    assert time.process_time() - started < COLLISION_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("way", REPEATED)
def test_repetition(way: str) -> None:
    """What is long is not gone through again for every few bytes."""
    written = REPEATED[way]()
    started = time.process_time()
    with contextlib.suppress(NotInert):
        read_pickle(written)
    assert time.process_time() - started < COLLISION_SECONDS


def test_long_keys_and_lines() -> None:
    """A key that is too long to be compared stands in a Key; lines count as all that is kept."""
    key = "a" * MAX_KEY_LENGTH
    assert read_pickle(pickle.dumps({key: 1, (key,): 2})) == {key: 1, (key,): 2}
    for unfit in (key + "a", key.encode() + b"a", (key, "a")):
        ((found, value),) = read_pickle(pickle.dumps({unfit: 1})).items()
        assert (found.value, value) == (unfit, 1)
    with pytest.raises(NotInert, match=r"more than 67108864 bytes"):
        read_pickle((b"V" + b"a" * 1_000_000 + b"\n0") * 68 + b"N.")


def test_keys_of_real_graphs() -> None:
    """Strings, instances, classes, nothing and truth are keys as they are."""
    many = {f"column {n}" for n in range(20_000)}
    some = {None: 1, b"b": 2, True: 3}
    assert read_pickle(pickle.dumps([many, some])) == [many, some]
    instances = b"\x80\x04\x8f(" + (named("m", "Tag") + b")R") * 5_000 + named("m", "C") + b"\x90."
    assert len(read_pickle(instances)) == 5_001


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_keys_of_tables(protocol: int) -> None:
    """Any other key stands in a Key, as often as it is there, by whatever opcode it came."""
    nested: Any = ()
    for _ in range(2_000):
        nested = (nested,)
    keys = [*range(1_001), 0.5, 2**10_000, (1, 2), ("a", 1), frozenset({1}), nested]
    for table in (dict.fromkeys(keys, "value"), set(keys), frozenset(keys)):
        with deep_recursion():
            written = pickle.dumps(table, protocol)
        read = read_pickle(written)
        assert type(read) is type(table)
        assert len(read) == len(keys)
        assert all(type(key) is Key for key in read)
        assert {key.value for key in read if isinstance(key.value, int)} == {
            *range(1_001),
            2**10_000,
        }


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Python's own pickler needs it for what is nested deeply."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


def test_arrays_are_passed_over(tmp_path: Path) -> None:
    """A bytes object beyond the bound is not read, however many there are; all else is."""
    written = tmp_path / "written"
    large = b"\0" * (MAX_BYTES_OBJECT + 1)
    with written.open("wb") as file:
        pickle.dump([large, bytearray(large), b"small", "text"], file, 5)
    with written.open("rb") as file:
        first, second, *rest = read_pickle_file(file)
    assert isinstance(first, Unread)
    assert isinstance(second, Unread)
    assert (first.size, second.size) == (len(large), len(large))
    assert rest == [b"small", "text"]


@pytest.mark.slow
def test_many_arrays_take_little_memory(tmp_path: Path) -> None:
    """Arrays below the bound are passed over once all that is kept comes to the other bound."""
    written = tmp_path / "written"
    array = b"\0" * MAX_BYTES_OBJECT
    with written.open("wb") as file:
        file.write(b"\x80\x05](")
        for _ in range(10):
            file.write(b"B" + struct.pack("<I", len(array)) + array)
        file.write(b"e.")
    with written.open("rb") as file:
        read = read_pickle_file(file)
    assert [type(item) for item in read[3:]] == [Unread] * 7
    assert type(read[0]) is bytes


def test_what_was_called_with_a_method() -> None:
    """The result of a method that was looked up may be called: it stands for what that returns."""
    looked_up = named("builtins", "getattr") + named("m", "C") + text("from_x") + b"\x86R"
    assert class_name(read_pickle(b"\x80\x04" + looked_up + b")R.")).startswith("(called).")


def test_who_is_at_fault() -> None:
    """What nobody can unpickle is told from what is only not read here, and in which operator."""
    for broken in ("nothing", "no pickle", "no end", "persistent", "bytes", "unhashable"):
        with pytest.raises(Unpicklable):
            read_pickle(BOMBS[broken])
    operator = named("merlin.dag.ops.udf", "UDF")
    with pytest.raises(NotInert, match=r"more than 2000000 opcodes \(in LambdaOp\)$") as error:
        read_pickle(b"\x80\x04" + operator + BOMBS["opcodes"][2:])
    assert not isinstance(error.value, Unpicklable)


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(bomb: str) -> None:
    """Each bomb is refused with one short sentence, in seconds and in bounded memory."""
    started = time.process_time()
    with pytest.raises(NotInert) as refusal:
        read_pickle(BOMBS[bomb])
    assert time.process_time() - started < BOMB_SECONDS
    assert len(str(refusal.value)) < 300


@pytest.mark.slow
def test_bombs_in_little_memory() -> None:
    """All bombs and deep structures together, in one process of bounded memory: it ends well."""
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, ({BOMB_MEGABYTES} << 20,) * 2)
from ensemble_tools.archive.inert_pickle import NotInert, read_pickle
from tests.unit.ensemble_tools.archive.test_inert_pickle import BOMBS, DEEP
for name, bomb in BOMBS.items():
    try:
        read_pickle(bomb)
        raise SystemExit(name)
    except NotInert:
        pass
for deep in DEEP.values():
    read_pickle(deep)
read_pickle(b"\\x80\\x04" + b"]" * 200_000 + b"a" * 199_999 + b".")
one = b"cm\\nc\\n)R}}X\\x01\\0\\0\\0a"
read_pickle(b"\\x80\\x04" + one * 100_000 + b"N" + b"sb" * 100_000 + b".")
print("well")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.strip() == "well", done.stdout + done.stderr


def test_limits_leave_room() -> None:
    """The limits are far above what Merlin's own exports need."""
    largest = max((path / "ensemble.pkl").stat().st_size for path in EXPORTS)
    assert min(MAX_OPCODES, MAX_COPIED) > 20 * largest


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data(protocol: int) -> None:
    """Plain data comes through as itself in every protocol."""
    data: dict[str, Any] = {
        "list": [1, -(2**70), 1.5, None, True, "ü\0", b"\xff"],
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "set": {"1", "2"},
        "frozenset": frozenset({"a"}),
    }
    if protocol < 3:
        data["list"] = data["list"][:-1]  # bytes were made by a call of codecs.encode
    assert read_pickle(pickle.dumps(data, protocol)) == data


def test_shared_and_circular_objects() -> None:
    """A shared object stays one object, and a circle stays a circle."""
    shared: list[object] = []
    shared.append(shared)
    read = read_pickle(pickle.dumps([shared, shared]))
    assert read[0] is read[1]
    assert read[0][0] is read[0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_instances(protocol: int) -> None:
    """An instance becomes an Inert that has its class's name and its attributes."""
    read = read_pickle(pickle.dumps(WithSlots("here", "there"), protocol))
    assert class_name(read).endswith("WithSlots")
    assert read.state == {"inside": "here", "outside": "there"}


class WithSlots:
    """Its state is a pair: the dict, and the slots."""

    __slots__ = ("__dict__", "inside")

    def __init__(self, inside: str, outside: str) -> None:
        self.inside, self.outside = inside, outside


@pytest.mark.parametrize("export", EXPORTS, ids=lambda path: path.parents[2].parent.name)
def test_truncated_anywhere(export: Path) -> None:
    """A real pickle that ends too early is refused: the smallest at every byte, others at some.

    `make test` tries every fifth byte of the smallest.
    """
    data = (export / "ensemble.pkl").read_bytes()
    smallest = min((path / "ensemble.pkl").stat().st_size for path in EXPORTS)
    for length in range(0, len(data), stride(5) if len(data) == smallest else 61):
        with pytest.raises(NotInert):
            read_pickle(data[:length])


@settings(max_examples=examples(300))
@given(
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8)
)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    """With any bytes changed, a real pickle is read or refused; no module comes in by it."""
    data = bytearray((EXPORTS[0] / "ensemble.pkl").read_bytes())
    for place, value in flips:
        data[place % len(data)] = value
    before = set(sys.modules)
    with contextlib.suppress(NotInert):
        read_pickle(bytes(data))
    assert set(sys.modules) == before


@settings(max_examples=examples(300))
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are read or refused."""
    with contextlib.suppress(NotInert):
        read_pickle(data)


def test_builtin_type() -> None:
    """cloudpickle ships code objects through a call of `types.CodeType`, named by a string."""
    data = (
        b"\x80\x04ccloudpickle.cloudpickle\n_builtin_type\n(X\x08\x00\x00\x00CodeTypetR"
        b"(K\x01K\x02tR."
    )
    assert class_name(read_pickle(data)) == "types.CodeType"


def test_texts_in_a_tuple_are_a_key() -> None:
    """As the columns that a HashedCross crosses; more of them than a cross has stand in a Key."""
    keys = ("country", "city")
    assert read_pickle(pickle.dumps({keys: 100})) == {keys: 100}
    many = tuple(map(str, range(MAX_KEY_TEXTS + 1)))
    for unfit in (many, (keys, "a"), ("a", 1)):
        (key,) = read_pickle(pickle.dumps({unfit: 1}))
        assert (type(key), key.value) == (Key, unfit)
