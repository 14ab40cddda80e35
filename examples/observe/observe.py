"""Prometheus beside a local endpoint of two containers: what it counts is what was asked.

    python -m examples.observe.observe --picture metrics.png

Starts the endpoint (python -m simulator up) and Debian's prometheus with this folder's files,
replays traffic on archives that do not fit into memory together, and compares three counts of the
invocations by target model and status: Prometheus', the containers' own pages', and the callers'.
Exit code 0 only if they agree to the request. It takes a minute and three quarters.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from examples.observe.counts import agree, count_report, count_series, write_table
from examples.observe.endpoint import (
    INSTANCES,
    make_archives,
    replay,
    running_endpoint,
    send_faulty,
)
from examples.observe.prometheus import (
    Prometheus,
    find_prometheus,
    running_prometheus,
    write_files,
)
from examples.observe.relay import COUNTER, Pages, relaying
from merlin_simulator.addresses import find_free_port

#: For Prometheus to find the containers, or to ask them once more.
_SCRAPED_S = 60.0
#: A model that has left has no series any more: its last value of the whole run is counted.
_QUERY = f"sum by (target_model, code) (max_over_time({COUNTER}[%ds]))"


def main() -> int:
    """Run the example."""
    options = _parser().parse_args()
    program = find_prometheus()
    with tempfile.TemporaryDirectory(prefix="observe-") as name:
        scratch = Path(name)
        archives, work, report = (scratch / one for one in ("archives", "endpoint", "report"))
        work.mkdir()
        make_archives(archives, options.models)
        pages, port = Pages(), options.port or find_free_port()
        with (
            running_endpoint(archives, work, port, *_rules(options)) as url,
            relaying(pages) as proxy,
            running_prometheus(
                program, write_files(scratch, url, options.scrape_every, proxy)
            ) as prometheus,
        ):
            print(f"endpoint: {url}/   Prometheus: {prometheus.url}/graph", flush=True)
            return _observe(options, url, prometheus, pages, report)


def _rules(options: argparse.Namespace) -> list[str]:
    """What `simulator up` is told of memory and loads."""
    words = ["--memory", options.memory]
    if options.loads_at_once is not None:
        words += ["--loads-at-once", str(options.loads_at_once)]
    return words


def _observe(
    options: argparse.Namespace, url: str, prometheus: Prometheus, pages: Pages, report: Path
) -> int:
    began = time.time()
    _wait_for_scrapes(prometheus, began)
    found = replay(url, options.models, options.rps, options.seconds, report)
    popular = [model["target_model"] for model in found["models"][:2]]
    faulty, faulty_refused = send_faulty(url, popular)
    # An answer is counted when it was written, which may be a moment after it was read.
    time.sleep(0.5)
    _wait_for_scrapes(prometheus, time.time())
    if options.picture:
        from examples.observe.picture import draw  # only here: matplotlib takes a second to import

        draw(prometheus, began, time.time(), options.picture)
    replayed, refused = count_report(found)
    seconds = int(time.time() - began) + 60
    counted = count_series(prometheus.query(_QUERY % seconds))
    three = counted, pages.counts(), replayed + faulty
    print(write_table(*three))
    print(
        f"{found['loading']['evictions']} evictions; {pages.read} pages of {INSTANCES} containers; "
        f"refused by the platform, which asked no container: {refused + faulty_refused}"
    )
    good = agree(*three)
    print("The three counts agree." if good else "The three counts DIFFER.", flush=True)
    if options.keep:
        _until(lambda: False, float("inf"), "")
    return 0 if good else 1


def _wait_for_scrapes(prometheus: Prometheus, since: float) -> None:
    """Every container has been asked by Prometheus after that time, and has answered."""

    def scraped() -> bool:
        found = prometheus.query("timestamp(serve_build_info)")
        return sum(float(one["value"][1]) > since for one in found) == INSTANCES

    _until(scraped, _SCRAPED_S, "Prometheus does not see every container; is /metrics there?")


def _until(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.observe.observe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--models", type=int, default=24, metavar="N", help="archives (default: %(default)s)")
    add("--rps", type=float, default=6, help="requests a second (default: %(default)s)")
    add("--seconds", type=float, default=75, help="of traffic (default: %(default)s)")
    add(
        "--memory",
        default="240MB",
        metavar="SIZE",
        help="of each container; too little for all archives, so that models leave "
        "(default: %(default)s)",
    )
    add(
        "--loads-at-once",
        type=int,
        metavar="N",
        help="loads that a container does at the same time (default: `simulator up`'s)",
    )
    add(
        "--scrape-every",
        type=int,
        default=2,
        metavar="SECONDS",
        help="between two scrapes (default: %(default)s)",
    )
    add(
        "--port",
        type=int,
        default=0,
        help="of the endpoint and its page (default: a free one)",
    )
    add("--picture", type=Path, metavar="FILE", help="draw the dashboard's panels (PNG)")
    add("--keep", action="store_true", help="leave everything running until Ctrl-C, to look at it")
    return parser


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # what shells say after Ctrl-C
