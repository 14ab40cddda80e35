"""Category files -> sorted arrays that are mapped into memory. Reads parquet, so it needs pyarrow.

Blocking, and tens of megabytes of libraries: a server runs it in a process of its own, which is
`python -m workflows.tables` in the directory of the package. It is begun with each load,
so it imports nothing but its neighbours: they are named relatively.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .program import Means, Plain, Table
from .runtime.lookups import hashes_of, words_of

#: Which keys values of a family can be compared with, as pandas' astype and merge do it.
_KEYS = {"int": "iuf", "float": "f", "bool": "b", "text": "S", "whole": "iu", "real": "f"}
_NAMES = {"whole": "int", "real": "float"}
#: A text of a vocabulary is a name; longer ones make every lookup wide.
MAX_TEXT_BYTES = 4096
#: All texts of a column, each filled up to the longest.
_LARGEST_TEXTS = 2**30
_LARGEST = 2**62
MAX_ROWS = 200_000_000
#: Categories differ from each other, so that their file cannot be a few runs of equal values: one
#: of a KB could stand for gigabytes. 32 rows a byte are more than sorted integers come to.
_FEW_ROWS, _ROWS_PER_BYTE = 100_000, 32
#: pandas makes floats of labels as soon as one value of a request has none; up to here they are
#: exact.
_EXACT = 2**53
#: Errors that say something of the file itself; pyarrow's of what it cannot read have no number.
_THE_FILES = {
    None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP,
    errno.ENAMETOOLONG,
}  # fmt: skip
#: What a process of its own may write to, in bytes, and of the machine's memory at most a half.
#: Not RLIMIT_AS: libraries reserve much more.
_MEMORY = 8 * 2**30


class TableUnusable(Exception):
    """A category file that is missing, or of another schema than the operator's."""


class TableBroken(TableUnusable):
    """A category file that NVTabular cannot read either, so that each of its requests fails."""

    def __init__(self, path: Path, found: str) -> None:
        self.path, self.found = path, found
        super().__init__(f"the category file {path.name} {found}")


def write_tables(tables: Sequence[Table], directory: Path) -> list[dict[str, Plain]]:
    """Write all tables of a program; the rows of program.json that tell of them.

    Raises TableUnusable, which names the file, and OSError when nothing can be written.
    """
    return [_written(table, str(number), directory) for number, table in enumerate(tables)]


def job_text(tables: Sequence[Table], directory: Path) -> str:
    """What this program reads: the tables, and where to write; it runs in another directory."""
    rows = [dataclasses.asdict(table) for table in tables]
    return json.dumps(
        {"tables": rows, "directory": directory}, default=lambda path: str(path.absolute())
    )


def read_answer(text: str) -> list[dict[str, Plain]]:
    """What this program wrote; raises what it ended with, and TableUnusable for anything else."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        if isinstance(number := answer.get("errno"), int):
            raise OSError(number, answer["error"])
        if isinstance(path := answer.get("broken"), str):
            raise TableBroken(Path(path), answer["error"])
        raise TableUnusable(answer["error"])
    rows = answer.get("tables") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TableUnusable("its tables could not be written (nothing that makes sense was said)")
    return rows


def main() -> None:
    """A job on standard input, the answer on standard output."""
    _limit_memory()
    job = json.load(sys.stdin)
    tables = [_table(row) for row in job["tables"]]
    try:
        answer: dict[str, Plain] = {"tables": write_tables(tables, Path(job["directory"]))}
    except TableBroken as error:
        answer = {"error": error.found, "broken": str(error.path)}
    except TableUnusable as error:
        answer = {"error": str(error)}
    except OSError as error:  # of writing, and what is no fault of the file
        answer = {"error": error.strerror or str(error), "errno": error.errno or errno.EIO}
    json.dump(answer, sys.stdout)


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    wanted = min(_MEMORY, half, *([hard] if hard != resource.RLIM_INFINITY else []))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _table(row: dict[str, Plain]) -> Table:
    means = row["means"]
    if means is not None:
        overall = means["overall"]
        means = Means(
            None if overall is None else Path(overall), means["smoothing"], tuple(means["targets"])
        )
    return Table(
        Path(row["path"]), tuple(row["columns"]), tuple(row["families"]), row["shift"],
        tuple(row["beside"]), means,
    )  # fmt: skip


def _written(table: Table, file: str, directory: Path) -> dict[str, Plain]:
    """Write the table's arrays as `<file>.<part>.npy`."""
    try:
        return _write(table, file, directory)
    except MemoryError as error:
        name = table.path.name
        raise TableUnusable(f"the category file {name} takes more memory than there is") from error


def _write(table: Table, file: str, directory: Path) -> dict[str, Plain]:
    if table.means is not None:
        keys, beside = _target_means(table, table.means)
    else:
        labels = table.shift is not None
        data = _read(table.path, table.columns, table.beside, labels)
        keys = [data[column] for column in table.columns]
        beside = {column: data[column] for column in table.beside}
        for column, values in beside.items():
            if values.dtype.kind not in "iuf":
                raise TableUnusable(f"the category file {table.path.name} has text in {column!r}")
        if labels:
            if data[_INDEX].dtype.kind not in "iu":
                raise TableUnusable(
                    f"the category file {table.path.name} has no whole numbers as its index"
                )
            beside["label"] = _labels(data[_INDEX], table.shift or 0, table.path.name)
    keys = [
        _key_values(values, family, column, table)
        for values, family, column in zip(keys, table.families, table.columns, strict=True)
    ]
    return _Writer(table.path.name, file, directory).write(keys, beside)


def _key_values(values: Any, family: str, column: str, table: Table) -> Any:
    if values.dtype.kind not in _KEYS[family]:
        raise TableUnusable(
            f"the category file {table.path.name} has {values.dtype.name} in {column!r}, and the "
            f"workflow looks up {_NAMES.get(family, family)} values"
        )
    if family == "whole" and values.dtype != np.uint64:
        return values.astype(np.int64)
    return values.astype(np.float64) if family == "real" else values


def _labels(index: Any, shift: int, file: str) -> Any:
    if len(index) and max(-int(index.min()), int(index.max())) + abs(shift) >= _EXACT:
        raise TableUnusable(f"the category file {file} has numbers in its index that are too large")
    labels = index.astype(np.int64)
    return labels + shift if len(labels) and labels[0] < shift else labels


def _target_means(table: Table, means: Means) -> tuple[list[Any], dict[str, Any]]:
    """TargetEncoding._op_group_logic, for all categories at once; a file's columns by place."""
    number = len(table.columns)
    keys, count, sums = _by_place(table.path, number, len(means.targets))
    if means.overall is not None:
        every, overall_count, overall_sums = _by_place(
            means.overall, number - 1, len(means.targets)
        )
        place = _places(every, keys[1:], means.overall)
        count = overall_count[place] - count
        sums = [overall[place] - one for overall, one in zip(overall_sums, sums, strict=True)]
    with np.errstate(all="ignore"):
        return keys, {
            str(target): (one + means.smoothing * mean) / (count + means.smoothing)
            for target, (one, mean) in enumerate(zip(sums, means.targets, strict=True))
        }


def _by_place(path: Path, keys: int, targets: int) -> tuple[list[Any], Any, list[Any]]:
    data = list(_read(path, None).values())
    if len(data) != keys + 1 + targets or any(one.dtype.kind not in "iuf" for one in data[keys:]):
        raise TableUnusable(
            f"the category file {path.name} has {len(data)} columns, and the workflow reads "
            f"{keys} keys, a count and {targets} sums"
        )
    return data[:keys], data[keys], data[keys + 1 :]


def _places(every: list[Any], wanted: list[Any], path: Path) -> Any:
    """The row of the first that is equal, for each row of the second."""
    size = len(every[0])
    code = np.zeros(size + len(wanted[0]), np.int64)
    for first, second in zip(every, wanted, strict=True):
        if first.dtype.kind != second.dtype.kind:
            raise TableUnusable(f"the category file {path.name} has keys of another type")
        values, rank = np.unique(np.concatenate([first, second]), return_inverse=True)
        code = np.unique(code * len(values) + rank.reshape(-1), return_inverse=True)[1].reshape(-1)
    order = np.argsort(code[:size], kind="stable")
    found = np.searchsorted(code[:size], code[size:], sorter=order)
    place = order[np.minimum(found, size - 1)]
    if not size or (code[place] != code[size:]).any() or len(np.unique(code[:size])) != size:
        raise TableUnusable(f"the category file {path.name} does not fit the one of its folds")
    return place


#: The rows' index among the columns that are read; no column can have the name.
_INDEX = ""


def _read(
    path: Path, keys: Sequence[str] | None, beside: Sequence[str] = (), index: bool = False
) -> dict[str, Any]:
    """Columns of a file, all for None, as pandas reads them; raises TableUnusable."""
    import pyarrow
    import pyarrow.parquet

    try:
        part = _part(path)
        with _reading(path):
            opened = pyarrow.parquet.ParquetFile(part)
        with opened:
            _check_rows(opened, path, part)
            return _columns(opened, path, keys, beside, index)
    except MemoryError:  # pyarrow's own is an ArrowException, too
        raise
    except (
        pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError,
        ArithmeticError, RecursionError,
    ) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno not in _THE_FILES:
            raise  # descriptors, memory or the disk: no reason to serve NVTabular itself
        raise TableUnusable(f"the category file {path.name} cannot be used ({error})") from error


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What pyarrow cannot read here, it cannot read for NVTabular."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # ours, not the file's
            raise
        raise TableBroken(path, f"cannot be read ({error})") from error


def _part(path: Path) -> Path:
    """The file, also of a directory with one; pandas reads everything that lies in one."""
    if not path.is_dir():
        if not path.is_file():
            raise TableUnusable(f"the category file {path.name} is missing")
        return path
    inside = [one for one in sorted(path.iterdir()) if not one.name.startswith(("_", "."))]
    if not inside:
        raise TableUnusable(f"the category file {path.name} is missing")
    if len(inside) > 1:
        raise TableUnusable(f"the category file {path.name} is in {len(inside)} parts")
    if not inside[0].match("part.*.parquet") or not inside[0].is_file():
        raise TableUnusable(f"the category file {path.name} is a directory without a part")
    return inside[0]


def _check_rows(opened: Any, path: Path, part: Path) -> None:
    with _reading(path):
        rows = opened.metadata.num_rows
    size = part.stat().st_size
    if rows > MAX_ROWS:
        raise TableUnusable(
            f"the category file {path.name} has {rows} rows; up to {MAX_ROWS} are compiled"
        )
    if rows > max(_FEW_ROWS, size * _ROWS_PER_BYTE):
        raise TableUnusable(
            f"the category file {path.name} has {rows} rows in {size} bytes, too few for categories"
        )


def _columns(
    opened: Any, path: Path, keys: Sequence[str] | None, beside: Sequence[str], index: bool
) -> dict[str, Any]:
    name = path.name
    with _reading(path):
        schema, rows = opened.schema_arrow, opened.metadata.num_rows
    names = schema.names
    if keys is not None and (absent := [key for key in keys if key not in names]):
        raise TableBroken(path, f"has no column {absent[0]!r}")
    found = _index(schema, rows)
    inside = [found] if isinstance(found, str) else []
    if keys is not None and inside and found in (*keys, *beside):
        raise TableUnusable(f"the category file {name} has {found!r} as its index")
    wanted = [one for one in names if one not in inside] if keys is None else [*keys, *beside]
    read = list(dict.fromkeys([*wanted, *(inside if index else [])]))
    if absent := [column for column in read if column not in names]:
        raise TableUnusable(f"the category file {name} has no column {absent[0]!r}")
    with _reading(path):
        data = opened.read(columns=read)
    arrays = {column: _array(data.column(column), column, name) for column in wanted}
    if index:
        arrays[_INDEX] = data.column(found).to_numpy() if inside else found
    return arrays


def _index(schema: Any, rows: int) -> Any:
    """pandas' index of the file: the column that holds it, or its numbers."""
    written = (schema.metadata or {}).get(b"pandas")
    described = json.loads(written) if written else {"index_columns": []}
    columns = described.get("index_columns") if isinstance(described, dict) else None
    if not isinstance(columns, list):
        raise ValueError("pandas' metadata is not as pandas writes it")
    if not columns:
        return np.arange(rows)
    if len(columns) != 1:
        raise ValueError("its index has several levels")
    if isinstance(columns[0], str):
        return columns[0]
    if not isinstance(columns[0], dict) or columns[0].get("kind") != "range":
        raise ValueError("its index is of an unknown kind")
    span: list[Any] = [columns[0].get(name) for name in ("start", "stop", "step")]
    start, stop, step = span
    if not all(type(one) is int and abs(one) < _LARGEST for one in span) or step == 0:
        raise ValueError("its index is a range that pandas cannot have")
    length = max(0, -((start - stop) // step))
    if length != rows:
        raise ValueError(f"its index has {length} entries, and it has {rows} rows")
    return np.arange(start, stop, step)


def _array(column: Any, name: str, file: str) -> Any:
    """A column as pandas reads it: texts as bytes, nulls of numbers as NaN.

    Without pyarrow.compute, which takes longer to import than most files to read.
    """
    import pyarrow

    kind = column.type
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return _texts(column, name, file)
    is_number = pyarrow.types.is_integer(kind) or (
        pyarrow.types.is_floating(kind) and kind.bit_width >= 32
    )
    if is_number or (pyarrow.types.is_boolean(kind) and not column.null_count):
        return column.to_numpy()
    raise TableUnusable(f"the category file {file} has {kind} in {name!r}")


def _texts(column: Any, name: str, file: str) -> Any:
    """`S` arrays; a text that no request can bear is left empty and taken out by _reachable."""
    import pyarrow

    large = pyarrow.types.is_large_string(column.type)
    binary = pyarrow.large_binary() if large else pyarrow.binary()
    plain = np.concatenate(
        [np.empty(0, object)]
        + [chunk.view(binary).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    )
    longest = max((len(one) for one in plain if one is not None), default=0)
    if longest > MAX_TEXT_BYTES:
        raise TableUnusable(
            f"the category file {file} has a text of {longest} bytes in {name!r}; "
            f"up to {MAX_TEXT_BYTES} are compiled"
        )
    if longest * len(plain) > _LARGEST_TEXTS:
        raise TableUnusable(
            f"the category file {file} has {len(plain)} texts of up to {longest} bytes in "
            f"{name!r}; up to {_LARGEST_TEXTS} bytes are compiled"
        )
    gone = np.array([one is None or one.endswith(b"\0") for one in plain], dtype=bool)
    plain[gone] = _UNREACHABLE
    return plain.astype("S")


#: Not ASCII, so in no request; nor in a file, since it is no UTF-8.
_UNREACHABLE = b"\xff"


class _Writer:
    def __init__(self, path: str, file: str, directory: Path) -> None:
        self._path, self._file, self._directory = path, file, directory

    def write(self, keys: list[Any], beside: dict[str, Any]) -> dict[str, Plain]:
        reachable = np.ones(len(keys[0]), bool)
        for values in keys:
            if values.dtype.kind == "S":
                reachable &= values != _UNREACHABLE
        rows, place, size = [], np.zeros(int(reachable.sum()), np.int64), 1
        for number, values in enumerate(keys):
            row, own, own_size = self._key(number, values[reachable])
            rows.append(row)
            size *= own_size
            if size >= _LARGEST:
                raise TableUnusable(f"the category file {self._path} combines too many values")
            place = place * own_size + own
        order = np.argsort(place, kind="stable")
        if len(place) and not _is_new(place[order]).all():
            raise TableUnusable(
                f"the category file {self._path} has a category twice, for which NVTabular would "
                "answer twice"
            )
        if len(keys) > 1:
            self._save("order", place[order])
        for name, values in beside.items():
            self._save(f"beside.{list(beside).index(name)}", values[reachable][order])
        first = {name: values[0].item() for name, values in beside.items() if len(values)}
        return {"file": self._file, "keys": rows, "beside": list(beside), "first": first}

    def _key(self, number: int, values: Any) -> tuple[dict[str, Plain], Any, int]:
        """Write one key column; its row, each value's place in it, and how many places it has."""
        if values.dtype.kind == "S":
            return self._text_key(number, values)
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        unique, rank = _ranked(values[~missing])
        self._save(f"{number}.keys", unique)
        nan = len(unique) if missing.any() else -1
        places = np.full(len(values), nan, np.int64)
        places[~missing] = rank
        return {"kind": "number", "nan": nan}, places, len(unique) + (nan >= 0)

    def _text_key(self, number: int, values: Any) -> tuple[dict[str, Plain], Any, int]:
        unique, rank = _ranked(values)
        words = words_of(unique)
        hashes = hashes_of(words)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            raise TableUnusable(f"two texts of {self._path} have one hash")
        lengths = _word_counts(words)[order]
        starts = np.cumsum(lengths) - lengths
        inside = np.arange(words.shape[1]) < lengths[:, None]
        self._save(f"{number}.hashes", hashes[order])
        self._save(f"{number}.starts", starts.astype(np.int64))
        self._save(f"{number}.lengths", lengths.astype(np.int32))
        self._save(f"{number}.words", words[order][inside])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return {"kind": "text"}, place[rank], len(unique)

    def _save(self, part: str, array: Any) -> None:
        # numpy.save tells of a full disk without its number, or not at all
        array = np.ascontiguousarray(array)
        header = np.lib.format.header_data_from_array_1_0(array)
        with (self._directory / f"{self._file}.{part}.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.write(array.data)


def _ranked(values: Any) -> tuple[Any, Any]:
    """The different values in order, and of each value its place among them.

    numpy.unique does the same by hashing, since its second version, in a hundred times the time.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = _is_new(ordered)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.cumsum(new) - 1
    return ordered[new], rank


def _is_new(ordered: Any) -> Any:
    """Whether each of sorted values differs from the one before it."""
    return np.append(np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1])


def _word_counts(words: Any) -> Any:
    """How many words each text has: up to the last that is not zero, and one at least."""
    used = words != 0
    last = words.shape[1] - np.argmax(used[:, ::-1], axis=1)
    return np.where(used.any(axis=1), last, 1)


if __name__ == "__main__":
    main()
