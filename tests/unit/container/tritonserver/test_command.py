"""Settings into a command line, without any process."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from container.addresses import Addresses
from container.settings.reading import read_settings
from container.tritonserver.command import (
    OUR_FOLDERS,
    TritonCommand,
    build_command,
    name_shm_prefix,
)
from container.tritonserver.features import (
    CLIENT_SHM,
    GRPC_RESTRICTED,
    HISTOGRAMS,
    HTTP_RESTRICTED,
    MAX_INPUT,
    METRICS_ADDRESS,
    TRACEPARENT,
)
from container.tritonserver.runtime import BackendPython, TritonRuntime
from serve.triton.access import TritonAccess

RUNTIME = TritonRuntime(
    executable=Path("/t/bin/tritonserver"),
    backend_directory=Path("/w/backends"),
    cache_directory=Path("/t/caches"),
    bin_path=Path("/models/bin"),
    library_path=Path("/py/lib"),
    server_bin=Path("/srv/.venv/bin"),
    backend_python=None,
    stand_ins=(),
)
SOCKETS = Addresses(Path("/w/http"), Path("/w/grpc"), None)


def build(
    environment: dict[str, str] | None = None,
    *,
    addresses: Addresses = SOCKETS,
    inherited: dict[str, str] | None = None,
    gpu_count: int = 0,
    restricts: tuple[str, ...] = (),
    access: TritonAccess | None = None,
    traces: bool = False,
    cuda_compat: Path | None = None,
    runtime: TritonRuntime = RUNTIME,
) -> TritonCommand:
    knows = {*runtime.knows, *restricts, *([TRACEPARENT] if traces else [])}
    return build_command(
        read_settings(environment or {}),
        replace(runtime, knows=frozenset(knows)),
        addresses,
        Path("/w/repository"),
        inherited or {},
        gpu_count=gpu_count,
        shm_prefix="serve_1_ab_",
        access=access,
        cuda_compat=cuda_compat,
    )


def test_the_plain_command() -> None:
    """Explicit mode, namespacing, strict configs, sockets only, gRPC always."""
    assert build().argv == (
        "/t/bin/tritonserver",
        "--model-repository=/w/repository",
        "--model-control-mode=explicit",
        "--model-namespacing=true",
        "--strict-readiness=false",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=5",
        "--http-address=unix:/w/http",
        "--grpc-address=unix:/w/grpc",
        "--grpc-port=1",
        "--allow-grpc=true",
        "--allow-metrics=false",
        "--http-thread-count=8",
        "--backend-directory=/w/backends",
        "--cache-directory=/t/caches",
        "--backend-config=python,shm-default-byte-size=16777216",
        "--backend-config=python,shm-growth-byte-size=1048576",
        "--backend-config=python,shm-region-prefix-name=serve_1_ab_",
        "--backend-config=python,thread-pool-size=8",
    )


def test_a_stand_in_that_is_configured_apart() -> None:
    """It gets what the Python backend gets, and a prefix that is still this container's."""
    argv = build(runtime=replace(RUNTIME, configured_apart=("fil",))).argv
    said = "--backend-config={},shm-region-prefix-name={}"
    python, fil = said.format("python", "serve_1_ab_"), said.format("fil", "serve_1_ab_fil-")
    assert argv.index(python) < argv.index(fil)  # the census takes the first, which fits both
    others = [one for one in argv if "=python," in one and one != python]
    assert len(others) == 3
    assert {one.replace("=python,", "=fil,") for one in others} <= set(argv)


def test_auto_complete_can_be_switched_back_on() -> None:
    """Strict configs are a default, not a law."""
    assert "--disable-auto-complete-config" not in build({"SERVE_AUTO_COMPLETE": "true"}).argv


def test_every_passed_on_variable_becomes_its_flag() -> None:
    """Upstream's variables keep upstream's meaning."""
    argv = build(
        {
            "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING": "false",
            "SAGEMAKER_TRITON_THREAD_COUNT": "3",
            "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": "2",
            "SAGEMAKER_TRITON_LOG_VERBOSE": "true",
            "SAGEMAKER_TRITON_LOG_INFO": "false",
            "SAGEMAKER_TRITON_LOG_WARNING": "true",
            "SAGEMAKER_TRITON_LOG_ERROR": "true",
            "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "33554432",
            "SAGEMAKER_TRITON_TENSORFLOW_VERSION": "2",
            "SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT": "0.8",
        },
        gpu_count=2,
    ).argv
    assert {
        "--model-namespacing=false",
        "--http-thread-count=3",
        "--buffer-manager-thread-count=2",
        "--log-verbose=1",
        "--log-info=false",
        "--log-warning=true",
        "--log-error=true",
        "--backend-config=python,shm-default-byte-size=33554432",
        "--backend-config=tensorflow,version=2",
        "--model-load-gpu-limit=0:0.8",
        "--model-load-gpu-limit=1:0.8",
    } <= set(argv)


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (21002, {"--metrics-address=127.0.0.1", "--metrics-port=21002"}),
        (Path("/w/metrics"), {"--metrics-address=unix:/w/metrics"}),
    ],
)
def test_metrics_have_an_address_of_their_own(metrics: Path | int, told: set[str]) -> None:
    """Without one they would be told at HTTP's, or, before 2.34, could be told nowhere else."""
    addresses = replace(SOCKETS, metrics=metrics)
    argv = build(addresses=addresses, restricts=(METRICS_ADDRESS,)).argv
    assert {"--allow-metrics=true", *told} <= set(argv)
    old = build(addresses=addresses).argv
    assert "--allow-metrics=false" in old
    assert not any(argument.startswith("--metrics") for argument in old)


def test_a_port_in_the_place_of_grpcs_socket() -> None:
    """Loopback alone; what a killed tritonserver left of the others goes before the next one."""
    command = build(addresses=replace(SOCKETS, grpc=8001, metrics=8002))
    assert {"--grpc-address=127.0.0.1", "--grpc-port=8001"} <= set(command.argv)
    assert command.socket_files == (Path("/w/http"),)
    sockets = replace(SOCKETS, metrics=Path("/w/metrics"))
    assert build(addresses=sockets, restricts=(METRICS_ADDRESS,)).socket_files == (
        Path("/w/http"),
        Path("/w/metrics"),
    )


def test_additional_arguments_come_last() -> None:
    """The last of equal flags counts, so the operator has the last word."""
    argv = build({"SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--http-thread-count=1 --id 'a b'"}).argv
    assert argv[-3:] == ("--http-thread-count=1", "--id", "a b")


def test_the_models_python_comes_first_and_ours_never() -> None:
    """A stub takes the packages of the first python3 on PATH."""
    env = build(
        inherited={
            "PATH": "/srv/.venv/bin:/active/bin:/usr/bin::/bin",
            "VIRTUAL_ENV": "/active",
            "PYTHONPATH": f"{OUR_FOLDERS[0]}:{OUR_FOLDERS[1]}/",
            "PYTHONHOME": "/x",
            "LD_LIBRARY_PATH": "/cuda:",
            "AWS_REGION": "eu-west-1",
        }
    ).env
    assert env == {
        "PATH": "/models/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/py/lib:/cuda",
        "AWS_REGION": "eu-west-1",
        "MERLIN_FEATURE_STORE_TIMEOUT": "5",
        "FEAST_USAGE": "False",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


DALI = "/opt/tritonserver/backends/dali/wheel/dali"
MERLINS = "/usr/local/lib/python3.10/dist-packages/"


@pytest.mark.parametrize(
    ("path", "kept", "kept_for_another_python"),
    [
        (f"{DALI}:", DALI, DALI),
        (f":{MERLINS}", MERLINS, None),
        (f"{OUR_FOLDERS[0]}/container/..:{DALI}:{MERLINS}:{DALI}", f"{DALI}:{MERLINS}", DALI),
        (f"{OUR_FOLDERS[1]}:{MERLINS}x:sub", f"{MERLINS}x:sub", f"{MERLINS}x:sub"),
        ("/usr/lib/python3/dist-packages:/v/lib/python3.12/site-packages", "as it is", None),
        ("", None, None),
        (":", None, None),
    ],
)
def test_the_images_pythonpath(
    path: str, kept: str | None, kept_for_another_python: str | None
) -> None:
    """Backends live by it (DALI's packages lie there); only ours is dropped.

    Another Python than the image's gets none of the image's Python's own packages.
    """
    chosen = BackendPython(Path("/models/bin/python"), "3.11", Path("/models"), None)
    for python, expected in ((None, kept), (chosen, kept_for_another_python)):
        runtime = replace(RUNTIME, backend_python=python)
        found = build(inherited={"PYTHONPATH": path}, runtime=runtime).env.get("PYTHONPATH")
        assert found == (path if expected == "as it is" else expected)


def test_tensorflow_takes_what_it_needs_of_a_gpu() -> None:
    """Left to itself it takes all that is free; who sets the variable has it as he set it."""
    name = "TF_FORCE_GPU_ALLOW_GROWTH"
    assert build().env[name] == "true"
    assert build(inherited={name: "false"}).env[name] == "false"


def test_cuda_compatibility_libraries_come_first() -> None:
    """Before the models' libpython and what the image names; without them nothing changes."""
    inherited = {"LD_LIBRARY_PATH": "/usr/local/cuda/compat/lib:/usr/local/nvidia/lib64"}
    folder = Path("/usr/local/cuda/compat/lib.real")
    assert build(inherited=inherited, cuda_compat=folder).env["LD_LIBRARY_PATH"] == (
        f"{folder}:/py/lib:{inherited['LD_LIBRARY_PATH']}"
    )
    assert build(inherited=inherited).env["LD_LIBRARY_PATH"] == (
        f"/py/lib:{inherited['LD_LIBRARY_PATH']}"
    )


def test_shared_memory_names_tell_containers_apart() -> None:
    """Process ids repeat from container to container, and one name must not begin another."""
    assert name_shm_prefix(1, "ab") != name_shm_prefix(1, "cd")
    assert not name_shm_prefix(12, "ab").startswith(name_shm_prefix(1, "ab"))


ACCESS = TritonAccess("c0ntrol", "inf3rence")
NEWER = replace(RUNTIME, knows=frozenset({CLIENT_SHM, MAX_INPUT, METRICS_ADDRESS, HISTOGRAMS}))
METRICS = replace(SOCKETS, metrics=Path("/w/metrics"))
SIZE = f"--http-max-input-size={2**40}"


@pytest.mark.parametrize(
    ("arguments", "runtime", "addresses", "said"),
    [
        ("", RUNTIME, METRICS, []),
        (
            "",
            NEWER,
            METRICS,
            ["--allow-client-shm=false", SIZE, "--metrics-config=histogram_latencies=true"],
        ),
        ("", NEWER, SOCKETS, ["--allow-client-shm=false", SIZE]),
        (
            f"--allow-client-shm=true --{MAX_INPUT}=9 --metrics-config {HISTOGRAMS}=false",
            NEWER,
            METRICS,
            ["--allow-client-shm=true", "--http-max-input-size=9", "histogram_latencies=false"],
        ),
    ],
)
def test_what_newer_ones_are_told(
    arguments: str, runtime: TritonRuntime, addresses: Addresses, said: list[str]
) -> None:
    """Only what it knows, and the operator's own words instead of ours."""
    words = build(
        {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": arguments}, runtime=runtime, addresses=addresses
    )
    assert [it for it in words.argv if re.search("client-shm|input-size|histogram", it)] == said


BOTH = (HTTP_RESTRICTED, GRPC_RESTRICTED)
STEERING = "model-repository,shared-memory,model-config,statistics,trace,logging"


def restrictions(command: TritonCommand) -> list[str]:
    return [word for word in command.argv if "-restricted-" in word]


def test_everything_but_health_is_shut() -> None:
    """Each API in one group, HTTP's inference with a secret of its own; both are to be hidden."""
    command = build(restricts=BOTH, access=ACCESS)
    assert restrictions(command) == [
        f"--http-restricted-api={STEERING},metadata:x-serve-access=c0ntrol",
        "--http-restricted-api=inference:x-serve-access=inf3rence",
        f"--grpc-restricted-protocol={STEERING},metadata,inference:access=c0ntrol",
    ]
    assert command.secrets == ("c0ntrol", "inf3rence")
    assert "c0ntrol" not in repr(command)
    assert "c0ntrol" not in repr(ACCESS)


def test_what_a_version_cannot_shut_stays_open() -> None:
    """2.36 has no such flag for HTTP, and an unknown flag would end it; no secrets shut nothing."""
    assert len(restrictions(build(restricts=(GRPC_RESTRICTED,), access=ACCESS))) == 1
    assert not restrictions(build(access=ACCESS))
    assert not restrictions(build(restricts=BOTH))


def test_grpc_that_others_in_the_container_use() -> None:
    """SAGEMAKER_TRITON_ALLOW_GRPC: models can be asked there, not steered."""
    command = build({"SAGEMAKER_TRITON_ALLOW_GRPC": "true"}, restricts=BOTH, access=ACCESS)
    assert restrictions(command)[-1] == f"--grpc-restricted-protocol={STEERING}:access=c0ntrol"


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("--http-header-forward-pattern=.*", 2),
        ("--http-header-forward-pattern x-.*", 2),
        ("--http-header-forward=(?i)X-SERVE", 2),
        ("--http-header-forward-pattern='(unclosed'", 2),
        ("--http-header-forward-pattern=^x-tenant$", 3),
        ("--http-header-forward-pattern", 2),
        ("--http-restricted-api=logging:k=v", 2),
        ("--http-restricted-api logging:k=v", 2),
        ("--grpc-restricted-protocol=logging:k=v", 3),
    ],
)
def test_arguments_of_the_operators_own(arguments: str, count: int) -> None:
    """A pattern that gives models the header leaves inference open; a flag that is set is left."""
    environment = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": arguments}
    assert len(restrictions(build(environment, restricts=BOTH, access=ACCESS))) == count


def test_models_see_a_clean_environment_where_tenants_differ() -> None:
    """In multi-model mode, unless it is set otherwise; a single model's owner is the endpoint's."""
    inherited = {"AWS_SECRET_ACCESS_KEY": "x", "SERVE_REWRITE": "auto", "HOME": "/root"}
    clean, everything = {"HOME": "/root"}, inherited
    for environment, expected in (
        ({"SAGEMAKER_MULTI_MODEL": "true"}, clean),
        ({}, everything),
        ({"SERVE_MODEL_ENVIRONMENT": "clean"}, clean),
        ({"SAGEMAKER_MULTI_MODEL": "true", "SERVE_MODEL_ENVIRONMENT": "all"}, everything),
    ):
        env = build(environment, inherited=inherited).env
        assert {key: value for key, value in env.items() if key in inherited} == expected


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
EXPORT_TIMEOUT = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"


def traced(command: TritonCommand) -> list[str]:
    """Its arguments about traces."""
    return [argument for argument in command.argv if argument.startswith("--trace")]


def test_traces() -> None:
    """Spans of what bears a context only: the rate is that of what bears none."""
    command = build(inherited=ENDPOINT, traces=True)
    assert traced(command) == [
        "--trace-config=mode=opentelemetry",
        "--trace-config=opentelemetry,url=http://c:4318/v1/traces",
        "--trace-config=rate=0",
        "--trace-config=level=TIMESTAMPS",
    ]
    assert command.env[EXPORT_TIMEOUT] == "500ms"


@pytest.mark.parametrize("variable", [EXPORT_TIMEOUT, "OTEL_EXPORTER_OTLP_TIMEOUT"])
def test_a_timeout_of_ones_own(variable: str) -> None:
    command = build(inherited={**ENDPOINT, variable: "7"}, traces=True)
    assert command.env.get(EXPORT_TIMEOUT) == ("7" if variable == EXPORT_TIMEOUT else None)


def test_no_traces() -> None:
    """Off; of a version without; with a password; and where the arguments say it themselves."""
    own = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--trace-config level=OFF"}
    with_password = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:secret@c"}
    commands = [
        build(traces=True),
        build(inherited=ENDPOINT),
        build(inherited=with_password, traces=True),
        build(own, inherited=ENDPOINT, traces=True),
    ]
    assert [traced(command) for command in commands] == [[], [], [], ["--trace-config"]]
    assert not any(EXPORT_TIMEOUT in command.env for command in commands)


THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


@pytest.mark.parametrize(
    ("environment", "inherited", "expected"),
    [
        ({"SAGEMAKER_MULTI_MODEL": "true"}, {}, ("1", "1", "1")),
        ({"SAGEMAKER_MULTI_MODEL": "true"}, {"OMP_NUM_THREADS": "3"}, ("3", "1", "1")),
        ({"SERVE_INTRA_OP_THREADS": "2"}, {}, ("2", "2", "2")),
        ({"SAGEMAKER_MULTI_MODEL": "true", "SERVE_INTRA_OP_THREADS": "0"}, {}, (None,) * 3),
        ({}, {}, (None, None, None)),
    ],
)
def test_threads_of_a_computation(
    environment: dict[str, str],
    inherited: dict[str, str],
    expected: tuple[str | None, ...],
) -> None:
    """One on a multi-model endpoint; what the container was given is left."""
    seen = build(environment, inherited=inherited).env
    assert tuple(seen.get(name) for name in THREADS) == expected
