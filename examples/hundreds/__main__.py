"""Hundreds of text models on one endpoint that scales with its traffic, and back.

    .venv/bin/python -m examples.hundreds [--models N] [--seconds S]

Makes N small classifiers with weights of their own, puts them into S3, and brings up a multi-model
endpoint with autoscaling by `python -m deploy up`, all of it on this machine's control plane, where
a minute takes 0.8 s. Callers ask by a Zipf law: few at night, many at noon. Instances come and go;
none has memory for all models. Every answer is compared with torch's own, to the last bit. Exit
code 0 only if all are equal, no request failed, models had to leave, and the endpoint grew and was
small again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from examples.autoscaling_day import Platform
from examples.control_plane import INSTANCE_TYPE, control_plane, deploy, upload, write_config
from examples.hundreds.day import Day, count_instances, make_day, write_median, write_table
from examples.hundreds.traffic import Callers, Phase
from examples.story import ask_models_python, pack, step, tell
from merlin_simulator.replay.observing import Observer

NAME, VARIANT = "texts", "AllTraffic"
MODELS, SECONDS, ZIPF, SEED = 200, 20.0, 1.2, 20
#: An instance takes 210 MB with torch, and 31 MB more for each model; models leave above 90 %.
MEMORY = "600MB"
#: Seconds of the platform that pass in one: a minute takes 0.8 s.
SCALE = 75.0
#: Instances at most, and what one of them is for, in a minute of the platform.
MOST, TARGET = 3, 2
#: Requests a second. At night less than 90 % of the target, and one in each minute: without any,
#: CloudWatch has no data, and nothing is scaled in. At noon enough for three instances.
NIGHT, NOON = 1.5, 9.0
#: Of the models the most popular ones, whose customers are awake at night.
AWAKE = 10
_NOON_MOST_S, _NIGHT_MOST_S = 45.0, 90.0
_AUTOSCALING = f"""\
[autoscaling]
min = 1
max = %d
invocations_per_instance = {TARGET}
scale_out_cooldown = 60
scale_in_cooldown = 60
"""
_ROWS = 10
_HEARD_S = 20.0


@dataclass(frozen=True)
class Size:
    """Of a story. memory: of an instance; most: instances."""

    models: int
    seconds: float
    memory: str
    most: int


def story(size: Size, scratch: Path) -> bool:
    """Whether all went as it should: answers, evictions, instances."""
    models, count = size.models, str(size.models)
    with step(f"{models} classifiers are traced, and torch itself is asked"):
        ask_models_python("examples.hundreds.export", scratch / "exports", "--count", count)
    with step("they are packed"):
        archives = _pack(scratch / "exports", scratch / "archives")
    options = ("--time-scale", str(SCALE), "--memory-of", f"{INSTANCE_TYPE}={size.memory}")
    with control_plane(scratch, *options) as url:
        with step("and put into S3"):
            upload(NAME, archives)
        with step("python -m deploy up CONFIG.toml"):
            deploy("up", write_config(scratch, NAME, _AUTOSCALING % size.most))
        expected = json.loads((scratch / "exports/expected.json").read_text("utf-8"))
        callers = Callers(
            NAME, {f"{name}/1.tar.gz": it for name, it in expected.items()}, ZIPF, SEED
        )
        day = asyncio.run(_spend(url, callers, size))
        _print_day(day, callers, models)
        _print_scaling()
    return _judge(day, callers)


def _pack(exports: Path, archives: Path) -> dict[str, Path]:
    """Target model → archive, checked as the container will."""
    made: dict[str, Path] = {}
    for export in sorted(exports.glob("tenant-*")):
        made[f"{export.name}/1.tar.gz"] = archives / f"{export.name}.tar.gz"
        pack(export, made[f"{export.name}/1.tar.gz"])
    return made


async def _spend(url: str, callers: Callers, size: Size) -> Day:
    """Night, noon until all instances are there, and night until one is left."""
    observer = Observer(url, NAME)
    await observer.begin()

    def counts(wanted: int) -> bool:
        return count_instances(observer.looks[-1]) == wanted

    part = size.seconds / 8
    phases = (
        Phase(NIGHT, AWAKE, part, part, lambda: True),
        Phase(NOON, None, 4 * part, 4 * part + _NOON_MOST_S, lambda: counts(size.most)),
        Phase(NIGHT, AWAKE, 3 * part, 3 * part + _NIGHT_MOST_S, lambda: counts(1)),
    )
    try:
        began = time.time()
        await callers.spend(phases)
        heard = await observer.heard_of([it.request_id for it in callers.asked], _HEARD_S)
    finally:
        await observer.close()
    if not heard or observer.missed:
        raise SystemExit("the endpoint did not tell the end of every request")
    return make_day(callers.asked, observer, began, callers.now())


def _print_day(day: Day, callers: Callers, models: int) -> None:
    print(f"a minute of the platform is {60 / SCALE:.2g} s here")
    for line in write_table(day, _ROWS):
        print(line)
    cold, warm = day.took(cold=True), day.took(cold=False)
    asked = len(callers.targets_asked)
    print(f"{len(day.asked)} answers of {asked} of {models} models, {len(callers.failed)} failed")
    print(f"hit ratio {day.hit_ratio():.0%}, {len(day.evicted_at)} evictions")
    print(f"cold: {len(cold)} requests, p50 {write_median(cold)}")
    print(f"warm: {len(warm)} requests, p50 {write_median(warm)}")
    for words in sorted(set(callers.failed))[:5]:
        print(f"failed: {words}")


def _print_scaling() -> None:
    """What Application Auto Scaling says that it did."""
    platform = Platform(NAME, VARIANT)
    for activity in platform.activities():
        print(f"  {activity['StatusCode']}: {activity['Description']}")


def _judge(day: Day, callers: Callers) -> bool:
    counts = day.instances()
    print(f"instances: {' → '.join(map(str, counts))}")
    same = all(it.same for it in day.asked)
    print("All answers are torch's own, to the last bit." if same else "The answers DIFFER.")
    grew = max(counts) > 1 and counts[0] == counts[-1] == 1
    if not grew:
        print("The endpoint did not grow and become small again, as it should.")
    if not day.evicted_at:
        print("No model had to leave: the story is one of --memory for fewer models.")
    return same and grew and not callers.failed and len(day.evicted_at) > 0


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.hundreds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--models", type=int, default=MODELS, metavar="N", help="tenants (%(default)s)")
    add("--seconds", type=float, default=SECONDS, metavar="S", help="of traffic (%(default)s)")
    add("--instances", type=int, default=MOST, metavar="N", help="at most (%(default)s)")
    add("--memory", default=MEMORY, metavar="SIZE", help="of an instance (%(default)s)")
    options = parser.parse_args()
    size = Size(options.models, options.seconds, options.memory, options.instances)
    return tell(partial(story, size))


if __name__ == "__main__":
    sys.exit(main())
