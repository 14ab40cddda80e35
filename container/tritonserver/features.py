"""Finds a tritonserver's features by the words in its files.

It tells its version only when it runs; asking its program (`--help`) takes 0.1 s, and a file is
searched in 10 to 20 ms. A program that is a script around tritonserver has no words, and so none of
these flags.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Mapping
from pathlib import Path

WHEEL_LIBRARIES = "nvidia_pytriton.libs"  # under site-packages, beside pytriton

#: Flags that shut APIs: over HTTP from 2.40 on (server r23.11, src/command_line_parser.cc), over
#: gRPC from 2.33 at the latest.
HTTP_RESTRICTED, GRPC_RESTRICTED = "http-restricted-api", "grpc-restricted-protocol"
#: Where metrics are listened for, apart from HTTP: from 2.34 on (server r23.05).
METRICS_ADDRESS = "metrics-address"
#: The flag that lets callers name regions of shared memory, from 26.04 on.
CLIENT_SHM = "allow-client-shm"
#: The flag that says how large a request may be; from 25.06 on, which has a limit of 64 MB.
MAX_INPUT = "http-max-input-size"
#: The header that a tritonserver reads whose spans are of its caller's trace (2.51 does; 2.36 knows
#: the mode and sends nothing).
TRACEPARENT = "traceparent"
#: A setting of `--metrics-config`, which tritonserver's library knows from 24.12 on; from 26.01 on
#: it is about models that are not decoupled, too (core d261b8d).
HISTOGRAMS = "histogram_latencies"
#: It takes `backends/<name>/model.py` for a backend (2.39 and up). Its library then has the first
#: words up to 2.41 (core r23.10 to r23.12, src/backend_model.cc), the others since (2.51 has both,
#: 2.36 none).
PYTHON_BASED = "Python-based backends"
#: Each region in /dev/shm has a name of its own (2.45, python_backend r24.04). Before, the Python
#: backend and each Python-based one count theirs from 0 under the prefix that the config of
#: `python` says, whatever their own says: one model takes another's region, and tritonserver aborts
#: (tried on 2.39, 2.41, 2.42 and 2.44).
OWN_REGIONS = "regions with names of their own"

_FLAGS = (
    HTTP_RESTRICTED,
    GRPC_RESTRICTED,
    METRICS_ADDRESS,
    CLIENT_SHM,
    MAX_INPUT,
    TRACEPARENT,
)
#: The words that tell each, by the file that has them.
_IN_PROGRAM: Mapping[str, bytes] = {flag: flag.encode() for flag in _FLAGS}
_IN_LIBRARY: Mapping[str, bytes] = {
    HISTOGRAMS: HISTOGRAMS.encode(),
    PYTHON_BASED: rb"requires python backend to operate|PythonBasedBackend"
    rb"|Python backend based backend",
}
_IN_BACKEND: Mapping[str, bytes] = {OWN_REGIONS: rb"boost5uuids|GenerateUUID"}


def find_features(executable: Path, but: Collection[str] = ()) -> frozenset[str]:
    """The features that this tritonserver has; but: those that nobody asks for."""
    root = executable.parent.parent
    wheel, image = root.parent.parent / WHEEL_LIBRARIES, root / "lib"
    library = [*wheel.glob("libtritonserver*.so*"), *image.glob("libtritonserver*.so*")]
    python_backend = [root / "backends/python/libtriton_python.so"]
    searches = ([executable], _IN_PROGRAM), (library, _IN_LIBRARY), (python_backend, _IN_BACKEND)
    return frozenset(
        feature
        for files, patterns in searches
        for feature, pattern in patterns.items()
        if feature not in but and any(_contains(file, pattern) for file in files)
    )


def _contains(path: Path, pattern: bytes) -> bool:
    if not path.is_file() or path.stat().st_size == 0:  # mmap refuses an empty file
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return re.search(pattern, content) is not None
