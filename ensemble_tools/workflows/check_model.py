"""Whether a compiled workflow's model answers as the delivered one, with NVTabular, does.

A program of its own, for the models' Python: `check_model.py` in the environment of tritonserver.
It reads a job as JSON on standard input, loads both models as Triton's Python backend would, asks
both the same generated requests, and writes what it found as JSON on standard output. It loads
pickles, as serving does. The house never imports it.

It must be one file: that Python is isolated (`-I`) and runs it by its path, so that nothing beside
it can be imported, and no module of ours stands in the way of one that a model or NVTabular wants.
Its parts, from the top: the backend that models see, columns with their values, what is known of
those, requests, the comparison.

The requests are the same each time. Their values are the categories that the workflow's files and
the program's tables know, numbers at the edges of the program's steps, and what is in neither.
"""

import importlib.util
import json
import logging
import os
import sys
import types
import warnings
from pathlib import Path

import numpy as np

#: How the compiled model's refusal begins of what NVTabular answers with numbers that nobody can
#: have meant (runtime/columns.py).
BY_DESIGN = "refused by design: "
#: Triton's types -> numpy's; texts are arrays of bytes objects.
NUMPY = {
    "TYPE_BOOL": "bool",
    "TYPE_UINT8": "uint8",
    "TYPE_UINT16": "uint16",
    "TYPE_UINT32": "uint32",
    "TYPE_UINT64": "uint64",
    "TYPE_INT8": "int8",
    "TYPE_INT16": "int16",
    "TYPE_INT32": "int32",
    "TYPE_INT64": "int64",
    "TYPE_FP16": "float16",
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_STRING": "object",
}
SEED = 20_230_800
BATCHES = (1, 2, 5, 64)
#: Rows of the requests that are about values and not about sizes.
ROWS = 5
#: Of longer files so many categories are asked for, from their whole length.
MOST_CATEGORIES = 2000
WORDS = [b"a", b"b", b"shoes", b"1", b"2", b"some longer text of several words"]
ODD_TEXTS = [
    b"",
    b" ",
    b"0",
    b"1",
    b"-1",
    b"1.5",
    b"nan",
    b"NaN",
    b"None",
    b"null",
    b"<NA>",
    b"true",
    b"a b\tc\n",
    b"beer\x00",
    b"x" * 300,
]
FOREIGN_TEXTS = [text.encode() for text in ("Zürich", "日本語", "\U0001f600", "é")] + [b"\xff\xfe"]
#: Lists of ordinary requests have 1 to so many values.
LIST_LENGTH, LONG_LIST = 4, 300


# -- the backend that models see


class Backend(types.ModuleType):
    """What Triton's Python backend gives to its models, as far as these two ask for it."""

    class TritonModelException(Exception):
        pass

    class TritonError:
        def __init__(self, message):
            self.message = message

    class Tensor:
        def __init__(self, name, array):
            if array.dtype != object and array.dtype.name not in NUMPY.values():
                raise TypeError(f"the tensor {name} has a type that Triton does not know")
            self.name, self.array = name, array

        def as_numpy(self):
            return self.array

    class InferenceResponse:
        def __init__(self, output_tensors=(), error=None):
            self.output_tensors, self.error = output_tensors, error

    @staticmethod
    def get_input_tensor_by_name(request, name):
        return request.get(name)

    @staticmethod
    def get_output_config_by_name(config, name):
        return next((output for output in config.get("output", []) if output["name"] == name), None)

    @staticmethod
    def triton_string_to_numpy(text):
        return np.dtype(NUMPY[text]).type


class Model:
    """A model of the Python backend."""

    def __init__(self, file, job):
        spec = importlib.util.spec_from_file_location(f"model_of_{Path(file).parent.name}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._model = module.TritonPythonModel()
        directory = Path(job["directory"])
        self._model.initialize(
            {
                "model_config": json.dumps(job["config"]),
                "model_instance_kind": "CPU",
                "model_instance_device_id": "0",
                "model_repository": str(directory.parent),
                "model_version": directory.name,
                "model_name": job["config"].get("name", ""),
            }
        )

    def answer(self, tensors):
        """Arrays by their names, or the text of a refusal."""
        request = {name: Backend.Tensor(name, array.copy()) for name, array in tensors.items()}
        try:
            (response,) = self._model.execute([request])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if response.error is not None:
            return response.error.message
        return {tensor.name: tensor.as_numpy() for tensor in response.output_tensors}


# -- columns and their values


class AskedColumn:
    """An input of the workflow, and values to ask for.

    known: those that the workflow was made with, or are at the edges of what it does with them.
    """

    def __init__(self, row, declared):
        self.name, self.tensors = row["name"], row["tensors"]
        values = declared[self.tensors[0]]
        self.kind = np.dtype(NUMPY[values["data_type"]])
        self.width = int(np.prod([max(int(size), 1) for size in values.get("dims", [])[1:]]))
        self.dimensions = len(values.get("dims", []))
        self.ragged = len(self.tensors) == 2
        self.offsets = NUMPY[declared[self.tensors[1]]["data_type"]] if self.ragged else ""
        self.known = self.array([])

    def array(self, values):
        """Values of any kind as an array of the column's, without those that do not fit."""
        if self.kind.kind == "O":
            texts = [value.encode() if isinstance(value, str) else value for value in values]
            found = np.empty(sum(isinstance(text, bytes) for text in texts), object)
            found[:] = [text for text in texts if isinstance(text, bytes)]
            return found
        numbers = [
            number for number in values if isinstance(number, (int, float)) and np.isfinite(number)
        ]
        if self.kind.kind == "b":
            return np.array([False, True])
        if self.kind.kind == "f":
            with np.errstate(all="ignore"):
                return np.array(numbers, np.float64).astype(self.kind)
        limits = np.iinfo(self.kind)
        whole = [int(number) for number in numbers if number == int(number)]
        return np.array(
            [number for number in whole if limits.min <= number <= limits.max], self.kind
        )

    def add(self, values):
        """More values that are known."""
        added = self.array(values)
        if self.kind.kind == "O":
            added = np.array([text for text in added if text.isascii()] + [None], object)[:-1]
        self.known = np.concatenate([self.known, added])

    def add_edges(self, numbers):
        """Numbers that a step compares with or calculates with, and those next to them."""
        if self.kind.kind == "f":
            exact = np.array(numbers, self.kind)
            infinity = self.kind.type(np.inf)
            self.add(
                [
                    *exact.tolist(),
                    *np.nextafter(exact, infinity).tolist(),
                    *np.nextafter(exact, -infinity).tolist(),
                ]
            )
        elif self.kind.kind in "iu":
            whole = [int(number) for number in numbers]
            self.add([number + more for number in whole for more in (-1, 0, 1)])

    # -- values of a request

    def draw(self, flavor, count, random):
        """So many values of a flavor, shape (count,)."""
        return getattr(self, f"draw_{flavor}")(count, random)

    def draw_usual(self, count, random):
        return self.known[random.integers(0, len(self.known), count)]

    def draw_mixed(self, count, random):
        values = self.draw_usual(count, random)
        choice = random.random(count)
        for flavor, start, end in (
            ("unseen", 0.0, 0.2),
            ("extreme", 0.2, 0.3),
            ("missing", 0.3, 0.4),
        ):
            inside = (start <= choice) & (choice < end)
            values[inside] = self.draw(flavor, count, random)[inside]
        return values

    def draw_unseen(self, count, random):
        if self.kind.kind == "O":
            return self._cycle(
                [b"never seen %d" % number for number in range(count)] or [b""], count
            )
        if self.kind.kind in "iu":
            high = np.iinfo(self.kind).max
            return random.integers(high // 2, high, count, dtype=self.kind, endpoint=True)
        if self.kind.kind == "f":
            return random.uniform(-1e4, 1e4, count).astype(self.kind)
        return random.random(count) < 0.5

    def draw_extreme(self, count, random):
        if self.kind.kind == "O":
            return self._cycle(ODD_TEXTS, count, random)
        if self.kind.kind == "b":
            return random.random(count) < 0.5
        if self.kind.kind == "f":
            limits = np.finfo(self.kind)
            small = float(limits.smallest_subnormal)
            numbers = [0.0, -0.0, 1.0, -1.0, small, -small, float(limits.min), float(limits.max)]
        else:
            limits = np.iinfo(self.kind)
            numbers = [0, 1, -1 if limits.min else 2, limits.min, limits.max]
        return self._cycle(numbers, count, random)

    def draw_missing(self, count, random):
        if self.kind.kind == "f":
            return np.full(count, np.nan, self.kind)
        return self.draw_usual(count, random)

    def draw_infinite(self, count, random):
        if self.kind.kind == "f":
            return self._cycle([np.inf, -np.inf, np.nan, 1.5], count)
        return self.draw_usual(count, random)

    def draw_foreign(self, count, random):
        if self.kind.kind == "O":
            return self._cycle(FOREIGN_TEXTS, count)
        return self.draw_usual(count, random)

    def draw_every(self, count, random):
        return self.known[np.arange(count) % len(self.known)]

    def _cycle(self, values, count, random=None):
        start = 0 if random is None else int(random.integers(len(values)))
        found = np.empty(len(values), self.kind)
        found[:] = values
        return found[(start + np.arange(count)) % len(values)]


# -- what is known of columns: from the workflow's files and the program


def read_columns(program, job):
    """The program's inputs, with what they are known to hold, and its files' rows (read_files)."""
    declared = {tensor["name"]: tensor for tensor in job["config"].get("input", [])}
    columns = [AskedColumn(row, declared) for row in program["inputs"]]
    directory = Path(job["directory"])
    files = read_files(directory / "workflow", {column.name for column in columns})
    for file in files:
        for column in columns:
            column.add(file.get(column.name, []))
    for column, numbers, tables in zip(columns, *trace_inputs(program), strict=True):
        for file, key, kind in sorted(tables):
            column.add(read_keys(directory / "tables", file, key, kind))
        column.add_edges(numbers)
    random = np.random.default_rng(SEED)
    for column in columns:
        if not len(column.known):
            column.add(WORDS)
            column.add(range(50))
        if column.kind.kind == "f":
            column.add(random.uniform(0, 100, 20).tolist())
    return columns, files


def read_files(workflow, names):
    """Of each parquet file, rows that are spread over it: columns of those names, by their names.

    A file that cannot be read is left out: NVTabular will say so itself.
    """
    import pyarrow.parquet

    found = []
    for path in sorted(workflow.rglob("*.parquet")):
        try:
            wanted = [n for n in pyarrow.parquet.read_schema(path).names if n in names]
            data = pyarrow.parquet.read_table(path, columns=wanted) if wanted else None
        except Exception:
            data = None
        if data is not None and data.num_rows:
            rows = data.take(pick_rows(data.num_rows)).to_pydict()
            found.append(dict(rows))
    return found


def pick_rows(size):
    """Numbers of at most MOST_CATEGORIES rows of so many, the first and the last among them."""
    return np.unique(np.linspace(0, size - 1, min(size, MOST_CATEGORIES)).astype(np.int64))


def trace_inputs(program):
    """For each input: numbers of the steps that its values come to, and keys of tables.

    A key is the table's file, the key's place in it and its kind.
    """
    inputs = program["inputs"]
    places = {row["name"]: number for number, row in enumerate(inputs)}
    origins = {number: {number} for number in range(len(inputs))}
    numbers = [[] for _ in inputs]
    tables = [set() for _ in inputs]
    for step in program["steps"]:
        parameters, reads = step["given"], [origins[number] for number in step["reads"]]
        if not reads:  # NVTabular's own part of a program
            reads = [{places[name] for name in parameters.get("inputs", []) if name in places}]
        above = set().union(*reads)
        for number in step["writes"]:
            origins[number] = above
        if "table" in parameters:
            table = program["tables"][parameters["table"]]
            first = len(table["keys"]) - len(reads)  # a fold, which is no column
            for place, origin in enumerate(reads, max(first, 0)):
                kind = table["keys"][place]["kind"] if place < len(table["keys"]) else ""
                for number in origin:
                    tables[number].add((table["file"], place, kind))
        for number in above:
            numbers[number] += [
                found for found in find_numbers(parameters) if found not in numbers[number]
            ]
    return numbers, tables


def find_numbers(parameters):
    """All finite numbers in a step's parameters."""
    if isinstance(parameters, dict):
        return [number for value in parameters.values() for number in find_numbers(value)]
    if isinstance(parameters, list):
        return [number for value in parameters for number in find_numbers(value)]
    is_number = isinstance(parameters, (int, float)) and not isinstance(parameters, bool)
    return [parameters] if is_number and np.isfinite(parameters) else []


def read_keys(tables, file, key, kind):
    """Some keys of a published table."""
    if kind != "text":
        keys = np.load(tables / f"{file}.{key}.keys.npy", mmap_mode="r")
        return keys[pick_rows(len(keys))].tolist() if len(keys) else []
    starts, lengths, words = (
        np.load(tables / f"{file}.{key}.{part}.npy", mmap_mode="r")
        for part in ("starts", "lengths", "words")
    )
    chosen = pick_rows(len(starts)) if len(starts) else []
    return [
        words[starts[row] : starts[row] + lengths[row]].tobytes().rstrip(b"\0") for row in chosen
    ]


# -- requests


class Requests:
    """Requests for the columns. lengths: what lists of one length are made of."""

    def __init__(self, columns, files, lengths):
        self._columns, self._files = columns, files
        self._equal = list(dict.fromkeys([*lengths, 3, 1]))
        self._random = np.random.default_rng(SEED)
        self._ragged = any(column.ragged for column in columns)

    def __iter__(self):
        """Lists of alternatives, of which the first counts that the original answers.

        An alternative is a title and tensors. They differ in the lengths of lists: some workflows
        take lists of one length only.
        """
        for rows in BATCHES:
            for flavor in ("usual", "mixed"):
                yield from self._make(f"{flavor} values", flavor, rows)
        for title, flavor in (
            ("unseen values", "unseen"),
            ("extreme values", "extreme"),
            ("missing values", "missing"),
            ("infinities", "infinite"),
            ("texts that are not ASCII", "foreign"),
        ):
            yield from self._make(title, flavor, ROWS)
        yield from self._make("no rows", "usual", 0)
        yield from self._make_edge_lists()
        yield from self._make("every category", "every", max(len(c.known) for c in self._columns))
        for file in self._files:
            if len(file) > 1:
                yield from self._make("every combination", "every", len(file[min(file)]), file)

    def _make(self, title, flavor, rows, file=None):
        styles = ["mixed", *self._equal] if self._ragged else ["mixed"]
        alternatives = []
        for style in styles:
            if style == "mixed":
                lengths = self._random.integers(1, LIST_LENGTH + 1, rows)
            else:
                lengths = np.full(rows, style)
            alternatives.append(
                self._make_request(
                    title, flavor, rows, dict.fromkeys(self._names(), lengths), file or {}
                )
            )
        yield alternatives

    def _make_edge_lists(self):
        if not self._ragged:
            return
        for title, lengths in (
            ("some empty lists", [0, 2, 0, 3, 1]),
            ("empty lists", [0] * ROWS),
            ("a long list", [1, LONG_LIST, 2, 1, 1]),
        ):
            all_alike = dict.fromkeys(self._names(), np.array(lengths))
            yield [self._make_request(title, "mixed", ROWS, all_alike, {})]
        differing = {
            name: self._random.integers(0, LIST_LENGTH + 1, ROWS) for name in self._names()
        }
        yield [self._make_request("lists of differing lengths", "usual", ROWS, differing, {})]

    def _names(self):
        return [column.name for column in self._columns]

    def _make_request(self, title, flavor, rows, lengths, file):
        tensors = {}
        for column in self._columns:
            if column.ragged:
                offsets = np.concatenate([[0], np.cumsum(lengths[column.name])]).astype(np.int64)
                values, starts = column.tensors
                tensors[values] = column.draw(flavor, int(offsets[-1]), self._random)
                tensors[starts] = offsets.astype(column.offsets)
                continue
            values = column.draw(flavor, rows, self._random)
            if column.name in file:
                for row, value in enumerate(file[column.name][:rows]):
                    fitting = column.array([value])
                    values[row : row + len(fitting)] = fitting
            if column.dimensions > 1:
                values = np.repeat(values, column.width).reshape(rows, column.width)
            tensors[column.tensors[0]] = values
        return f"{title}, {rows} row{'s' * (rows != 1)}", tensors


# -- the comparison


def compare(original, compiled, requests):
    """How many requests were asked and how many of them NVTabular answered; the first difference.

    Both may refuse. The compiled one may refuse by design what NVTabular answers.
    """
    asked = answered = 0
    for alternatives in requests:
        for title, tensors in alternatives:
            expected, found = original.answer(tensors), compiled.answer(tensors)
            asked += 1
            answered += not isinstance(expected, str)
            different = describe_difference(expected, found)
            if different:
                return asked, answered, f"{title}: {different}"
            if not isinstance(expected, str):
                break
    return asked, answered, ""


def describe_difference(expected, found):
    """What is different, in words; empty for nothing."""
    if isinstance(expected, str):
        return "" if isinstance(found, str) else "NVTabular refuses it"
    if isinstance(found, str):
        return "" if found.startswith(BY_DESIGN) else f"it is refused ({found})"
    if expected.keys() != found.keys():
        return f"it has the tensors {sorted(found)} and not {sorted(expected)}"
    for name, array in expected.items():
        different = describe_array_difference(array, found[name])
        if different:
            return f"tensor {name!r}: {different}"
    return ""


def describe_array_difference(expected, found):
    """What is different of two arrays; any NaN is like any other."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return (
            f"it is {found.dtype.name}{list(found.shape)} and not "
            f"{expected.dtype.name}{list(expected.shape)}"
        )
    mine, theirs = to_bits(found), to_bits(expected)
    unequal = np.flatnonzero(mine != theirs)
    if not len(unequal):
        return ""
    place = unequal[0]
    return (
        f"{len(unequal)} of {expected.size} values, such as {show(found, place)} in place of "
        f"{show(expected, place)}"
    )


def to_bits(array):
    """An array that is equal only where every bit is; texts as bytes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "O":
        texts = np.empty(len(flat), object)
        texts[:] = [value if isinstance(value, bytes) else str(value).encode() for value in flat]
        return texts
    if flat.dtype.kind == "f":
        flat = np.where(np.isnan(flat), np.array(np.nan, flat.dtype), flat)
    return flat.view(f"u{flat.dtype.itemsize}")


def show(array, place):
    """One value of an array, short."""
    return str(array.reshape(-1)[place])[:40]


# -- the program


def silence_logs():
    """NVTabular warns while it is imported, and logs each refusal."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


def lend_reader(file):
    """NVTabular 23.08 knows no graph.json, and is given a reader of it (graph_json_model.py)."""
    spec = importlib.util.spec_from_file_location("reader_of_graph_json", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.lend()


def main():
    """The job's answer."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    silence_logs()
    job = json.load(sys.stdin)
    sys.modules["triton_python_backend_utils"] = Backend("triton_python_backend_utils")
    if job["reader"]:
        lend_reader(job["reader"])
    original = Model(job["original"], job)
    silence_logs()  # Merlin's modules set filters of their own
    sys.path.insert(0, job["directory"])  # as the Python backend does
    compiled = Model(job["compiled"], job)
    program = json.loads((Path(job["directory"]) / "tables/program.json").read_text("utf-8"))
    shapes = [row["shape"][0] for row in program["outputs"] if not row["ragged"] and row["shape"]]
    requests = Requests(*read_columns(program, job), lengths=shapes)
    asked, answered, different = compare(original, compiled, requests)
    json.dump({"asked": asked, "answered": answered, "difference": different}, answer)
    answer.close()


if __name__ == "__main__":
    main()
