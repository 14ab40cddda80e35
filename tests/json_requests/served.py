"""The models that random requests go to, and the three ways by which a request gets to them."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.container import Container, running
from tests.support.models import PythonModel, write_archive

#: Every data type of the protocol but BF16, which numpy does not have.
DATA_TYPES = (
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
)

#: An operator's own restriction takes the place of the container's, which leaves inference open: so
#: tritonserver can be asked itself. 2.36 has none.
_OPEN = "--http-restricted-api=logging:x-tests-own=1"
#: Longer than any answer takes; what takes longer hangs.
ANSWER_TIMEOUT_S = 90.0

#: Answers each input as it came, and in SEEN what else the request said.
_IDENTITY = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = [
            pb_utils.Tensor(tensor.name().replace("IN_", "OUT_"), tensor.as_numpy())
            for tensor in request.inputs()
        ]
        seen = repr([
            request.request_id(), request.correlation_id(), request.flags(), request.timeout(),
            sorted(request.requested_output_names()), request.parameters(),
        ])
        tensors.append(pb_utils.Tensor("SEEN", np.array([seen.encode()], dtype=np.object_)))
        return pb_utils.InferenceResponse(tensors)
"""

#: Answers so many values of each kind, made from a seed: much for a small request. None for the
#: count -7: tritonserver dies of classifying an empty output, which must not come about by chance.
_GROWING = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = pb_utils.get_input_tensor_by_name(request, "IN_INT64").as_numpy()
        random = np.random.default_rng(abs(int(given[0])))
        count = 0 if given[1] == -7 else min(max(int(given[1]), 1), 20_000)
        bits = random.integers(0, 2**64, count, dtype=np.uint64)
        cut = random.integers(0, 9, count)
        words = [word.tobytes()[:length] for word, length in zip(bits, cut)]
        plain = [b"%x" % int(word) for word in bits]
        strings = plain if given[0] % 2 else words
        values = {
            "OUT_FP64": bits.view(np.float64),
            "OUT_FP32": (bits >> np.uint64(32)).astype(np.uint32).view(np.float32),
            "OUT_INT64": bits.view(np.int64),
            "OUT_UINT64": bits,
            "OUT_INT8": bits.astype(np.int8),
            "OUT_BOOL": bits % np.uint64(2) == 0,
            "OUT_BYTES": np.array([*strings, None], dtype=np.object_)[:-1],
        }
        if "OUT_FP16" in request.requested_output_names() and given[0] % 7 == 0:
            values["OUT_FP16"] = bits.astype(np.uint16).view(np.float16)
        tensors = [pb_utils.Tensor(name, value) for name, value in values.items()]
        return pb_utils.InferenceResponse(tensors)
"""


def _config_type(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def _identity(dims: str, more: str = "") -> PythonModel:
    """One that takes any subset of the inputs IN_BOOL, IN_UINT8, ..."""
    inputs = "".join(
        f'input {{ name: "IN_{each}" data_type: {_config_type(each)} dims: {dims}'
        " optional: true }\n"
        for each in DATA_TYPES
    )
    return PythonModel(_IDENTITY, more, tensors=inputs + _outputs(DATA_TYPES, dims, "SEEN"))


def _outputs(datatypes: tuple[str, ...], dims: str, text: str = "") -> str:
    outputs = "".join(
        f'output {{ name: "OUT_{each}" data_type: {_config_type(each)} dims: {dims} }}\n'
        for each in datatypes
    )
    return outputs + (
        f'output {{ name: "{text}" data_type: TYPE_STRING dims: [-1] }}\n' * bool(text)
    )


#: The columns of the model wide: their names and data types.
COLUMNS: Mapping[str, str] = {
    f"{number}_{each}": each
    for number, each in enumerate(("INT64", "FP32", "INT32", "BYTES", "FP64", "BOOL") * 4)
}


def _wide() -> PythonModel:
    kinds = (("input", "IN", " optional: true"), ("output", "OUT", ""))
    tensors = "".join(
        f'{kind} {{ name: "{side}_{name}" data_type: {_config_type(each)} dims: [-1]{more} }}\n'
        for kind, side, more in kinds
        for name, each in COLUMNS.items()
    )
    return PythonModel(_IDENTITY, tensors=tensors + _outputs((), "[-1]", "SEEN"))


_PAIR = """
input { name: "IN_FP32" data_type: TYPE_FP32 dims: [-1] }
input { name: "IN_BYTES" data_type: TYPE_STRING dims: [-1] }
output { name: "OUT_FP32" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT_BYTES" data_type: TYPE_STRING dims: [-1] }
output { name: "SEEN" data_type: TYPE_STRING dims: [1] }
"""
_GIVEN = 'input { name: "IN_INT64" data_type: TYPE_INT64 dims: [2] }\n'
_GROWN = ("FP64", "FP32", "INT64", "UINT64", "INT8", "BOOL", "BYTES", "FP16")

#: flat: vectors; deep: three dimensions; batched: vectors with a batch dimension; pair: two inputs
#: that must be there; growing: a large answer to a small request; wide: many short columns.
MODELS: Mapping[str, PythonModel] = {
    "flat": _identity("[-1]"),
    "deep": _identity("[-1, -1, -1]"),
    "batched": _identity("[-1]", "max_batch_size: 64\n"),
    "pair": PythonModel(_IDENTITY, tensors=_PAIR),
    "wide": _wide(),
    "growing": PythonModel(_GROWING, tensors=_GIVEN + _outputs(_GROWN, "[-1]")),
}


@dataclass(frozen=True)
class RawAnswer:
    """An answer as it came; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ToSocket(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("tritonserver", timeout=ANSWER_TIMEOUT_S)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_TIMEOUT_S)
        self.sock.connect(self._socket_path)


class Way:
    """To one server over a connection that stays open."""

    def __init__(self, connection: http.client.HTTPConnection, path: str) -> None:
        self._path, self._connection = path, connection

    def ask(self, model: str, body: bytes, headers: Mapping[str, str]) -> RawAnswer:
        """The answer; status 0 where there is none: a broken connection, or a hang."""
        try:
            self._connection.request("POST", self._path.format(model), body, dict(headers))
            answer = self._connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return RawAnswer(answer.status, named, answer.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return RawAnswer(0, {}, repr(error).encode())

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Ways:
    """To the same models: tritonserver itself, the container that translates all JSON, and one
    that translates none."""

    triton: Way
    translating: Way
    untouched: Way


@contextlib.contextmanager
def served(directory: Path, **environment: str) -> Iterator[Ways]:
    """Two containers with the models, for as long as the block lasts."""
    opened = "" if "SERVE_TRITON_SERVER" in environment else _OPEN
    with contextlib.ExitStack() as open_:
        containers = [
            open_.enter_context(
                running(
                    directory / name,
                    SERVE_TRANSLATE_JSON_FROM=least,
                    SERVE_MEMORY_RESERVE_MB="0",
                    SAGEMAKER_TRITON_ADDITIONAL_ARGS=opened,
                    **environment,
                )
            )
            for name, least in (("translating", "1"), ("untouched", "0"))
        ]
        for container in containers:
            for name, model in MODELS.items():
                archive = write_archive(container.model_root / name / "model", {name: model})
                answer = container.load(name, archive)
                assert answer.status_code == 200, answer.text
        ways = Ways(
            Way(ToSocket(_find_socket(containers[0])), "/v2/models/{}/infer"),
            *(
                Way(
                    http.client.HTTPConnection(
                        "127.0.0.1", container.port, timeout=ANSWER_TIMEOUT_S
                    ),
                    "/models/{}/invoke",
                )
                for container in containers
            ),
        )
        for way in (ways.triton, ways.translating, ways.untouched):
            open_.callback(way.close)
        yield ways


def _find_socket(container: Container) -> str:
    triton = container.triton()
    (process,) = [each for each in container.descendants() if each.pid == triton]
    told = "--http-address=unix:"
    (path,) = [word.removeprefix(told) for word in process.command if word.startswith(told)]
    return path
