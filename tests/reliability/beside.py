"""The hostile requests and archives, one by one, on the container and on Triton's own frontend.

    .venv/bin/python -m tests.reliability.beside [--kind archive] [--only WORDS] [--out DIR]

Each is tried with a limit of time and of memory, and a server that has died of it is started again.
It prints a row of Markdown for each, as docs/reliability.md holds them, and writes DIR/beside.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from container.constants import Constants
from tests.reliability.corpus.hostile_archives import HOSTILE_ARCHIVES, HostileArchive
from tests.reliability.corpus.hostile_requests import (
    HostileRequest,
    everything,
    hostile_requests,
)
from tests.reliability.servers import Server, frontend, shielded
from tests.reliability.wire import Answer, NoAnswer, asked, request
from tests.support import models
from tests.support.models import write_archive
from tests.support.protocol import infer
from tests.support.quick_container import told

TARGET, WITNESS = "target", "witness"
#: A request or a load that takes longer hangs.
PATIENCE_S = 60.0
#: Long before that the container's own limits end what hangs.
TIMEOUTS = {
    "SERVE_INVOKE_TIMEOUT": "10",
    "SERVE_LOAD_TIMEOUT": "10",
    **told(Constants(unload_timeout_s=10)),
}
_WITNESS_S = 60.0
_START_S = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Outcome:
    """What one server did. memory_mb: the most that it took besides what it had before."""

    server: str
    status: int
    said: str
    seconds: float
    memory_mb: float
    death: str | None
    witness: str | None

    @property
    def in_words(self) -> str:
        """A cell of the table."""
        parts = [self.death or (str(self.status) if self.status else self.said)]
        if self.seconds >= 1:
            parts.append(f"{self.seconds:.0f} s")
        if self.memory_mb >= 100:
            parts.append(f"+{self.memory_mb:,.0f} MB")
        if self.witness and not self.death:
            parts.append(f"others: {self.witness}")
        return ", ".join(parts)

    def holds(self, allowed: tuple[int, ...]) -> bool:
        """Whether nobody was hurt, and the sender answered as it should be."""
        return not self.death and not self.witness and self.status in allowed


@dataclass(frozen=True)
class Row:
    """One request or archive on every server that was asked."""

    kind: str
    name: str
    family: str
    allowed: tuple[int, ...]
    outcomes: tuple[Outcome, ...]

    def markdown(self) -> str:
        """Its line of the table."""
        allowed = " or ".join(str(one) if one else "closed" for one in self.allowed)
        cells = [self.family, self.name, allowed, *(one.in_words for one in self.outcomes)]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class Memory:
    """The most that a server has while a block lasts, in bytes, looked at every 50 ms."""

    def __init__(self, server: Server) -> None:
        self._server, self._over = server, threading.Event()
        self._first = self.most = self._now()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def grown_mb(self) -> float:
        return round((self.most - self._first) / 1e6, 1)

    def _now(self) -> int:
        return self._server.group.memory_bytes() if self._server.group.memory else 0

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            with contextlib.suppress(OSError):
                self.most = max(self.most, self._now())


class Place:
    """One server by name, alive again whenever it is asked for."""

    def __init__(self, name: str, directory: Path, limits: Mapping[str, str] = TIMEOUTS) -> None:
        self.name, self._directory, self._limits = name, directory, limits
        self._open = contextlib.ExitStack()
        self._server: Server | None = None
        self._starts = 0

    def server(self) -> Server:
        """One that has the two models and answers."""
        if self._server is None:
            self._server = self._started()
        return self._server

    def _started(self) -> Server:
        self._starts += 1
        directory = self._directory / f"{self.name}-{self._starts}"
        directory.mkdir(parents=True)
        server: Server
        if self.name == "frontend":
            server = self._open.enter_context(frontend(directory))
        else:
            server = self._open.enter_context(shielded(directory, **self._limits))
        for name, model in ((TARGET, everything()), (WITNESS, models.adder(3))):
            path = write_archive(server.archives / name / "model", {name: model})
            answer = load(server, name, path, _START_S)
            assert answer.status == 200, answer.body
        return server

    def discard(self) -> None:
        """End it; the next that is asked for is a fresh one."""
        self._server = None
        self._open.close()


def load(server: Server, name: str, directory: Path, timeout_s: float) -> Answer:
    """POST /models."""
    text = json.dumps({"model_name": name, "url": str(directory)}).encode()
    head = [("Content-Type", "application/json")]
    return asked(server.port, request("/models", text, head), timeout_s)


def unload(server: Server, name: str, timeout_s: float) -> Answer:
    """DELETE /models/{name}."""
    return asked(server.port, request(f"/models/{name}", b"", method="DELETE"), timeout_s)


def witness(server: Server) -> str | None:
    """What is wrong with another tenant's answer, and with /ping; or None."""
    text = json.dumps(infer([1.5])).encode()
    try:
        answer = asked(server.port, request(f"/models/{WITNESS}/invoke", text), _WITNESS_S)
        ping = asked(server.port, request("/ping", b"", method="GET"), _WITNESS_S, "GET")
    except NoAnswer as error:
        return error.said
    if answer.status != 200:
        return f"{answer.status}"
    if json.loads(answer.body)["outputs"][0]["data"] != [4.5]:
        return "wrong values"
    return None if ping.status == 200 else f"/ping {ping.status}"


def tried(
    place: Place, act: Callable[[Server], Answer], look: Callable[[Server], str | None] = witness
) -> Outcome:
    """Do it to the server and look at what became of it and of others; `look` tells what."""
    server = place.server()
    started = time.monotonic()
    with Memory(server) as memory:
        try:
            answer = act(server)
        except NoAnswer as error:
            answer = Answer(0, {}, error.said.encode())
        seconds = time.monotonic() - started
        hurt = look(server)
        if hurt or answer.status not in range(200, 500):
            time.sleep(4 * _LOOK_S)  # a process that is dying is not dead at once
    said = answer.body[:300].decode(errors="replace")
    outcome = Outcome(
        place.name, answer.status, said, round(seconds, 2), memory.grown_mb, server.death(), hurt
    )
    if outcome.death or outcome.witness or not outcome.status:
        place.discard()  # what hangs in it must not be the next one's fault
    return outcome


def try_request(place: Place, hostile: HostileRequest) -> Outcome:
    """Send it to the model TARGET."""

    def act(server: Server) -> Answer:
        made = hostile.make(f"/models/{TARGET}/invoke")
        return asked(server.port, made, PATIENCE_S)

    return tried(place, act)


def try_archive(place: Place, hostile: HostileArchive) -> Outcome:
    """Load it, and unload it when it was; `said` tells of a marker or a secret that came out."""
    number = HOSTILE_ARCHIVES.index(hostile)

    def act(server: Server) -> Answer:
        directory = server.archives / f"h{number}" / "model"
        marker = server.archives / f"h{number}" / "marker"
        if not directory.exists():
            directory.mkdir(parents=True)
            hostile.write(directory, marker)
        try:
            answer = load(server, f"h{number}", directory, PATIENCE_S)
        except NoAnswer as error:
            answer = Answer(0, {}, error.said.encode())
        if answer.status == 200:
            unload(server, f"h{number}", PATIENCE_S)
        return _betrayed(hostile, answer, marker)

    return tried(place, act, lambda server: witness(server) or _loads_hurt(server))


def _loads_hurt(server: Server) -> str | None:
    """What is wrong with the load and unload of another tenant's model, or None."""
    path = server.archives / "beside" / "model"
    if not path.exists():
        write_archive(path, {"beside": models.identity})
    try:
        answers = [load(server, "beside", path, PATIENCE_S), unload(server, "beside", PATIENCE_S)]
    except NoAnswer as error:
        return f"loads hang ({error.said})"
    statuses = [answer.status for answer in answers]
    return None if statuses == [200, 200] else f"loads fail ({statuses[0]}, {statuses[1]})"


def _betrayed(hostile: HostileArchive, answer: Answer, marker: Path) -> Answer:
    if hostile.marks and marker.exists():
        return Answer(0, {}, b"its code was run")
    if hostile.secret and hostile.secret.encode() in answer.body:
        return Answer(0, {}, b"the answer holds the environment")
    return answer


def rows(places: list[Place], only: str, kind: str | None) -> Iterator[Row]:
    """One after another; each on every server."""
    for hostile in hostile_requests() if kind != "archive" else ():
        if only in hostile.name:
            found = tuple(try_request(place, hostile) for place in places)
            yield Row("request", hostile.name, hostile.family, hostile.allowed, found)
    for archive in HOSTILE_ARCHIVES if kind != "request" else ():
        if only in archive.name:
            found = tuple(try_archive(place, archive) for place in places)
            yield Row("archive", archive.name, "archive", archive.allowed, found)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=("request", "archive"), help="of these alone")
    parser.add_argument("--only", default="", help="those whose name holds this")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "reliability")
    parser.add_argument(
        "--servers", default="container,frontend", help="container, frontend, or both by a comma"
    )
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.servers.split(",")
    print("| what | sent | allowed | " + " | ".join(names) + " |")
    print("|---|---|---" + "|---" * len(names) + "|")
    with tempfile.TemporaryDirectory(prefix="beside-") as work:
        found = _all(names, Path(work), arguments.only, arguments.kind)
    kept = [asdict(row) for row in found]
    (arguments.out / "beside.json").write_text(json.dumps(kept, indent=1))
    bad = [
        row
        for row in found
        for one in row.outcomes
        if one.server == "container" and not one.holds(row.allowed)
    ]
    print(f"\n{len(found)} tried; {len(bad)} of them hurt the container or were answered wrongly")
    return 1 if bad else 0


def _all(names: list[str], work: Path, only: str, kind: str | None) -> list[Row]:
    places = [Place(name, work) for name in names]
    found = []
    try:
        for row in rows(places, only, kind):
            print(row.markdown(), flush=True)
            found.append(row)
    finally:
        for place in places:
            place.discard()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
