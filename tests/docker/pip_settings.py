"""Where pip finds packages on this machine, as a build in a container can use it too.

Folders of this machine are not seen in a build; they are served to it over the loopback.
Standard library only (see engine.py).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

#: pip's names of what the Dockerfile takes as build arguments.
_PLACES = ("index-url", "extra-index-url", "find-links")
#: The builder's cache goes by the arguments' values: the same folder gets the same port again,
#: unless somebody has it. Below the range that Linux gives out by itself (32768 and up).
_FIRST_PORT, _PORTS = 20000, 10000


def certificates() -> Path | None:
    """The file of certificates that pip is told to trust instead of its own."""
    named = _told().get("cert")
    return Path(named) if named else None


@contextlib.contextmanager
def build_arguments() -> Iterator[dict[str, str]]:
    """PIP_... for docker build with the host's network; folders are served as long as it lasts."""
    told = _told()
    with contextlib.ExitStack() as serving:
        yield {
            f"PIP_{name.upper().replace('-', '_')}": " ".join(
                _reachable(place, name == "find-links", serving) for place in told[name].split()
            )
            for name in _PLACES
            if told.get(name)
        }


def _told() -> Mapping[str, str]:
    """pip's settings, the environment's before the files'."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    told: dict[str, str] = {}
    for line in sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        told[name.rpartition(".")[2]] = value.strip("'\"").replace("\\n", " ")
    return told


def _reachable(url_or_path: str, is_folder: bool, serving: contextlib.ExitStack) -> str:
    url = urlsplit(url_or_path)
    if url.scheme not in ("", "file"):
        return url_or_path
    folder = Path(url.path)
    # An index of files refers to packages beside it.
    root = folder if is_folder else folder.parent
    port = serving.enter_context(_served(root))
    return f"http://127.0.0.1:{port}/{folder.relative_to(root)}/".replace("/./", "/")


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[int]:
    handler = functools.partial(_Quiet, directory=str(folder))
    server = _bound(_usual_port(folder), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def _usual_port(folder: Path) -> int:
    digest = hashlib.sha256(str(folder).encode()).digest()
    return _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS


def _bound(port: int, handler: functools.partial[_Quiet]) -> http.server.ThreadingHTTPServer:
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:  # taken: any other one, and nothing comes from the cache
        return http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *arguments: object) -> None:
        """The base class would write each request to the terminal."""
