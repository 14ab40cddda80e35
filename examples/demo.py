"""make demo: two real Merlin exports behind one multi-model endpoint, on this machine.

Plays SageMaker's part by hand: puts extracted archives where the platform puts them, starts the
container's process, loads, invokes, unloads, stops. Exit code 0 only if every number agrees.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPORTS = ROOT / "examples" / "merlin"
#: The executor's own answers are float32; a sum in another order may differ in the last digits.
TOLERANCE = 1e-6
START_S, LOAD_S, STOP_S = 60, 300, 30


def main() -> int:
    """Run the demonstration."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.exports) - set(_known()):
        parser.error(
            f"no such export: {', '.join(sorted(unknown))}; there are {', '.join(_known())}"
        )
    with tempfile.TemporaryDirectory(prefix="merlin-demo-") as scratch:
        models = {name: _deliver(name, Path(scratch) / "models") for name in options.exports}
        log = Path(scratch) / "container.log"
        with _container(Path(scratch) / "models", log) as port:
            good = _tour(port, models)
        if not good:
            print(log.read_text()[-4000:])
    same = (
        f"All numbers are Merlin's own, to {TOLERANCE:g} of each (float32 sums depend on the CPU)."
    )
    print(f"\n{same if good else 'The numbers differ.'}", flush=True)
    return 0 if good else 1


def _tour(port: int, models: dict[str, Path]) -> bool:
    for name, directory in models.items():
        with _step(f"POST /models  {name}"):
            _call(port, "POST", "/models", {"model_name": name, "url": str(directory)})
    _show_listing(port)
    for name, directory in models.items():
        _show_ensemble(name, directory)
    agreed = [_invoke(port, name) for name in models]
    print()
    for name in models:
        with _step(f"DELETE /models/{name}"):
            _call(port, "DELETE", f"/models/{name}")
    _show_listing(port)
    return all(agreed)


def _deliver(name: str, root: Path) -> Path:
    """Put an export where SageMaker puts an extracted archive: <root>/<hash>/model."""
    directory = root / hashlib.sha256(name.encode()).hexdigest()[:16] / "model"
    shutil.copytree(EXPORTS / name / "repository", directory)
    return directory


@contextmanager
def _container(models: Path, log: Path) -> Iterator[int]:
    """The container's process, as `docker run IMAGE serve` would start it; yields its port."""
    port = _free_port()
    environment = {
        **os.environ,
        "SAGEMAKER_MULTI_MODEL": "true",
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SERVE_BIND_ADDRESS": "127.0.0.1",
        "SERVE_MODEL_ROOT": str(models),
    }
    command = [sys.executable, "-m", "container", "serve"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with _step("starting the container (python -m container serve)"):
            _until_healthy(port, process, log)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            with _step("SIGTERM"):
                process.wait(STOP_S)
        finally:  # who reads the output may have gone
            _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until_healthy(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if _request(port, "GET", "/ping", None)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"the container did not start:\n{log.read_text()[-4000:]}")


def _show_listing(port: int) -> None:
    listed = [model["modelName"] for model in json.loads(_call(port, "GET", "/models"))["models"]]
    print(f"      GET /models → {listed}")


def _show_ensemble(name: str, directory: Path) -> None:
    print(f"\n{name}: what Merlin exported, and the Triton ensemble it became")
    explained = subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "explain", directory, "--model-name", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    for line in explained.splitlines()[1:]:
        print(f"      {line}".rstrip())


def _invoke(port: int, name: str) -> bool:
    request = json.loads((EXPORTS / name / "request.json").read_text())
    expected = json.loads((EXPORTS / name / "expected.json").read_text())["outputs"]
    answer = json.loads(_call(port, "POST", f"/models/{name}/invoke", request))
    got = {output["name"]: output for output in answer["outputs"]}
    print(f"\nPOST /models/{name}/invoke")
    agreed = [_compare(want, got[want["name"]]) for want in expected]
    return all(agreed)


def _compare(want: dict[str, Any], got: dict[str, Any]) -> bool:
    same = want["shape"] == got["shape"] and want["datatype"] == got["datatype"]
    print(f"      {want['name']}  {got['datatype']} {got['shape']}")
    print(f"      {'answer':>16}  {'Merlin, offline':>16}")
    pairs = list(zip(got["data"], want["data"], strict=True))
    for answered, computed in pairs[:8]:
        print(f"      {answered:16.9g}  {computed:16.9g}")
    if len(pairs) > 8:
        print(f"      … and {len(pairs) - 8} more")
    worst = max((abs(a - b) / max(abs(b), 1e-12) for a, b in pairs), default=0.0)
    print(f"      largest relative difference: {worst:.1e}")
    return same and worst <= TOLERANCE


def _call(port: int, method: str, path: str, body: object = None) -> bytes:
    status, answer = _request(port, method, path, body)
    if status != 200:
        raise SystemExit(f"{method} {path} was answered {status}: {answer.decode()}")
    return answer


def _request(port: int, method: str, path: str, body: object) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LOAD_S)
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    except BrokenPipeError as error:
        raise SystemExit(f"{method} {path}: the container is gone") from error
    finally:
        connection.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"  {what} …", end=" ", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.2f} s")


def _known() -> list[str]:
    return sorted(path.parent.name for path in EXPORTS.glob("*/request.json"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "exports",
        nargs="*",
        default=["dense", "session"],
        metavar="EXPORT",
        help=f"which to load: {', '.join(_known())} (default: dense session)",
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # who read the output had seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
