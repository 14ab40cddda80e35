"""A day's traffic at an endpoint that scales by target tracking: boto3, and nothing else of AWS.

    AWS_ENDPOINT_URL=http://127.0.0.1:8090 python examples/autoscaling_day.py shop \
        --target-model dense.tar.gz --body request.json --seconds 300 --picture day.png

The traffic is a wave: little at night, at noon what --most instances are for. How long the day is
on the platform, its clock says: with `serve --time-scale 288` five minutes are 24 hours.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

#: Of what the instances at noon are for, what is sent at noon and at night.
NOON, NIGHT = 0.9, 0.05
CALLERS = 32


@dataclass
class Day:
    """What happened. Times are hours of the platform since the day's begin."""

    sent: Counter[int] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    instances: list[tuple[float, int, int]] = field(default_factory=list)


class Platform:
    """The endpoint, its scaling, and the time there."""

    def __init__(self, endpoint: str, variant: str) -> None:
        config = Config(max_pool_connections=CALLERS)
        self.sagemaker = boto3.client("sagemaker")
        self.runtime = boto3.client("sagemaker-runtime", config=config)
        self.scaling = boto3.client("application-autoscaling")
        self.endpoint, self.variant = endpoint, variant
        self.scaled = {
            "ServiceNamespace": "sagemaker",
            "ResourceId": f"endpoint/{endpoint}/variant/{variant}",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        }
        clock = self._clock()
        self.scale, self._ahead = clock["scale"], clock["now"] - time.time() * clock["scale"]
        self.began = self.now()

    def now(self) -> float:
        """Seconds since the epoch on the platform."""
        return time.time() * self.scale + self._ahead

    def hours(self) -> float:
        """Since the begin."""
        return (self.now() - self.began) / 3600

    def track(self, most: int, target: float) -> None:
        """Between 1 and most instances, each with that many invocations a minute."""
        self.scaling.register_scalable_target(**self.scaled, MinCapacity=1, MaxCapacity=most)
        metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
        self.scaling.put_scaling_policy(
            **self.scaled,
            PolicyName="invocations-per-instance",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": target,
                "PredefinedMetricSpecification": metric,
            },
        )

    def counts(self) -> tuple[int, int]:
        """Instances in service, and instances that are wanted."""
        described = self.sagemaker.describe_endpoint(EndpointName=self.endpoint)
        for variant in described["ProductionVariants"]:
            if variant["VariantName"] == self.variant:
                return variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]
        raise SystemExit(f"{self.endpoint} has no variant {self.variant}")

    def activities(self) -> list[dict[str, Any]]:
        """The oldest first."""
        answer = self.scaling.describe_scaling_activities(**self.scaled)
        return list(reversed(answer["ScalingActivities"]))

    @staticmethod
    def _clock() -> dict[str, float]:
        """The simulator says how fast its time goes; the real one's goes as ours."""
        url = os.environ.get("AWS_ENDPOINT_URL")
        if url is None:
            return {"now": time.time(), "scale": 1.0}
        with urllib.request.urlopen(f"{url}/simulator/clock") as answer:
            clock: dict[str, float] = json.load(answer)
            return clock


def send(platform: Platform, day: Day, options: argparse.Namespace) -> None:
    """The wave, one request at a time; each is asked by whichever caller is free."""
    named = {} if options.target_model is None else {"TargetModel": options.target_model}
    body = options.body.read_bytes() if options.body else b"{}"

    def ask() -> None:
        day.sent[int(platform.hours() * 60)] += 1
        try:
            answer = platform.runtime.invoke_endpoint(
                EndpointName=platform.endpoint,
                ContentType="application/json",
                Body=body,
                **named,
            )
            answer["Body"].read()
        except Exception as error:
            day.failed.append(str(error))

    began, due = time.time(), time.time()
    noon = options.most * options.rate
    with ThreadPoolExecutor(CALLERS) as callers:
        while (passed := due - began) < options.seconds:
            share = (1 - math.cos(2 * math.pi * passed / options.seconds)) / 2
            due += 1 / (noon * (NIGHT + (NOON - NIGHT) * share))
            time.sleep(max(0.0, due - time.time()))
            callers.submit(ask)


def watch(platform: Platform, day: Day, over: threading.Event) -> None:
    """How many instances there are, until the day is over."""
    while not over.wait(0.25):
        with suppress(BotoCoreError, ClientError):  # callers' failures tell of it
            day.instances.append((platform.hours(), *platform.counts()))


def draw(day: Day, options: argparse.Namespace, target: float) -> None:
    """Invocations a minute above, instances below, over the hours of the platform."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    minutes = range(max(day.sent) + 1)
    # A minute of the platform is short here: means of ten of them.
    means = [sum(day.sent[minute - n] for n in range(10)) / 10 for minute in minutes]
    above.plot([minute / 60 for minute in minutes], means, color="#1f6feb", label="invocations")
    hours = [hour for hour, _, _ in day.instances]
    current = [count for _, count, _ in day.instances]
    for part, values, style in (
        (above, [count * target for count in current], {"label": "what the instances are for"}),
        (below, current, {}),
    ):
        part.step(hours, values, where="post", color="#d29922", **style)
    above.set_ylabel("invocations a minute")
    above.legend(loc="upper left", frameon=False)
    below.set_ylabel("instances in service")
    below.set_yticks(range(options.most + 2))
    below.set_xlabel("hours on the platform")
    total = sum(day.sent.values())
    above.set_title(f"{total:,} requests, {len(day.failed)} failed", loc="left")
    for part in (above, below):
        part.grid(alpha=0.3)
        part.set_ylim(bottom=0)
    figure.savefig(options.picture, dpi=110)


def main() -> None:
    """The day, its numbers and its picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", help="its name; it is in service")
    parser.add_argument("--variant", default="AllTraffic")
    parser.add_argument("--target-model", help="of a multi-model endpoint")
    parser.add_argument("--body", type=Path, help="a request's body (default: {})")
    parser.add_argument("--seconds", type=float, default=300.0, help="of this machine (300)")
    parser.add_argument("--most", type=int, default=4, help="instances (4)")
    parser.add_argument(
        "--rate", type=float, default=20.0, help="requests a second that one instance is for (20)"
    )
    parser.add_argument("--picture", type=Path, help="a PNG to draw; needs matplotlib")
    options = parser.parse_args()

    day, over = Day(), threading.Event()
    try:
        platform = Platform(options.endpoint, options.variant)
        target = options.rate * 60 / platform.scale
        platform.track(options.most, target)
        day.instances.append((platform.hours(), *platform.counts()))
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        raise SystemExit(
            f"{error}; expected the endpoint {options.endpoint} in service on AWS, or at "
            "AWS_ENDPOINT_URL: simulator/docs/control-plane.md makes one"
        ) from error
    print(f"{target:g} invocations a minute are to be for one instance", flush=True)
    watching = threading.Thread(target=watch, args=(platform, day, over))
    watching.start()
    try:
        send(platform, day, options)
    finally:
        over.set()
        watching.join()
    for activity in platform.activities():
        begin = (activity["StartTime"].timestamp() - platform.began) / 3600
        print(f"{begin:5.1f} h  {activity['StatusCode']}: {activity['Description']}")
    most = max(count for _, count, _ in day.instances)
    last = day.instances[-1][1]
    print(
        f"{sum(day.sent.values())} sent in {platform.hours():.1f} h of the platform, "
        f"{len(day.failed)} failed; 1 → {most} → {last} instances"
    )
    for words in sorted(set(day.failed))[:5]:
        print(f"failed: {words}")
    if options.picture:
        draw(day, options, target)


if __name__ == "__main__":
    main()
