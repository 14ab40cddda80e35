"""Finding tritonserver, and what is made of each layout."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from container.errors import RuntimeNotFound, RuntimeUnusable
from container.settings.reading import read_settings
from container.tritonserver.features import (
    CLIENT_SHM,
    GRPC_RESTRICTED,
    HISTOGRAMS,
    HTTP_RESTRICTED,
    MAX_INPUT,
    PYTHON_BASED,
    find_features,
)
from container.tritonserver.python_utils import UTILS, write_faster_utils
from container.tritonserver.runtime import (
    STAND_INS,
    ask_interpreter,
    check_stub,
    find_runtime,
    find_tritonserver,
)
from tests.unit.container.conftest import WHEEL_2_36

NEW_LIBRARY = b"... unable to find Python backend based backend library ' ..."
#: Up to 2.41.
MIDDLE_LIBRARY = b"unable to find '\0/python', '\0' requires python backend to operate.\0"
#: What pybind11 leaves in a stub: up to 2.11, and since.
OLD, NEW = "numpy.core.multiarray", "numpy.core\0numpy._core\0multiarray"
#: In the Python backend from 2.45 on: of the names that it makes for regions in /dev/shm.
OWN_REGIONS = "\0N5boost5uuids13entropy_errorE\0"
OUR_BACKENDS = ("fil", "pytorch", "tensorflow")
OUR_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def executable(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def image(
    root: Path,
    *backends: str,
    library: bytes = NEW_LIBRARY,
    python: str = "",
    knows: str = "",
    regions: str = OWN_REGIONS,
) -> Path:
    """The layout of NVIDIA's image; its program. knows: what its stub has of numpy's names.

    regions: what its Python backend has of names for them.
    """
    for name in backends:
        words = regions if name == "python" else ""
        executable(root / "backends" / name / f"libtriton_{name}.so", words)
    (root / "lib").mkdir(parents=True, exist_ok=True)
    (root / "lib/libtritonserver.so").write_bytes(library)
    if python:
        stub = root / "backends/python/triton_python_backend_stub"
        stub.write_bytes(f"\0libpython{python}.so.1.0\0{knows}\0".encode())
    return executable(root / "bin/tritonserver")


def interpreter(path: Path, numpy: str = "", **facts: str) -> Path:
    """One that says these things of itself, whatever it is asked."""
    nothing = dict.fromkeys(("version", "library_directory", "library", "prefix"), "")
    said = {**nothing, **facts, "packages": [["numpy", numpy]] if numpy else []}
    return executable(path, f"#!/bin/sh\necho '{json.dumps(said)}'\n")


def snapshot(root: Path) -> list[str]:
    return sorted(str(path) for path in root.rglob("*"))


def test_flags_that_shut_apis(tmp_path: Path) -> None:
    """They are read off the program: 2.36 has the one for gRPC alone, a script has none."""
    ours = find_tritonserver(None, {"PATH": ""})
    flags = {HTTP_RESTRICTED, GRPC_RESTRICTED}
    assert find_features(ours) & flags == flags
    assert find_features(WHEEL_2_36) & flags == {GRPC_RESTRICTED}
    assert not find_features(executable(tmp_path / "script"))
    assert not find_features(executable(tmp_path / "empty", ""))


def test_what_a_tritonserver_knows(tmp_path: Path) -> None:
    """Newer flags and settings are looked for in its program and its library, never assumed."""
    library = NEW_LIBRARY + b"histogram_latencies\0"
    program = image(tmp_path / "newer", "python", *OUR_BACKENDS, library=library)
    executable(program, "--allow-client-shm <boolean> --http-max-input-size <integer>")
    older = image(tmp_path / "older", "python", *OUR_BACKENDS)
    known = {CLIENT_SHM, MAX_INPUT, HISTOGRAMS}
    for place, expected in ((program, known), (older, set())):
        settings = read_settings({"SERVE_TRITON_SERVER": str(place)})
        assert find_runtime(settings, tmp_path / "w", {}).knows & known == expected


def test_the_configured_one_comes_first_and_alone(tmp_path: Path) -> None:
    """Who asks for one by its path does not get another."""
    program = executable(tmp_path / "bin/tritonserver")
    assert find_tritonserver(program, {}) == program
    with pytest.raises(RuntimeNotFound, match="SERVE_TRITON_SERVER=/no"):
        find_tritonserver(Path("/no/such"), {"PATH": str(program.parent)})


def test_path_comes_before_the_wheel(tmp_path: Path) -> None:
    """With symbolic links resolved, so that the program's neighbours are found."""
    program = executable(tmp_path / "real/bin/tritonserver")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/tritonserver").symlink_to(program)
    assert find_tritonserver(None, {"PATH": str(tmp_path / "links")}) == program


def test_the_wheel_is_found_in_our_own_packages() -> None:
    """The embedded tritonserver needs no setting."""
    found = find_tritonserver(None, {"PATH": ""})
    assert found.parts[-4:] == ("pytriton", "tritonserver", "bin", "tritonserver")


def test_an_error_names_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reader learns where to put it."""
    monkeypatch.setattr(sysconfig, "get_path", lambda kind: str(tmp_path))
    with pytest.raises(RuntimeNotFound) as caught:
        find_tritonserver(None, {"PATH": ""})
    assert str(tmp_path) in caught.value.searched[-1]
    assert {"/opt/tritonserver/bin/tritonserver", "PATH"} <= set(caught.value.searched)


def test_an_image_with_its_own_backends_is_used_as_it_is(tmp_path: Path) -> None:
    """No overlay where nothing is missing."""
    program = image(tmp_path / "opt", "python", *OUR_BACKENDS, python=OUR_VERSION)
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert runtime.backend_directory == tmp_path / "opt/backends"
    assert runtime.stand_ins == ()
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("mounted", [0, os.ST_NOEXEC])
def test_an_image_whose_functions_for_strings_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: int
) -> None:
    """Its Python backend is copied, with faster ones, unless the stub could not be run there."""
    program = image(tmp_path / "opt", "python", *OUR_BACKENDS, python=OUR_VERSION)
    wheel = find_tritonserver(None, {"PATH": ""}).parents[1] / "backends/python" / UTILS
    own = tmp_path / "opt/backends/python" / UTILS
    own.write_text(wheel.read_text())
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=mounted))
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    backends = find_runtime(settings, tmp_path / "work", {}).backend_directory
    if mounted:
        assert backends == tmp_path / "opt/backends"
        return
    python = backends / "python"
    assert not python.is_symlink()
    assert {path.name for path in python.iterdir()} == {path.name for path in own.parent.iterdir()}
    assert os.access(python / "libtriton_python.so", os.X_OK)
    assert (python / UTILS).read_text() == write_faster_utils(own)
    assert own.read_text() == wheel.read_text()
    assert (backends / "fil").resolve() == tmp_path / "opt/backends/fil"


@pytest.mark.parametrize("missing", OUR_BACKENDS)
def test_an_image_without_a_backend_gets_the_stand_in(tmp_path: Path, missing: str) -> None:
    """Its own backends stay what they are, beside ours; each comes for itself."""
    others = [name for name in OUR_BACKENDS if name != missing]
    program = image(tmp_path / "opt", "python", *others, python=OUR_VERSION)
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert runtime.stand_ins == (missing,)
    links = {path.name: path.resolve() for path in runtime.backend_directory.iterdir()}
    assert links.keys() == {"python", *OUR_BACKENDS}
    for name in ("python", *others):
        assert links[name] == tmp_path / "opt/backends" / name
    assert (links[missing] / "model.py").is_file()


#: What lies in backends/fil, and whether it is a backend there.
IN_FOLDER = {
    "libtriton_fil.so": True,
    "model.py": True,
    "LICENSE": False,
    "libtriton_other.so": False,
    "libtreelite.so": False,
    "1/model.py": False,
}


@pytest.mark.parametrize(("file", "is_one"), IN_FOLDER.items())
def test_a_folder_is_no_backend_yet(tmp_path: Path, file: str, is_one: bool) -> None:
    """Merlin's image for ARM64 has backends/fil with a LICENSE alone: the stand-in takes its place.

    What tritonserver finds there is the image's own: the library of that name, or model.py.
    """
    program = image(tmp_path / "opt", "python", "pytorch", "tensorflow", python=OUR_VERSION)
    executable(tmp_path / "opt/backends/fil" / file, "")
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert runtime.stand_ins == (() if is_one else ("fil",))
    assert runtime.backends == ("fil", "python", "pytorch", "tensorflow")
    assert (runtime.backend_directory / "fil" / file).exists() is is_one


def test_links_to_nowhere_are_no_backends(tmp_path: Path) -> None:
    """Merlin's images have a link hps, whose target is not always built. Libraries may be links."""
    program = image(tmp_path / "opt", "python", "fil", "tensorflow", python=OUR_VERSION)
    backends = tmp_path / "opt/backends"
    (backends / "hps").symlink_to("/usr/local/hugectr/backends/hps")
    (backends / "pytorch").mkdir()
    (backends / "pytorch/libtriton_pytorch.so").symlink_to("/no/libtriton_pytorch.so")
    (backends / "README").write_text("")
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert runtime.stand_ins == ("pytorch",)
    assert runtime.backends == ("fil", "python", "pytorch", "tensorflow")


def test_a_python_based_backend_of_the_image(tmp_path: Path) -> None:
    """vllm is one (model.py), for a tritonserver that runs such; for an older one it is none."""
    found = {}
    for name, library in (("new", NEW_LIBRARY), ("middle", MIDDLE_LIBRARY), ("old", b"")):
        root = tmp_path / name
        program = image(root, "python", *OUR_BACKENDS, library=library, python=OUR_VERSION)
        executable(root / "backends/vllm/model.py", "")
        settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
        found[name] = find_runtime(settings, tmp_path / "work", {}).backends
    assert found["new"] == found["middle"] == ("fil", "python", "pytorch", "tensorflow", "vllm")
    assert found["old"] == ("fil", "python", "pytorch", "tensorflow")


@pytest.mark.parametrize(("text", "version"), [("2.39.0\n", "2.39.0"), ("2.51.0", "2.51.0")])
def test_the_version_that_the_image_tells(tmp_path: Path, text: str, version: str) -> None:
    """NVIDIA's have a file for it, with a line's end or without; the wheel has none."""
    program = image(tmp_path / "opt", "python", *OUR_BACKENDS, python=OUR_VERSION)
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    assert find_runtime(settings, tmp_path / "work", {}).version == ""
    (tmp_path / "opt/TRITON_VERSION").write_text(text)
    assert find_runtime(settings, tmp_path / "work", {}).version == version


def test_an_old_image_gets_no_stand_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """2.36 does not know Python-based backends, and a log line says so."""
    program = image(tmp_path / "opt", "python", library=b"old", python=OUR_VERSION)
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert (runtime.stand_ins, runtime.configured_apart) == ((), ())
    assert "too old for Python-based backends" in caplog.text


@pytest.mark.parametrize("library", [MIDDLE_LIBRARY, NEW_LIBRARY])
def test_stand_ins_where_backends_would_share_regions(tmp_path: Path, library: bytes) -> None:
    """2.39 to 2.44 give Python-based backends the Python backend's config, and so its prefix.

    A stand-in there is the Python backend's library under its own name, beside our model.py.
    """
    program = image(
        tmp_path / "opt", "python", library=library, python=OUR_VERSION, regions="by number"
    )
    settings = read_settings({"SERVE_TRITON_SERVER": str(program)})
    runtime = find_runtime(settings, tmp_path / "work", {})
    assert (runtime.stand_ins, runtime.configured_apart) == (OUR_BACKENDS, OUR_BACKENDS)
    assert set(runtime.backends) == {"python", *OUR_BACKENDS}
    own = tmp_path / "opt/backends/python/libtriton_python.so"
    for name in OUR_BACKENDS:
        there = runtime.backend_directory / name
        assert (there / f"libtriton_{name}.so").samefile(own)
        assert (there / "model.py").samefile(STAND_INS / name / "model.py")


def test_a_python_that_the_images_stub_cannot_run_is_refused(tmp_path: Path) -> None:
    """The image has one stub, for one version of Python."""
    program = image(tmp_path / "opt", "python", python="3.7")
    settings = read_settings(
        {"SERVE_TRITON_SERVER": str(program), "SERVE_BACKEND_PYTHON": sys.executable}
    )
    with pytest.raises(RuntimeUnusable, match=r"runs 3\.7 only"):
        find_runtime(settings, tmp_path / "work", {})


def test_the_wheel_is_overlaid_and_left_alone(tmp_path: Path) -> None:
    """The stub of the models' Python stands in the overlay; site-packages stay as they were."""
    program = find_tritonserver(None, {"PATH": ""})
    before = snapshot(program.parent.parent)
    settings = read_settings({})
    for _ in range(2):  # the second time over what a killed container left
        runtime = find_runtime(settings, tmp_path, dict(os.environ))
    python = runtime.backend_directory / "python"
    assert os.access(python / "triton_python_backend_stub", os.X_OK)
    assert not (python / "libtriton_python.so").is_symlink()
    assert runtime.stand_ins == OUR_BACKENDS
    for name in OUR_BACKENDS:
        assert (runtime.backend_directory / name / "model.py").is_file()
    libraries = runtime.backend_directory / "../../.." / "nvidia_pytriton.libs"
    assert libraries.is_dir()  # where RPATH looks from backends/python
    assert snapshot(program.parent.parent) == before


def test_the_wheel_without_a_fitting_stub_is_refused(tmp_path: Path) -> None:
    """The message names the versions that would do."""
    strange = interpreter(tmp_path / "python3", version="3.99")
    settings = read_settings({"SERVE_BACKEND_PYTHON": str(strange)})
    with pytest.raises(RuntimeUnusable, match=r"no stub for Python 3\.99.*3\.11"):
        find_runtime(settings, tmp_path / "work", {})


def test_numpy_2_under_an_old_stub_is_refused(tmp_path: Path) -> None:
    """In the image and in the wheel: it would give wrong numbers. Both versions and what to do."""
    python = interpreter(tmp_path / "python3", version=OUR_VERSION, numpy="2.1.0")
    program = image(tmp_path / "opt", "python", python=OUR_VERSION, knows=OLD)
    (tmp_path / "opt/TRITON_VERSION").write_text("2.41.0\n")
    settings = {"SERVE_BACKEND_PYTHON": str(python), "SERVE_TRITON_SERVER": str(program)}
    with pytest.raises(RuntimeUnusable, match=r"numpy 2\.1\.0.* tritonserver 2\.41\.0.*'numpy<2'"):
        find_runtime(read_settings(settings), tmp_path / "work", {})
    del settings["SERVE_TRITON_SERVER"]
    with pytest.raises(RuntimeUnusable, match=r"numpy 2\.1\.0.* this tritonserver"):
        find_runtime(read_settings(settings), tmp_path / "work", {})


def test_the_images_own_python_is_looked_at(tmp_path: Path) -> None:
    """Where no interpreter is configured the stub runs with python3 on PATH, which is not run."""
    image(tmp_path / "opt", "python", python="3.10", knows=OLD)
    stub = tmp_path / "opt/backends/python/triton_python_backend_stub"
    environment = {"PATH": str(tmp_path / "usr/bin")}
    check_stub(stub, None, environment)  # there is none
    executable(tmp_path / "usr/bin/python3", "#!/bin/sh\nexit 9\n")
    check_stub(stub, None, environment)  # without numpy
    packages = tmp_path / "usr/local/lib/python3.10/dist-packages"
    (packages / "numpy-2.1.0.dist-info").mkdir(parents=True)
    with pytest.raises(RuntimeUnusable, match=rf"{tmp_path}/usr/bin/python3: found numpy 2\.1\.0"):
        check_stub(stub, None, environment)


@pytest.mark.parametrize(("numpy", "knows"), [("1.26.4", OLD), ("", OLD), ("2.1.0", NEW)])
def test_numpy_that_fits_is_taken(tmp_path: Path, numpy: str, knows: str) -> None:
    """An older numpy, none at all, and numpy 2 where the stub knows it."""
    python = interpreter(tmp_path / "python3", version=OUR_VERSION, numpy=numpy)
    program = image(tmp_path / "opt", "python", python=OUR_VERSION, knows=knows)
    settings = {"SERVE_BACKEND_PYTHON": str(python), "SERVE_TRITON_SERVER": str(program)}
    runtime = find_runtime(read_settings(settings), tmp_path / "work", {})
    assert runtime.backend_python is not None
    assert runtime.backend_python.numpy == numpy


@pytest.mark.parametrize("script", ["#!/bin/sh\necho broken >&2; exit 3\n", "#!/bin/sh\necho {\n"])
def test_an_interpreter_that_does_not_answer_is_refused(tmp_path: Path, script: str) -> None:
    """With what it said."""
    with pytest.raises(RuntimeUnusable, match="it did not run"):
        ask_interpreter(executable(tmp_path / "python", script))
    with pytest.raises(RuntimeUnusable, match="there is no such program; set SERVE_BACKEND_PYTHON"):
        ask_interpreter(tmp_path / "nothing")


def test_only_newer_tritonservers_support_python_based_backends() -> None:
    """2.51 does, 2.36 does not: told from the library, since there is no --version."""
    newest = find_tritonserver(None, {"PATH": ""})
    assert PYTHON_BASED in find_features(newest)
    assert PYTHON_BASED not in find_features(WHEEL_2_36)
