"""Whatever an archive is made of, its sender gets one sentence and nobody else notices anything.

The fixture `container` holds part of it: after each test the models and the files are what they
were, and the witness answers. Beside each load here another thread asks the witness all the time,
and every answer is checked. What tritonserver is asked to load is in
tests/contract/test_contract_layout.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.support import models
from tests.support.container import ROOT
from tests.support.protocol import complaint, infer, values
from tests.unit.container.assembled.conftest import WITNESS
from tests.unit.container.assembled.container_on_fake import ContainerOnFake

#: A refusal is some ms; the rest is for machines with much to do.
REFUSED_WITHIN_S = 5.0
SECRET = "wJalrXUtnFEMI-not-for-any-answer"
#: More would be a walk without end: of a refusal the log has one line.
LOGGED_BYTES = 20_000

Make = Callable[[Path], object]


@contextlib.contextmanager
def asked(container: ContainerOnFake) -> Iterator[None]:
    """The witness is asked beside the block, and each answer is right."""
    wrong: list[str] = []
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=str(container.http.base_url), trust_env=False) as http:
            while not done.is_set():
                answer = http.post(f"/models/{WITNESS}/invoke", json=infer([1]), timeout=60.0)
                if answer.status_code != 200 or values(answer) != [4.0]:
                    wrong.append(answer.text)
                time.sleep(0.01)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert wrong == []


def _model(directory: Path, more: str = "", name: str = "m") -> Path:
    """A model directory that would be served."""
    models.PythonModel(models.IDENTITY, more).write(directory / name)
    return directory / name


def _links_back(directory: Path) -> None:
    model = _model(directory)
    for name in "ab":
        (model / "1" / name).symlink_to(".")


def _links_to_each_other(directory: Path) -> None:
    model = _model(directory)
    for one, other in (("x", "y"), ("y", "x")):
        (model / one).mkdir()
        (model / one / "away").symlink_to(f"../{other}")


def _links_that_multiply(directory: Path) -> None:
    model = _model(directory)
    for number in range(30):
        (model / f"x{number}").mkdir()
        for name in "ab":
            (model / f"x{number}" / name).symlink_to(f"../x{number + 1}")
    (model / "x30").mkdir()


def _pipe(place: str) -> Make:
    def make(directory: Path) -> None:
        path = _model(directory) / place
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)

    return make


def _link(place: str, target: str) -> Make:
    def make(directory: Path) -> None:
        path = _model(directory) / place
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


def _device(directory: Path) -> None:
    os.mknod(_model(directory) / "1/model.bin", 0o020600, os.makedev(1, 5))


def _linked_model(directory: Path) -> None:
    elsewhere = directory.parent.parent / f"{directory.parent.name}-elsewhere"
    models.identity.write(elsewhere / "theirs")
    _model(directory)
    (directory / "theirs").symlink_to(elsewhere / "theirs")


def _asks(more: str) -> Make:
    return lambda directory: _model(directory, more)


def _library(place: str) -> Make:
    def make(directory: Path) -> None:
        path = _model(directory) / place
        shutil.copy("/proc/self/exe", path)

    return make


def _config(text: Callable[[], str]) -> Make:
    return lambda directory: (_model(directory) / "config.pbtxt").write_text(text())


def _labels(name: str) -> Make:
    labelled = f'output {{ label_filename: "{name}"'
    return _config(lambda: models.identity.config.replace("output {", labelled))


def _backend(name: str) -> Make:
    return _config(lambda: models.identity.config.replace('"python"', f'"{name}"'))


def _own_backend(directory: Path) -> None:
    _backend("own")(directory)
    (directory / "m/libtriton_own.so").write_bytes(b"\x7fELF")


def _program_for_a_shell(directory: Path) -> None:
    model = _model(directory, 'default_model_filename: "$(touch armed).py"\n')
    (model / "1/model.py").rename(model / "1/$(touch armed).py")


def _deep_directories(directory: Path) -> None:
    (_model(directory) / "1" / "/".join("d" * 150)).mkdir(parents=True)


_WARM = 'model_warmup {{ name: "w" batch_size: 1 inputs {{ key: "IN" value {{ {} }} }} }}\n'

HOSTILE: Mapping[str, tuple[Make, list[str]]] = {
    "links back": (_links_back, ["/m/1/", "link back"]),
    "links to each other": (_links_to_each_other, ["/away", "link back"]),
    "links that multiply": (_links_that_multiply, ["links to directories"]),
    "a pipe as the program": (_pipe("1/model.py"), ["m/1/model.py", "named pipe"]),
    "a pipe as the config": (_pipe("config.pbtxt"), ["m/config.pbtxt", "named pipe"]),
    "a pipe beside": (_pipe("1/data/x"), ["m/1/data/x", "named pipe"]),
    "a device": (_device, ["m/1/model.bin", "a device"]),
    "the environment as the config": (
        _link("config.pbtxt", "/proc/self/environ"),
        ["m/config.pbtxt", "out of the archive"],
    ),
    "the environment as the program": (
        _link("1/model.py", "/proc/self/environ"),
        ["m/1/model.py", "out of the archive"],
    ),
    "a file of the system": (_link("1/x", "/etc/shadow"), ["m/1/x", "out of the archive"]),
    "a directory of the system": (_link("x", "/proc"), ["m/x", "out of the archive"]),
    "a neighbour's archive": (_link("x", "../../../../witness"), ["m/x", "out of the archive"]),
    "a program that is not there": (_link("1/model.py", "gone.py"), ["m/1", "model.py"]),
    "a config that is not there": (_link("config.pbtxt", "gone"), ["m/config.pbtxt", "nowhere"]),
    "a model directory from outside": (_linked_model, ["/theirs", "out of the archive"]),
    "directories without end": (_deep_directories, ["nested more than 100 deep"]),
    "a warm-up of 16 GB": (
        _asks(_WARM.format("data_type: TYPE_FP32 dims: [400000, 1000000] zero_data: true")),
        ["m/config.pbtxt", "`model_warmup`", "MiB"],
    ),
    "a warm-up that overflows": (
        _asks(_WARM.format("data_type: TYPE_INT64 dims: [4294967296, 4294967296] zero_data: true")),
        ["m/config.pbtxt", "`model_warmup`"],
    ),
    "a warm-up of less than nothing": (
        _asks(_WARM.format("data_type: TYPE_FP32 dims: [-5] zero_data: true")),
        ["`model_warmup.inputs.dims`", "-5"],
    ),
    "a warm-up from the system": (
        _asks(_WARM.format('data_type: TYPE_FP32 dims: [1] input_data_file: "../../dev/zero"')),
        ["input_data_file`", "../../dev/zero"],
    ),
    "sequences without end": (
        _asks("sequence_batching { oldest { max_candidate_sequences: 2147483647 } }\n"),
        ["max_candidate_sequences"],
    ),
    "sequences by the batch": (
        _asks(
            "max_batch_size: 16777216 sequence_batching { direct { } } instance_group { count: 9 }"
        ),
        ["`max_batch_size`"],
    ),
    "a label of metrics": (_asks('metric_tags { key: "a b" value: "c" }\n'), ["`metric_tags`"]),
    "sixty instances": (_asks("instance_group { count: 60 }\n"), ["61", "lower `count`"]),
    **{
        f"the labels {name}": (_labels(name), ["label_filename`", name])
        for name in ("../../../../etc/shadow", "../../../secret/1", "/etc/passwd")
    },
    "a library for tritonserver": (
        _library("1/libtriton_python.so"),
        ["1/libtriton_python.so", "into itself"],
    ),
    "a library for batches": (_library("batchstrategy.so"), ["batchstrategy.so", "into itself"]),
    "a library for a backend of its own": (_own_backend, ["libtriton_own.so"]),
    **{f"the backend {name}": (_backend(name), ["`backend`"]) for name in ("../../x", "/tmp/x")},
    "a program that a shell would read": (_program_for_a_shell, ["`default_model_filename`", "$("]),
    "an environment of somebody else": (
        _asks('parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/tmp/x" } }\n'),
        ["EXECUTION_ENV_PATH"],
    ),
    "a config of braces": (_config(lambda: "input{" * 300_000), ["config.pbtxt", "too deep"]),
    "a config of unknown braces": (_config(lambda: "a{" * 1_000_000), ["config.pbtxt", "too deep"]),
    "a config of one line": (_config(lambda: "max_batch_size:" + "9" * 2**20), ["config.pbtxt"]),
    "a config without end": (_config(lambda: "#" * 3 * 2**20), ["config.pbtxt", "larger"]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_refused(
    case: str,
    container: ContainerOnFake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A 400 in no time: one sentence that names the file or the field, and nothing of ours."""
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    make, fragments = HOSTILE[case]
    directory = container.model_root / tmp_path.name / "model"
    make(directory)
    with asked(container):
        before_s = container.computed_s()
        answer = container.load("m1", directory)
        took_s = container.computed_s() - before_s
    assert answer.status_code == 400, answer.text
    assert took_s < REFUSED_WITHIN_S
    for fragment in fragments:
        assert fragment in complaint(answer)
    assert len(answer.content) < 2_000
    assert not [event for event in container.asked("load") if "m1" in str(event["model"])]
    logged = [record.getMessage() for record in caplog.records if record.name != "httpx"]
    assert logged
    assert sum(map(len, logged)) < LOGGED_BYTES
    assert SECRET not in answer.text
    assert SECRET not in caplog.text


class _Trace:
    """Leaves a trace where it is unpickled in earnest."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.trace}",)


def test_a_refused_load_runs_nothing(container: ContainerOnFake, tmp_path: Path) -> None:
    """Its pickles, programs and modules leave traces as soon as they are run."""
    directory = container.model_root / tmp_path.name / "model"
    shutil.copytree(ROOT / "examples/merlin/dense/repository", directory)
    trace = tmp_path / "trace"
    code = f"import os; os.system('touch {trace}')\n"
    for name in ("sitecustomize.py", "numpy.py", "1/numpy.py", "1/pyarrow.py"):
        (directory / "0_transformworkflowtriton" / name).write_text(code)
    program = directory / "0_transformworkflowtriton/1/model.py"
    program.write_text(code + program.read_text())
    workflow = directory / "0_transformworkflowtriton/1/workflow/workflow.pkl"
    workflow.write_bytes(pickle.dumps(_Trace(trace)))
    config = directory / "1_predictpytorchtriton/config.pbtxt"
    config.write_text(config.read_text() + "instance_group { count: 60 }\n")
    answer = container.load("m1", directory)
    assert answer.status_code == 400
    assert "instance_group" in complaint(answer)
    assert not trace.exists()
