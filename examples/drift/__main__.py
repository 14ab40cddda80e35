"""A catalogue that changes at noon: what one sees of it, and the new archive before it is used.

    .venv/bin/python -m examples.drift [--picture FILE]

Two shops share an endpoint of this machine. At noon the items that shop b shows most are new ones.
The container has counted both shops' items and captured all requests: `drift` says which shop's
model no longer knows what it is asked. A new archive is fitted, and another by mistake; `compare`
asks the old one and each of them what visitors asked that day. The one that may take over does.
Exit code 0 only if the counts are those of the visits, to the item, the mistake is refused, and
the new archive drifts nowhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from examples.story import ROOT, Endpoint, ask_models_python, endpoint, pack, run, step, tell

OLD, NEW = "shop-b/1.tar.gz", "shop-b/2.tar.gz"
#: Of the afternoon's items OLD knows half, and only those have an order that both know.
BOUND = "kendall=0.3"
_TOOLS = (sys.executable, "-m", "ensemble_tools")
_COMMAND_S = 180.0
#: Rows are counted behind the answers.
_COUNTED_S = 30.0
#: compare's, where NEW may not take OLD's place; and its lines that are shown.
_NOT_WITHIN = 3
_SHOWN = ("NEW", "measure", "overlap@5", "kendall", "WITHIN", "NOT WITHIN", "    ")

#: A shop's visits: "morning" and "afternoon", with "requests" and how many items are "unknown".
Visits = Mapping[str, Mapping[str, Any]]


def story(picture: Path | None, scratch: Path) -> bool:
    """Whether counts, refusal and switch are as they should be."""
    exports, archives = scratch / "exports", scratch / "archives"
    captured = scratch / "captured"
    archives.mkdir()
    os.environ.update(SERVE_CAPTURE=str(captured), SERVE_METRIC_DIMENSIONS="Endpoint=shops")
    with step("two shops' models are fitted by NVTabular and Merlin"):
        ask_models_python("examples.drift.export", exports)
    visits: dict[str, Visits] = json.loads((exports / "visits.json").read_text("utf-8"))
    for shop in visits:
        pack(exports / shop, archives / shop / "1.tar.gz")
    with endpoint(archives, scratch) as running:
        with step("visitors ask in the morning"):
            _visit(running, visits, "morning", OLD)
        morning = _look(running, visits, scratch / "morning.json")
        with step("shop b changes its catalogue, and visitors ask in the afternoon"):
            _visit(running, visits, "afternoon", OLD)
        options: list[str | Path] = ["--since", scratch / "morning.json"]
        if picture is not None:
            options += ["--html", picture]
        afternoon = _look(running, visits, scratch / "afternoon.json", *options)
    good = _judge_counts(visits, morning, afternoon)
    with step("both new archives are compared with the old one, by what was captured"):
        requests = captured / "shops/AllTraffic" / OLD
        compare = partial(_compare, exports / "shop-b", requests)
        with ThreadPoolExecutor() as pool:
            compared = [*pool.map(compare, (exports / "shop-b-mixed", exports / "shop-b-noon"))]
    for done in compared:
        _print_indented(line for line in done.stdout.splitlines() if line.startswith(_SHOWN))
        if done.returncode not in (0, _NOT_WITHIN):
            _print_indented(done.stderr.splitlines())
    good &= [done.returncode for done in compared] == [_NOT_WITHIN, 0]
    pack(exports / "shop-b-noon", archives / NEW)
    (scratch / "tomorrow").mkdir()
    with endpoint(archives, scratch / "tomorrow") as running:
        with step(f"callers of shop b name {NEW}"):
            _visit(running, visits, "afternoon", NEW)
        tomorrow = _look(running, visits, scratch / "tomorrow.json")
    good &= {*_read_severities(tomorrow).values()} == {"stable"}
    print("Seen, proved, switched." if good else "It did NOT go as it should.")
    return good


def _visit(running: Endpoint, visits: Mapping[str, Visits], when: str, target: str) -> None:
    """Every visitor asks; target: the archive of shop b."""
    for shop, of_day in visits.items():
        for request in of_day[when]["requests"]:
            archive = target if target.startswith(shop) else f"{shop}/1.tar.gz"
            running.invoke(archive, json.dumps(request).encode())


def _look(
    running: Endpoint, visits: Mapping[str, Visits], file: Path, *options: str | Path
) -> dict[str, Any]:
    """What `drift` says of the container once all rows are counted: its first table; all as JSON,
    by archive.
    """
    (instance,) = running.state()["instances"]
    rows = sum(map(_count_rows, visits["shop-a"]["morning"]["requests"]))
    deadline = time.monotonic() + _COUNTED_S
    while True:
        said = run([*_TOOLS, "drift", instance["url"], "--json", file, *options], _COMMAND_S)
        models = json.loads(file.read_text("utf-8"))["models"]
        if all(it["values"] == rows for model in models for it in _list_columns(model)):
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"not all rows were counted within {_COUNTED_S:g} s:\n{said}")
    _print_indented(takewhile(bool, said.splitlines()))
    return {model["target_model"]: model for model in models}


def _count_rows(request: Mapping[str, Any]) -> int:
    return int(request["inputs"][0]["shape"][0])


def _list_columns(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The counts of a model's only workflow."""
    (columns,) = model["workflows"].values()
    return [*columns]


def _print_indented(lines: Iterable[str]) -> None:
    print("".join(f"    {line}\n" for line in lines), end="", flush=True)


def _judge_counts(
    visits: Mapping[str, Visits], morning: dict[str, Any], afternoon: dict[str, Any]
) -> bool:
    """The unseen items are those of the visits; shop b alone drifts, and after noon alone."""
    for when, models in (("morning", morning), ("afternoon", afternoon)):
        for shop, of_day in visits.items():
            model = models[f"{shop}/1.tar.gz"]
            (unseen,) = (it["unseen"] for it in _list_columns(model) if it["column"] == "item_id")
            expected = of_day[when]["unknown"]
            print(f"  {shop}, {when}: {unseen} items unseen, and {expected} were unknown")
            if unseen != expected:
                return False
    severities = _read_severities(afternoon)
    return {*_read_severities(morning).values()} == {severities["shop-a/1.tar.gz"]} == {
        "stable"
    } and severities[OLD] == "large"


def _read_severities(models: Mapping[str, Any]) -> dict[str, str]:
    """Of each archive that of its worst column."""
    return {target: model["drift"][0]["severity"] for target, model in models.items()}


def _compare(old: Path, requests: Path, new: Path) -> subprocess.CompletedProcess[str]:
    """What `compare` says of the new archive."""
    options = ("--requests", requests, "--k", "5", "--at-least", BOUND, "--skip-timing")
    return subprocess.run(
        [*_TOOLS, "compare", old, new, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="write the page of the afternoon's drift there"
    )
    options = parser.parse_args()
    return tell(partial(story, options.picture and options.picture.absolute()))


if __name__ == "__main__":
    sys.exit(main())
