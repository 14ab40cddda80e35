"""The stand-in for FIL, inside a real tritonserver and with the real libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.unit.container.backends.stand_ins import (
    FRAMEWORKS_PYTHON,
    MERLIN_PYTHON,
    StandInServer,
    arguments,
    initialize_each,
    initialize_groups,
    make,
    stand_in_server,
)

pytestmark = pytest.mark.tritonserver

MAKER = Path(__file__).with_name("make_forests.py")
FEATURES = 3
CLASSES = 3
# FP32 has 24 bits; the libraries may sum some trees in another order.
RELATIVE = 1e-6

FILES = {
    "xgboost": ("deprecated", "xgboost.model"),
    "xgboost_json": ("json", "xgboost.json"),
    "xgboost_ubj": ("ubj", "xgboost.ubj"),
    "lightgbm": ("txt", "model.txt"),
    "treelite_checkpoint": ("tl", "checkpoint.tl"),
}


@pytest.fixture(scope="module")
def forests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of make_forests.py."""
    directory = make(MAKER, tmp_path_factory.mktemp("forests"))
    claims_a_terabyte = b"{L" + (2**40).to_bytes(8, "big") + b"learner"
    (directory / "claim.ubj").write_bytes(claims_a_terabyte)
    text = (directory / "leaves.txt").read_bytes()
    (directory / "windows.txt").write_bytes(text.replace(b"\n", b"\r\n"))
    (directory / "cut.txt").write_bytes(text[: text.index(b"shrinkage=")])
    return directory


@pytest.fixture(scope="module")
def answers(forests: Path) -> dict[str, Any]:
    """What each forest answers to the rows by its own library."""
    read = json.loads((forests / "answers.json").read_text())
    return {name: np.array(values, dtype=np.float32) for name, values in read.items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInServer]:
    """The newest tritonserver, running."""
    with stand_in_server(tmp_path_factory.mktemp("stage"), FRAMEWORKS_PYTHON) as running:
        yield running


def config(width: int, **parameters: str) -> str:
    """As Merlin writes it, whose output_class is false where nothing else is said."""
    words = {"output_class": "false", "threshold": "0.5000", **parameters}
    rows = [
        'backend: "fil" max_batch_size: 8192 instance_group { }',
        f'input {{ name: "input__0" data_type: TYPE_FP32 dims: {FEATURES} }}',
        f'output {{ name: "output__0" data_type: TYPE_FP32 dims: {width} }}',
    ]
    rows += [
        f'parameters {{ key: "{key}" value {{ string_value: "{word}" }} }}'
        for key, word in words.items()
    ]
    return "\n".join(rows)


def ask(
    server: StandInServer, forests: Path, rows: Any, forest: str, width: int, **parameters: str
) -> Any:
    """The answer of a forest that is loaded under these parameters."""
    words = "_".join(parameters.values()).replace(".", "")
    name = f"{forest}_{width}_{words}"
    ending, file = FILES[parameters["model_type"]]
    path = forests / f"{forest}.{ending}"
    server.load(name, config(width, **parameters), path, file)
    answer = server.infer(name, input__0=rows).as_numpy("output__0")
    server.client.unload_model(name)
    return answer


@pytest.mark.parametrize(
    ("forest", "model_type", "asked"),
    [
        ("regressor", "xgboost_json", "regressor"),
        ("binary", "xgboost_ubj", "binary"),
        ("binary", "xgboost", "binary"),
        ("leaves", "lightgbm", "leaves"),
        ("windows", "lightgbm", "leaves"),
        ("binary_leaves", "lightgbm", "binary_leaves"),
    ],
)
def test_the_librarys_own_numbers(
    server: StandInServer,
    forests: Path,
    answers: dict[str, Any],
    forest: str,
    model_type: str,
    asked: str,
) -> None:
    """One number a row, after the objective's transform, of shape [rows]: the declared 1 vanishes.

    The rows hold a missing value; the forests of XGBoost have names for their features.
    """
    found = ask(server, forests, answers["rows"], forest, 1, model_type=model_type)
    assert found.dtype == np.float32
    assert found.shape == (len(answers["rows"]),)
    assert found == pytest.approx(answers[asked], rel=RELATIVE)
    assert len(set(answers[asked].tolist())) > 3  # the rows are told apart


@pytest.mark.parametrize(
    ("forest", "model_type", "asked"),
    [
        ("softprob", "xgboost_json", "softprob"),
        ("softmax", "xgboost_json", "softprob"),  # trained alike, but for what it answers itself
        ("multi_leaves", "lightgbm", "multi_leaves"),
        ("checkpoint", "treelite_checkpoint", "multi_leaves"),
    ],
)
def test_several_classes(
    server: StandInServer,
    forests: Path,
    answers: dict[str, Any],
    forest: str,
    model_type: str,
    asked: str,
) -> None:
    """predict_proba gives the probability of each class, [rows, classes]; else the likeliest."""
    words = {"model_type": model_type, "output_class": "true"}
    rows = answers["rows"]
    found = ask(server, forests, rows, forest, CLASSES, predict_proba="true", **words)
    assert found.shape == (len(rows), CLASSES)
    assert found == pytest.approx(answers[asked], rel=RELATIVE)
    found = ask(server, forests, rows, forest, 1, **words)
    assert found.shape == (len(rows),)
    assert found.tolist() == answers[asked].argmax(axis=1).tolist()
    assert len(set(found.tolist())) == CLASSES


@pytest.mark.parametrize("threshold", ["0.2", "0.8"])
def test_a_threshold_makes_two_classes(
    server: StandInServer, forests: Path, answers: dict[str, Any], threshold: str
) -> None:
    """output_class of a binary forest: 1 above the threshold, else 0."""
    words = {"model_type": "xgboost_json", "output_class": "true", "threshold": threshold}
    found = ask(server, forests, answers["rows"], "binary", 1, **words)
    assert found.tolist() == (answers["binary"] > float(threshold)).astype(float).tolist()
    assert len(set(found.tolist())) == 2


def test_both_probabilities_of_two_classes(
    server: StandInServer, forests: Path, answers: dict[str, Any]
) -> None:
    """predict_proba of a binary forest declared with two outputs, as Merlin declares it."""
    words = {"model_type": "lightgbm", "output_class": "true", "predict_proba": "true"}
    found = ask(server, forests, answers["rows"], "binary_leaves", 2, **words)
    one = answers["binary_leaves"]
    assert found == pytest.approx(np.stack([1 - one, one], axis=1), rel=RELATIVE)


def test_the_columns_places_count(
    server: StandInServer, forests: Path, answers: dict[str, Any]
) -> None:
    """A forest knows its features by their places: in another order it answers other numbers.

    Of one row the rows' own dimension stays.
    """
    rows = answers["rows"]
    server.load("places", config(1, model_type="lightgbm"), forests / "leaves.txt", "model.txt")
    assert server.infer("places", input__0=rows[:1]).as_numpy("output__0").shape == (1,)
    found = server.infer("places", input__0=np.ascontiguousarray(rows[:, ::-1]))
    assert found.as_numpy("output__0") != pytest.approx(answers["leaves"], rel=RELATIVE)


# --- refusals -------------------------------------------------------------------------------------

ONE, TWO, THREE = [1], [2], [3]
PLAIN = {"output_class": "false"}
CLASS = {"output_class": "true", "threshold": "0.5"}
PROBA = {**CLASS, "predict_proba": "true"}

REFUSED: list[tuple[str, str, list[int], list[int], dict[str, str], str]] = [
    ("binary.json", "xgboost_json", [4], ONE, PLAIN, "has 4 features a row, but the forest was tr"),
    ("binary.json", "xgboost_json", THREE, TWO, PLAIN, "has 2 numbers a row, but with predict_pro"),
    ("softprob.json", "xgboost_json", THREE, ONE, PLAIN, "answers 3; declare dims: [ 3 ]"),
    ("softprob.json", "xgboost_json", THREE, THREE, CLASS, "answers 1; declare dims: [ 1 ]"),
    ("multi_leaves.txt", "lightgbm", THREE, TWO, PROBA, "of 3 class(es) answers 3"),
    ("binary.json", "xgboost_json", THREE, [-1, -1], PLAIN, "answers a fixed number of values"),
    ("binary.json", "xgboost_json", THREE, ONE, {}, "required parameter is_classifier"),
    ("binary.json", "xgboost_json", THREE, ONE, {"output_class": "true"}, "parameter threshold"),
    ("binary.json", "xgboost_json", THREE, ONE, {"output_class": "True"}, "'true' or 'false'"),
    ("binary.json", "xgboost_json", THREE, ONE, {**CLASS, "threshold": "x"}, "expected a number"),
    ("binary.json", "forest", THREE, ONE, PLAIN, "not recognized as a valid serialization format"),
    ("binary.json", "lightgbm", THREE, ONE, PLAIN, "is not a forest of model_type lightgbm"),
    ("binary.ubj", "xgboost_json", THREE, ONE, PLAIN, "is xgboost_ubj; set model_type to that"),
    ("binary.json", "xgboost", THREE, ONE, PLAIN, "is xgboost_json; set model_type to that"),
    ("garbage.json", "xgboost_json", THREE, ONE, PLAIN, "is not a forest of model_type xgboost_js"),
    ("garbage.json", "treelite_checkpoint", THREE, ONE, PLAIN, "is not a forest of model_type"),
    ("linear.json", "xgboost_json", THREE, ONE, PLAIN, "gblinear, which has no trees"),
    ("hinge.json", "xgboost_json", THREE, ONE, PLAIN, "binary:hinge"),
    ("targets.json", "xgboost_json", THREE, TWO, PLAIN, "2 targets"),
    ("absent.json", "xgboost_json", THREE, ONE, PLAIN, "unable to find"),
    ("cut.txt", "lightgbm", THREE, ONE, PLAIN, "its tree 0 is not where tree_sizes says"),
    ("claim.ubj", "xgboost_ubj", THREE, ONE, PLAIN, "has 17 bytes, and says that it holds more"),
]


def case(
    forests: Path,
    file: str,
    model_type: str,
    dims: list[int],
    width: list[int],
    parameters: dict[str, str],
) -> dict[str, Any]:
    """The arguments for a model whose file keeps its name."""
    version = forests / "cases" / file / "1"
    version.mkdir(parents=True, exist_ok=True)
    if (forests / file).exists() and not (version / file).exists():
        (version / file).symlink_to(forests / file)
    words = {"model_type": model_type, **parameters}
    return arguments(
        {
            "max_batch_size": 8,
            "default_model_filename": file,
            "input": [{"name": "input__0", "data_type": "TYPE_FP32", "dims": dims}],
            "output": [{"name": "output__0", "data_type": "TYPE_FP32", "dims": width}],
            "parameters": {key: {"string_value": word} for key, word in words.items()},
        },
        version.parent,
    )


REFUSED_TENSORS = [
    ("input", {"data_type": "TYPE_FP64"}, "is of TYPE_FP64, but FIL knows TYPE_FP32 only"),
    ("output", {"data_type": "TYPE_INT32"}, "is of TYPE_INT32, but FIL knows"),
    ("input", {"name": "x"}, "the inputs of model 'm' are 'x'"),
    ("output", {"name": "treeshap_output"}, "the outputs of model 'm' are 'treeshap_output'"),
]


def with_tensor(given: dict[str, Any], direction: str, changed: dict[str, str]) -> dict[str, Any]:
    """The arguments with the one input or output declared otherwise."""
    declared = json.loads(given["model_config"])
    declared[direction][0].update(changed)
    return {**given, "model_config": json.dumps(declared)}


@pytest.fixture(scope="module")
def initialized(forests: Path) -> dict[str, list[str]]:
    """What the backend says to the cases of each test, asked at once in one process."""
    plain = case(forests, "binary.json", "xgboost_json", THREE, ONE, PLAIN)
    newer = {"is_classifier": "false"}
    cases = {
        "refused": [case(forests, *row[:-1]) for row in REFUSED],
        "tensors": [with_tensor(plain, *row[:-1]) for row in REFUSED_TENSORS],
        "served": [
            case(forests, "binary.json", "xgboost_json", [-1], ONE, PLAIN),
            case(forests, "binary.json", "xgboost_json", THREE, [-1], PLAIN),
            case(forests, "binary.json", "xgboost_json", THREE, ONE, newer),
            {**plain, "model_instance_kind": "GPU"},
        ],
    }
    return initialize_groups(FRAMEWORKS_PYTHON, "fil", cases)


def test_what_is_refused_at_load(initialized: dict[str, list[str]]) -> None:
    """Each with its reason, which goes into the answer to the load."""
    found = zip(initialized["refused"], [row[-1] for row in REFUSED], strict=True)
    assert [pair for pair in found if pair[1] not in pair[0]] == []


def test_refused_tensors(initialized: dict[str, list[str]]) -> None:
    """FIL has one input and one output of FP32, under fixed names."""
    found = zip(initialized["tensors"], [row[-1] for row in REFUSED_TENSORS], strict=True)
    assert [pair for pair in found if pair[1] not in pair[0]] == []


def test_what_nvidias_backend_serves_is_not_refused(initialized: dict[str, list[str]]) -> None:
    """Any number of features declared as -1; the newer parameter's name; an instance on a GPU."""
    assert set(initialized["served"]) == {"it was served"}


@pytest.mark.parametrize(
    ("file", "library"), [("binary.json", "xgboost"), ("leaves.txt", "lightgbm")]
)
def test_a_missing_library_is_named(forests: Path, file: str, library: str) -> None:
    """Where the models' Python does not have it, with the setting that names another."""
    model_type = "lightgbm" if library == "lightgbm" else "xgboost_json"
    given = case(forests, file, model_type, THREE, ONE, PLAIN)
    (said,) = initialize_each(MERLIN_PYTHON, "fil", [given])
    assert f"needs {library}, which the models' Python does not have" in said
    assert "SERVE_BACKEND_PYTHON" in said


def test_a_refusal_reaches_whoever_loads(server: StandInServer, forests: Path) -> None:
    """Through tritonserver, and the server goes on."""
    path = forests / "leaves.txt"
    with pytest.raises(InferenceServerException, match=r"has 2 numbers a row.*declare dims"):
        server.load("refused", config(2, model_type="lightgbm"), path, "model.txt")


def test_a_request_of_another_width_is_refused(
    server: StandInServer, forests: Path, answers: dict[str, Any]
) -> None:
    """Where the config leaves the features open, a request with too few is an error answer."""
    words = config(1, model_type="lightgbm").replace(f"dims: {FEATURES}", "dims: -1")
    server.load("open", words, forests / "leaves.txt", "model.txt")
    narrow = np.ascontiguousarray(answers["rows"][:, :2])
    with pytest.raises(InferenceServerException, match=r"has the shape \[6, 2\], expected"):
        server.infer("open", input__0=narrow)
    found = server.infer("open", input__0=answers["rows"]).as_numpy("output__0")
    assert found == pytest.approx(answers["leaves"], rel=RELATIVE)
