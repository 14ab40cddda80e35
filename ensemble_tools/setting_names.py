"""The container's settings that messages of several programs name, and those that it had once."""

from __future__ import annotations

from collections.abc import Mapping

REWRITE, AUTO_COMPLETE, PICKLES = "SERVE_REWRITE", "SERVE_AUTO_COMPLETE", "SERVE_PICKLES"
#: What serves a graph that no ensemble can express.
EXECUTOR_REMEDY = f"{REWRITE}=auto serves the executor itself"
_RESTARTS = "3 deaths of tritonserver within 60 s are healed, and one more ends the container"
_WAITING = (
    "SERVE_MAX_WAITING_TOTAL_MB bounds what is held for all models, and a quarter of it what is"
    " held for one; 1,000 requests of a model may wait, 4,000 of all"
)
#: What holds in the place of each that was a setting once.
FORMER_SETTINGS: Mapping[str, str] = {
    "SERVE_COMPILE_CHECK": "no load compares a compiled workflow with NVTabular; `python -m"
    " ensemble_tools verify` does so before an archive is shipped",
    "SERVE_WORK_DIR": "files are written under TMPDIR, or /tmp",
    "SERVE_START_TIMEOUT": "tritonserver has 120 s to become live, with GPUs 300 s",
    "SERVE_UNLOAD_TIMEOUT": "an unload has 350 s",
    "SERVE_READ_TIMEOUT": "a request has 30 s to arrive whole",
    "SERVE_RESTART_LIMIT": _RESTARTS,
    "SERVE_RESTART_WINDOW": _RESTARTS,
    "SERVE_UNHEALTHY_AFTER": "`/ping` answers 503 when for 120 s no lost model could be loaded"
    " again",
    "SERVE_MAX_INSTANCES": "a model may have 16 instances, or as many as there are CPUs",
    "SERVE_MAX_CONNECTIONS": "callers may have half of the descriptors, at most 10,000; a higher"
    " limit of descriptors (`ulimit -n`) gives more connections",
    "SERVE_MAX_WAITING": _WAITING,
    "SERVE_MAX_WAITING_MB": _WAITING,
    "SERVE_MAX_WAITING_TOTAL": _WAITING,
    "SERVE_METRICS_PATH": "the metrics are at /metrics, where SageMaker reads them",
    "SERVE_SHUTDOWN_TIMEOUT": "after SIGTERM requests in flight have 12 s, and tritonserver 6 s to"
    " end; the platform kills after 30",
    "SERVE_PYTHON_THREADS": "8 threads carry out a Python model's calls to others",
}
