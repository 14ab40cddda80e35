"""What a tenant's model can reach of the others, of tritonserver and of the container.

A model here runs what its caller sends, as the code of a hostile tenant could. The container runs
with the capabilities that Docker gives to root, or with none. docs/security.md names these tests:
those that show something to be open are there for honesty, and fail when it is closed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.support import models
from tests.support.container import Container, running
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

#: Docker's default for root, which SageMaker does not say to widen.
_DOCKERS = (
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "net_bind_service",
    "net_raw",
    "sys_chroot",
    "mknod",
    "audit_write",
    "setfcap",
)
AS_DOCKER = ("setpriv", f"--bounding-set=-all,{','.join(f'+{name}' for name in _DOCKERS)}", "--")
#: Somebody else than root, who may read as root does (the tests' Python may lie in root's home).
NOBODY = 1000
_READING = "-all,+dac_read_search"
AS_USER = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    f"--inh-caps={_READING}",
    f"--ambient-caps={_READING}",
    "--",
)
IS_ROOT = os.geteuid() == 0

#: It runs what it is sent, and answers with what that has put into `said`.
SPY = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy().reshape(-1)[0]
        scope = {"request": request, "pb_utils": pb_utils, "np": np, "os": os, "said": None}
        try:
            exec(code.decode(), scope)
            said = scope["said"]
        except Exception as error:
            said = "%s: %s" % (type(error).__name__, error)
        array = np.array([json.dumps(said).encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SAID", array)])
"""
_CODE_AND_SAID = """
input { name: "CODE" data_type: TYPE_STRING dims: [1] }
output { name: "SAID" data_type: TYPE_STRING dims: [1] }
"""
#: What tritonserver was started with, for code in the spy.
ARGUMENTS = """
words = open("/proc/%d/cmdline" % os.getppid()).read().split(chr(0))
flags = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
"""

CREDENTIALS = {
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/0",
}
#: What an image sets for its models. Our own interpreter has no such protobuf, and would not start.
IMAGES = {
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "cpp",
    "PYTHONPATH": "/opt/tritonserver/backends/dali/wheel/dali",
}


@pytest.fixture(scope="module")
def container(
    triton: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """A container with a tenant `victim` and a tenant `spy`; short of shared memory."""
    environment = {
        **triton,
        **CREDENTIALS,
        **IMAGES,
        "PYTHONPATH": f"{Path(__file__).parents[2]}:{IMAGES['PYTHONPATH']}:",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": str(4 * 1024 * 1024),
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": str(2**50),
        "SERVE_MEMORY_RESERVE_MB": "0",
        "SERVE_MODEL_ENVIRONMENT": "",  # the default
    }
    under = AS_DOCKER if IS_ROOT else ()
    with running(tmp_path_factory.mktemp("neighbours"), under=under, **environment) as container:
        root = container.model_root
        victim = models.write_archive(root / "victim/model", {"m": models.adder(5)})
        spy = models.PythonModel(SPY, tensors=_CODE_AND_SAID)
        spies = models.write_archive(root / "spy/model", {"spy": spy})
        with container.loaded("victim", victim), container.loaded("spy", spies):
            yield container


def told(container: Container, code: str) -> Any:
    """What the spy's code put into `said`, or the error that it raised."""
    tensor = {"name": "CODE", "datatype": "BYTES", "shape": [1], "data": [code]}
    (said,) = values(container.invoke("spy", {"inputs": [tensor]}), "SAID")
    return json.loads(str(said))


def flags(container: Container) -> dict[str, str]:
    """tritonserver's flags, as every process sees them."""
    words = Path(f"/proc/{container.triton()}/cmdline").read_text().split("\0")
    return dict(word.partition("=")[::2] for word in words if word.startswith("--"))


# -- tritonserver

STEERING = (
    "POST repository/index",
    "POST repository/models/victim/unload",
    "POST repository/models/victim/load",
    "GET models/victim",
    "GET models/victim/config",
    "GET models/victim/stats",
    "GET systemsharedmemory/status",
    "POST systemsharedmemory/region/r/register",
    "GET cudasharedmemory/status",
    "GET logging",
    "POST logging",
    "GET trace/setting",
    "POST trace/setting",
    "POST models/victim/infer",
    "POST models/victim/generate",
)
HTTP = f"""
{ARGUMENTS}
import http.client, socket
said = {{}}
for call in {STEERING}:
    method, path = call.split()
    connection = http.client.HTTPConnection("tritonserver")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(flags["--http-address"].removeprefix("unix:"))
    connection.request(method, "/v2/" + path, b"{{}}" if method == "POST" else None)
    said[call] = connection.getresponse().status
    connection.close()
"""


@BOTH
def test_http_is_shut_to_models(container: Container, triton: Mapping[str, str]) -> None:
    """Over HTTP a model can neither steer tritonserver nor ask a neighbour; 2.36 cannot shut it."""
    said = told(container, HTTP)
    warned = "can load, unload and ask other models over HTTP: found no --http-restricted-api"
    if triton:
        assert said["GET logging"] == 200
        assert said["POST repository/index"] == 200
        assert warned in container.log
    else:
        assert said == dict.fromkeys(STEERING, 403)
        assert warned not in container.log
    assert values(container.invoke("victim", infer([1]))) == [6.0]


CALLS: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("get_server_metadata", ()),
    ("get_model_repository_index", ()),
    ("get_log_settings", ()),
    ("update_log_settings", ({"log_verbose_level": 1},)),
    ("get_trace_settings", ()),
    ("get_inference_statistics", ()),
    ("get_system_shared_memory_status", ()),
    ("get_cuda_shared_memory_status", ()),
    ("register_system_shared_memory", ("r", "/r", 1)),
    ("get_model_config", ("victim",)),
    ("get_model_metadata", ("victim",)),
    ("load_model", ("victim",)),
    ("unload_model", ("victim",)),
    ("infer", ("victim", [])),
)


@BOTH
@pytest.mark.parametrize("secret", [None, "*" * 24, "guessed"])
def test_grpc_is_shut_to_models(container: Container, secret: str | None) -> None:
    """Over gRPC nobody steers tritonserver or asks a model without the secret, in any version."""
    headers = {"triton-grpc-protocol-access": secret} if secret else None
    told = flags(container)
    address = f"{told['--grpc-address']}:{told['--grpc-port']}"
    with triton_grpc.InferenceServerClient(address) as client:
        assert client.is_server_live()
        for name, arguments in CALLS:
            with pytest.raises(InferenceServerException, match="This protocol is restricted"):
                getattr(client, name)(*arguments, headers=headers)
    assert values(container.invoke("victim", infer([1]))) == [6.0]


def test_the_secrets_are_nowhere_to_be_read(
    container: Container, triton: Mapping[str, str]
) -> None:
    """Not on tritonserver's command line, not in an environment, not in the log."""
    said = told(container, ARGUMENTS + "said = [w for w in words if '-restricted-' in w]")
    assert len(said) == (1 if triton else 3)
    assert all(re.search(r"access=\*{24}$", word) for word in said)
    environment = Path(f"/proc/{container.triton()}/environ").read_text()
    assert "access" not in environment
    assert "x-serve-access" not in container.log
    assert "stays readable" not in container.log


# -- names


ASK = """
def ask(request_class):
    given = [pb_utils.Tensor("IN", np.array([1], dtype=np.float32))]
    asked = request_class(model_name="victim", requested_output_names=["OUT"], inputs=given)
    answer = asked.exec()
    if answer.has_error():
        return answer.error().message()
    return pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy().tolist()
"""


_CLASSES = (
    "pb_utils.InferenceRequest",
    "__import__('c_python_backend_utils').InferenceRequest",
    "type(request)",
    "pb_utils.InferenceRequest.__mro__[0]",
    "type('Own', (type(request),), {})",
)
_MODULES = ("triton_python_backend_utils", "c_python_backend_utils")
_NOT_CALLED = "'victim' (not served with this model, which can call 'spy'; "
_NO_MODEL = "there is no model 'victim'"
#: Code that means a neighbour by its name, and what it is told.
NAMING: Mapping[str, tuple[str, object]] = {
    **{f"{way} calls": (f"{ASK}\nsaid = ask({way})", _NOT_CALLED) for way in _CLASSES},
    **{
        f"{module}.{call}({name!r})": (
            f"import {module} as found\nsaid = found.{call}({name!r})",
            _NO_MODEL,
        )
        for module in _MODULES
        for call in ("unload_model", "load_model")
        for name in ("victim", b"victim")
    },
    **{
        f"{module}.is_model_ready": (
            f"import {module} as found\nsaid = found.is_model_ready('victim')",
            False,
        )
        for module in _MODULES
    },
}


@BOTH
@pytest.mark.parametrize("way", NAMING)
def test_a_neighbour_is_not_reached_by_name(container: Container, way: str) -> None:
    """Neither called, by whatever class of requests, nor loaded, unloaded, or told to be ready."""
    code, answer = NAMING[way]
    said = told(container, code)
    assert answer in said if isinstance(answer, str) else said == answer
    assert values(container.invoke("victim", infer([1]))) == [6.0]


def _call_bent(container: Container) -> bool:
    """Not to be closed in Python: what was replaced is in what replaces it."""
    bent = """
make = pb_utils.InferenceRequest.__init__.__closure__[0].cell_contents
class Bent(pb_utils.InferenceRequest):
    __init__ = lambda self, **named: make(self, **named)
"""
    return bool(told(container, f"{ASK}{bent}said = ask(Bent)") == [6.0])


def _unload_bent(container: Container) -> bool:
    """As well; the neighbour's next caller waits for it to be loaded again."""
    told(container, "pb_utils.unload_model.__closure__[0].cell_contents('victim', False)")
    assert values(container.invoke("victim", infer([1]))) == [6.0]
    return "the model was loaded again model_name=victim" in container.log


def _read_files(container: Container) -> bool:
    """They are the same user's."""
    theirs = container.model_root / "victim/model/m/1/model.py"
    return bool(told(container, f"said = open({str(theirs)!r}).read()") == theirs.read_text())


def _list_regions(container: Container) -> bool:
    """Of shared memory: they are the same user's, too."""
    return set(told(container, "said = os.listdir('/dev/shm')")) >= container.regions()


def _list_names(container: Container) -> bool:
    """Unguessable ones would not help: the directory beside a model's own lists them all."""
    listing = "said = sorted(os.listdir(os.path.join(os.path.dirname(__file__), '../..')))"
    arguments = "words = open('/proc/self/cmdline').read().split(chr(0))\n__file__ = words[1]\n"
    return {"spy", "victim"} <= set(told(container, arguments + listing))


@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(_call_bent, id="code that is bent on it calls a neighbour"),
        pytest.param(_unload_bent, id="code that is bent on it unloads a neighbour"),
        pytest.param(_read_files, id="files"),
        pytest.param(_list_regions, id="regions of shared memory"),
        pytest.param(_list_names, id="names"),
    ],
)
def test_what_is_open(container: Container, reach: Callable[[Container], bool]) -> None:
    """OPEN: a model's code has the rights of its user, and Python has no walls."""
    assert reach(container)


# -- the environment


def test_what_models_see_of_the_environment(container: Container) -> None:
    """In multi-model mode: not AWS_*, SERVE_* or SAGEMAKER_TRITON_*, nor does tritonserver.

    What the image sets for them is there, without our own folder.
    """
    code = """
own = "\\0".join("%s=%s" % pair for pair in os.environ.items())
parents = open("/proc/%d/environ" % os.getppid()).read()
said = [sorted(word.partition("=")[0] for word in text.split("\\0")) for text in (own, parents)]
"""
    for names in told(container, code):
        assert not [n for n in names if n.startswith(("AWS_", "SERVE_", "SAGEMAKER_TRITON_"))]
        assert {"PATH", "SAGEMAKER_MULTI_MODEL"} <= set(names)
    said = told(container, f"said = {{name: os.environ.get(name) for name in {list(IMAGES)}}}")
    assert said == IMAGES


@pytest.mark.parametrize("what", ["environ", "mem", "maps", "fd/0"])
def test_the_containers_own_process_is_shut(container: Container, what: str) -> None:
    """Its environment keeps the credentials: no process of a model's reads it or its memory."""
    path = f"/proc/{container.process.pid}/{what}"
    assert "PermissionError" in told(container, f"said = open({path!r}, 'rb').read(1).hex()")


# -- regions


def test_no_error_tells_a_regions_name(container: Container) -> None:
    """CVE-2025-23320: a request that is too large for the shared memory is told so, and no more."""
    answer = container.invoke("victim", infer([1.5] * 1_200_000))
    assert answer.status_code == 507
    assert "Failed to increase the shared memory pool size" in complaint(answer)
    assert "serve_" not in answer.text
    assert container.regions()  # named so, and there
    assert values(container.invoke("victim", infer([1]))) == [6.0]


# -- users


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that everybody may enter and, in `work`, write to; pytest's own are the tests' user's."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for path, mode in ((directory, 0o755), (directory / "w", 0o777)):
            path.mkdir(exist_ok=True)
            path.chmod(mode)
        yield directory


def test_the_container_runs_as_any_user(triton: Mapping[str, str], open_directory: Path) -> None:
    """docker run --user 1000: loads, invocations and the end need no privilege and no home."""
    archive = models.write_archive(open_directory / "models/one/model", {"m": models.adder(3)})
    environment = {**triton, "HOME": "/nonexistent", "SERVE_MODEL_ENVIRONMENT": ""}
    under = AS_USER if IS_ROOT else ()
    with running(open_directory, under=under, **environment) as container:
        with container.loaded("m1", archive):
            assert values(container.invoke("m1", infer([1]))) == [4.0]
            stub = Path(f"/proc/{min(container.stubs())}/status").read_text()
        uid = NOBODY if IS_ROOT else os.getuid()
        assert f"Uid:\t{uid}\t{uid}" in stub
        assert "stays readable" not in container.log
