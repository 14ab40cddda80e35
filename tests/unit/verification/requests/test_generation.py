"""Requests that are generated fit what the executor declares; a file of requests is read right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools.answers.exchange import TensorRequest, decode, encode
from ensemble_tools.answers.tensors import NUMPY_TYPES, Tensor, encode_strings
from ensemble_tools.archive.model_config import parse_model_config
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.archive.tensor_names import list_ragged_tensors
from tests.support.container import ROOT
from tests.support.examples import examples
from verification.errors import RequestsUnusable
from verification.requests.category_files import (
    find_category_files,
    read_categories,
)
from verification.requests.columns import (
    RequestColumn,
    find_known_values,
    find_unsupported,
    list_lengths,
    read_input_columns,
)
from verification.requests.generation import Generator
from verification.requests.request_file import read_requests

DATA_TYPES = st.sampled_from(sorted(NUMPY_TYPES))
COLUMNS = st.lists(
    st.builds(
        RequestColumn,
        name=st.text("abc", min_size=1, max_size=4),
        data_type=DATA_TYPES,
        sizes=st.sampled_from([(), (4,), (2, 3)]),
    )
    | st.builds(
        RequestColumn,
        name=st.text("xyz", min_size=1, max_size=4),
        data_type=DATA_TYPES,
        ragged=st.just(True),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda column: column.name,
).map(tuple)


def made(columns: tuple[RequestColumn, ...], seed: int = 0) -> tuple[TensorRequest, ...]:
    return Generator(columns, (4,), seed).make_requests((1, 5))


def check_fits(column: RequestColumn, request: TensorRequest) -> None:
    """The column's tensors have its data type and are as many rows as the request says."""
    rows = request.rows
    if not column.ragged:
        tensor = request.tensors[column.name]
        assert tensor.shape == (rows, *column.sizes)
    else:
        names = list_ragged_tensors(column.name)
        tensor, offsets = (request.tensors[name] for name in names)
        assert offsets.data_type == "INT32"
        assert offsets.array.dtype == np.int32
        assert rows is not None
        assert offsets.shape == (rows + 1,)
        assert offsets.array[0] == 0
        assert (np.diff(offsets.array) >= 0).all()
        assert offsets.array[-1] == len(tensor.array)
    assert tensor.data_type == column.data_type
    assert tensor.array.dtype == NUMPY_TYPES[column.data_type]


@settings(max_examples=examples(30))
@given(COLUMNS, st.integers(0, 9))
def test_every_request_fits_the_columns(columns: tuple[RequestColumn, ...], seed: int) -> None:
    """Whatever the columns: names, data types, shapes and offsets are what Triton will take."""
    for request in made(columns, seed):
        for column in columns:
            check_fits(column, request)
        assert len(request.tensors) == sum(2 if column.ragged else 1 for column in columns)


@settings(max_examples=examples(30))
@given(COLUMNS)
def test_seed_decides_everything(columns: tuple[RequestColumn, ...]) -> None:
    """The same seed, the same bytes."""
    first, second = made(columns, 3), made(columns, 3)
    assert [encode(one.tensors) for one in first] == [encode(one.tensors) for one in second]


def test_seeds_differ() -> None:
    """Another seed, other numbers."""
    column = (RequestColumn("a", "INT64"),)
    assert encode(made(column, 1)[1].tensors) != encode(made(column, 2)[1].tensors)


@settings(max_examples=examples(30))
@given(COLUMNS)
def test_requests_survive_the_wire(columns: tuple[RequestColumn, ...]) -> None:
    """What is encoded as a request reads back as it was: no NaN, string or shape is lost."""
    for request in made(columns):
        head, content = encode(request.tensors)
        as_answer = json.loads(head)
        as_answer["outputs"] = as_answer.pop("inputs")
        head = json.dumps(as_answer).encode()
        found = decode(head + content, len(head))
        assert found.keys() == request.tensors.keys()
        for name, tensor in request.tensors.items():
            assert str(found[name]) == str(tensor)
            equal_nan = tensor.is_float
            assert np.array_equal(found[name].array, tensor.array, equal_nan=equal_nan)


def values_of(columns: tuple[RequestColumn, ...], name: str) -> Any:
    arrays = [request.tensors[name].array.reshape(-1) for request in made(columns)]
    return np.concatenate(arrays)


@pytest.mark.parametrize("data_type", ["INT8", "INT32", "INT64", "UINT16", "FP32", "FP64"])
def test_edges_of_numbers(data_type: str) -> None:
    """The smallest and the largest number of a type are asked, and 0, 1 and -1."""
    found = values_of((RequestColumn("a", data_type),), "a")
    kind = np.dtype(NUMPY_TYPES[data_type])
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    wanted = {0, 1, limits.min, limits.max} | ({-1} if limits.min < 0 else set())
    assert wanted <= set(found.tolist())


def test_edges_of_floats() -> None:
    """NaN, both infinities and denormal numbers are asked."""
    found = values_of((RequestColumn("a", "FP32"),), "a")
    assert np.isnan(found).any()
    assert {np.inf, -np.inf} <= set(found.tolist())
    tiny = np.finfo(np.float32).tiny
    assert ((found != 0) & (np.abs(found) < tiny)).any()


def test_edges_of_strings() -> None:
    """Empty, long and non-ASCII strings are asked."""
    found = values_of((RequestColumn("a", "BYTES"),), "a").tolist()
    assert b"" in found
    assert max(map(len, found)) >= 1000
    assert any(not text.isascii() for text in found)


def test_edges_of_lists() -> None:
    """Empty lists, none but empty ones, long ones; and lists of the length that a model takes."""
    columns = (RequestColumn("a", "INT64", ragged=True),)
    requests = Generator(columns, (7,), 0).make_requests((5,))
    lengths = [np.diff(request.tensors["a__offsets"].array).tolist() for request in requests]
    assert [0] * 5 in lengths
    assert [7] * 5 in lengths
    assert any(0 in one and sum(one) for one in lengths)
    assert any(max(one, default=0) >= 100 for one in lengths)


def test_known_categories_are_asked() -> None:
    """Ordinary requests hold the values that the archive knows, and no others."""
    known = np.array([1003, 1011], dtype=np.int64)
    requests = made((RequestColumn("a", "INT64", known=known),))
    ordinary = [request.tensors["a"].array for request in requests if request.ordinary]
    assert set(np.concatenate(ordinary).tolist()) <= {1003, 1011}


def test_columns_of_a_config() -> None:
    """A pair of tensors is one ragged column; a batch dimension stands before the dims."""
    text = """
    max_batch_size: 8
    input { name: "a" data_type: TYPE_INT64 dims: [] }
    input { name: "b" data_type: TYPE_FP32 dims: [4] }
    input { name: "c__values" data_type: TYPE_STRING dims: [-1] }
    input { name: "c__offsets" data_type: TYPE_INT32 dims: [-1] }
    input { name: "d__values" data_type: TYPE_BF16 dims: [] }
    """
    config = parse_model_config(text, Path("config.pbtxt"))
    columns = read_input_columns(config)
    assert columns == (
        RequestColumn("a", "INT64"),
        RequestColumn("b", "FP32", (4,)),
        RequestColumn("c", "BYTES", ragged=True),
        RequestColumn("d__values", "BF16"),
    )
    assert find_unsupported(columns) == ("d__values",)
    assert list_lengths([config]) == (4,)
    assert list_lengths([]) != ()


def test_categories_of_an_export() -> None:
    """The models' Python reads the committed export's category files."""
    repository = read_repository(ROOT / "examples/merlin/dense/repository")
    found = read_categories(find_category_files(repository), ROOT / ".venv-merlin/bin/python")
    assert 1003 in found["user_id"]
    known = find_known_values(RequestColumn("user_id", "INT64"), found)
    assert known is not None
    assert known.dtype == np.int64


def test_categories_that_do_not_fit(tmp_path: Path) -> None:
    """Values of another type, or of none, are left alone; a broken file is no error."""
    assert find_known_values(RequestColumn("a", "INT8"), {"a": [1000]}) is None
    assert find_known_values(RequestColumn("a", "INT8"), {"a": ["b"]}) is None
    texts = find_known_values(RequestColumn("a", "BYTES"), {"a": ["Oslo", "Köln"]})
    assert texts is not None
    assert texts.tolist() == [b"Oslo"]
    assert find_known_values(RequestColumn("a", "FP32"), {"a": [1]}) is None
    (tmp_path / "unique.a.parquet").write_bytes(b"PAR1 and nothing else")
    broken = (tmp_path / "unique.a.parquet",)
    assert read_categories(broken, ROOT / ".venv-merlin/bin/python") == {}
    assert read_categories(broken, tmp_path / "no-python") == {}


def test_request_file(tmp_path: Path) -> None:
    """One request or a list of them; nested and flat data; strings."""
    path = tmp_path / "requests.json"
    one = {
        "inputs": [
            {"name": "a", "datatype": "INT64", "shape": [2, 2], "data": [[1, 2], [3, 4]]},
            {"name": "b", "datatype": "BYTES", "shape": [1], "data": ["é"]},
        ]
    }
    path.write_text(json.dumps([one, one]))
    first, second = read_requests(path)
    assert first.tensors["a"].array.tolist() == [[1, 2], [3, 4]]
    assert first.tensors["b"].array.tolist() == ["é".encode()]
    assert (first.title, second.title) == (
        "request 1 of requests.json",
        "request 2 of requests.json",
    )
    path.write_text(json.dumps(one))
    assert len(read_requests(path)) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it is no JSON"),
        ("[]", "an empty list"),
        ("[1]", "request 1: no list `inputs`"),
        ('{"inputs": [{"datatype": "INT64"}]}', "an input without a name"),
        ('{"inputs": [{"name": "a", "datatype": "INT65"}]}', "the datatype 'INT65'"),
        (
            '{"inputs": [{"name": "a", "datatype": "INT8", "shape": [-1], "data": [1]}]}',
            "the shape [-1]",
        ),
        (
            '{"inputs": [{"name": "a", "datatype": "INT8", "shape": [2], "data": [1]}]}',
            "request 1, input 'a': its data do not fit",
        ),
        (
            '{"inputs": [{"name": "a", "datatype": "INT8", "shape": [1], "data": [300]}]}',
            "its data do not fit",
        ),
        (
            '{"inputs": [{"name": "a", "datatype": "INT8", "shape": [1], "data": [1.5]}]}',
            "not all of its values are whole numbers",
        ),
        (
            '{"inputs": [{"name": "a", "datatype": "BYTES", "shape": [1], "data": [1]}]}',
            "not all of its values are strings",
        ),
    ],
)
def test_request_file_refused(tmp_path: Path, content: str, said: str) -> None:
    """Each mistake is one sentence that names the file and the place."""
    path = tmp_path / "requests.json"
    path.write_text(content)
    with pytest.raises(RequestsUnusable) as caught:
        read_requests(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_request_file_is_missing(tmp_path: Path) -> None:
    """A file that is not there is one sentence too."""
    with pytest.raises(
        RequestsUnusable, match="no such file or directory; expected a file of JSON"
    ):
        read_requests(tmp_path / "nothing.json")


def test_json_answers_are_read() -> None:
    """An output without binary data stands in the JSON itself."""
    head = b'{"outputs": [{"name": "a", "datatype": "FP32", "shape": [2], "data": [1.5, 2]}]}'
    assert decode(head, len(head))["a"].array.tolist() == [1.5, 2.0]
    bfloat = b'{"outputs": [{"name": "a", "datatype": "BF16", "shape": [1],'
    bfloat += b' "parameters": {"binary_data_size": 2}}]}'
    assert decode(bfloat + b"\x80\x3f", len(bfloat))["a"].array.tolist() == [1.0]


def test_tensor_says_what_it_is() -> None:
    """Data type and shape, in v2's words."""
    assert str(Tensor("BYTES", encode_strings([b"a", b"b"]))) == "BYTES [2]"
