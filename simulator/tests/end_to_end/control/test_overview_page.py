"""The overview in headless Chromium: of a control plane that runs, and of what a test tells it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from merlin_simulator.watch.page_routes import answer_json, answer_page, make_static_routes
from simulator.tests.end_to_end.page_driver import LIVE, Browser, Page, text_of, texts_of
from simulator.tests.end_to_end.played_endpoint import served
from simulator.tests.support.control_plane import ControlPlane, control_plane
from simulator.tests.support.simulator import fake_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKUP = '<img src=x onerror="window.broken=1">'
NOW = 1_790_000_000.0


async def test_from_nothing_to_an_endpoint_and_back(page: Page, tmp_path: Path) -> None:
    """What the page tells to copy runs as it stands, and each step shows without a reload.

    Empty; then an endpoint with its instance and its requests; its own page; then it is deleted,
    which both pages say.
    """
    fake_model(tmp_path, "a.tar.gz")
    (tmp_path / "request.json").write_text("{}")
    with control_plane(tmp_path / "log") as plane:
        await page.open(f"{plane.url}/")
        await page.until("!document.querySelector('#empty').hidden")
        shell, program = [await page.until(text_of(one)) for one in ("#shell", "#boto3")]
        assert f"AWS_ENDPOINT_URL={plane.url}\n" in shell
        answer = await asyncio.to_thread(_run, tmp_path, shell, program)
        assert '"answer":"a.tar.gz"' in answer
        await page.until(f"{texts_of('.card h3')}.join() === 'shop'")
        assert await page.evaluate("document.querySelector('#empty').hidden")
        await page.until(f"{text_of('.card > header .state')} === 'InService'")
        assert "1 of 1 instance" in await page.evaluate(text_of(".row"))
        await page.until(f"{text_of('.card .rate')} === '1 requests/min'")
        await page.until(f"{text_of('.box')}.includes('1 loaded')")
        assert page.complaints == []
        assert {one for one in page.requests if not one.startswith(f"{plane.url}/")} == set()
        await _its_own_page(page, plane)


def _run(folder: Path, shell: str, program: str) -> str:
    """The program in a shell after those lines; its output."""
    (folder / "program.py").write_text(program)
    environment = {name: value for name, value in os.environ.items() if "AWS" not in name}
    command = f"{shell}\nexec {sys.executable} program.py"
    ran = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


async def _its_own_page(page: Page, plane: ControlPlane) -> None:
    below = f"{plane.url}/simulator/endpoints/shop"
    assert await page.evaluate("document.querySelector('.card h3 a').href") == f"{below}/"
    await page.open(f"{below}/")
    await page.until(f"{LIVE} && {text_of('#endpoint')} === 'shop'")
    await page.until(f"{texts_of('.instance h3')}.join() === 'AllTraffic-1'")
    assert "InService" in await page.evaluate(text_of("#facts"))
    assert not await page.evaluate("document.querySelector('#all').hidden")
    links = await page.evaluate("[...document.querySelectorAll('[data-below]')].map((a) => a.href)")
    assert links == [f"{below}/state", f"{below}/events", f"{below}/health"]
    plane.client("sagemaker").delete_endpoint(EndpointName="shop")
    await page.until(f"{text_of('#connection')} === 'This endpoint is gone'")
    assert await page.evaluate("document.querySelector('#all').href") == f"{plane.url}/"
    await page.open(f"{plane.url}/")
    await page.until("!document.querySelector('#empty').hidden")


# What a test tells


@dataclass
class Told:
    """What /simulator/overview says; hidden: it does not answer."""

    overview: dict[str, Any]
    asked: list[str] = field(default_factory=list)

    def app(self) -> Starlette:
        async def whole(request: Request) -> Response:
            self.asked.append(request.query_params["since"])
            return answer_json(self.overview)

        async def index(_: Request) -> Response:
            return answer_page("overview.html")

        app = Starlette(
            routes=[
                Route("/", index),
                Route("/simulator/overview", whole),
                *make_static_routes(),
            ]
        )
        app.state.ending = asyncio.Event()
        return app


def an_overview(*endpoints: dict[str, Any], run: str = "1", **more: Any) -> dict[str, Any]:
    return {
        "run": run,
        "region": "us-east-1",
        "clock": {"now": NOW, "scale": 60.0},
        "window_s": 600.0,
        "sample_s": 120.0,
        "endpoints": list(endpoints),
        "activities": [],
        "alarms": [],
        **more,
    }


def an_endpoint(name: str, instances: int = 1, points: int = 0, **more: Any) -> dict[str, Any]:
    """In service, with a course of so many points up to now."""
    return {
        "name": name,
        "status": "InService",
        "failure_reason": None,
        "config": name,
        "pending_config": None,
        "created": NOW,
        "modified": NOW,
        "page": f"/simulator/endpoints/{name}/",
        "requests_per_minute": 120.0,
        "errors_per_minute": 0.0,
        "requests": 1000,
        "errors": 0,
        "course": [
            [NOW - 120 * (points - number), instances, number, 0] for number in range(points)
        ],
        "variants": [a_variant("AllTraffic", instances)],
        **more,
    }


def a_variant(name: str, instances: int, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "fleet": "serving",
        "model": "m",
        "multi_model": True,
        "instance_type": "ml.c5.xlarge",
        "weight": 1.0,
        "share": 1.0,
        "in_service": instances,
        "desired": instances,
        "requests_per_minute": 120.0,
        "scaling": None,
        "instances": [
            {
                "name": f"{name}-{number}",
                "state": "in service",
                "message": "",
                "memory_used": 2**30,
                "memory_limit": 2**33,
                "cpu_percent": 1.0,
                "in_flight": 0,
                "loaded": 3,
                "on_the_way": 0,
            }
            for number in range(instances)
        ],
        **more,
    }


async def test_what_scales_and_what_fires_shows(page: Page) -> None:
    """A variant's bounds and policy; an update's new fleet; activities; those in ALARM first."""
    tracking = {
        "TargetValue": 70.0,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
    }
    policy = {"PolicyName": "p", "TargetTrackingScalingPolicyConfiguration": tracking}
    scaling = {"target": {"MinCapacity": 1, "MaxCapacity": 4}, "policies": [policy]}
    variants = [
        a_variant("blue", 1, scaling=scaling),
        a_variant("green", 2, fleet="coming", share=None),
    ]
    activity = {
        "ActivityId": "1",
        "ResourceId": "endpoint/shop/variant/blue",
        "StatusCode": "Successful",
        "StartTime": NOW,
        "Description": "Setting desired instance count to 3.",
        "Cause": "an alarm",
    }
    alarms = [
        {"AlarmName": name, "StateValue": state, "StateUpdatedTimestamp": NOW}
        for name, state in (("fine", "OK"), ("new", "INSUFFICIENT_DATA"), ("fires", "ALARM"))
    ]
    told = Told(
        an_overview(an_endpoint("shop", variants=variants), activities=[activity], alarms=alarms)
    )
    async with served(told.app()) as url:
        await page.open(f"{url}/")
        await page.until(f"{texts_of('.row strong')}.join() === 'blue,green'")
        first, second = await page.evaluate(texts_of(".row > p"))
        assert "scales from 1 to 4 · InvocationsPerInstance at 70" in first
        assert "new configuration" in second
        assert await page.evaluate(texts_of("#alarms .what")) == ["fires", "new", "fine"]
        row = await page.evaluate(text_of("#activities li"))
        assert "shop · blue" in row
        assert "Setting desired instance count to 3.an alarm" in row
        assert "60 s a second" in await page.evaluate(text_of("#facts"))
        assert await page.evaluate(texts_of(".choice span")) == ["5 h", "15 h"]


async def test_a_restart_is_noticed_and_a_cut_is_told(page: Page) -> None:
    """The courses of the one before are forgotten, and the new one's are asked for as a whole."""
    told = Told(an_overview(an_endpoint("shop", points=5)))
    app = told.app()
    async with served(app) as url:
        await page.open(f"{url}/")
        await page.until(LIVE)
        assert told.asked[0] == "0"
        before = len(told.asked)
        await page.until(
            f"performance.getEntriesByType('resource').filter((one) => one.name.includes("
            f"'since={int(NOW) - 120}')).length > 0"
        )
        assert told.asked[before] == str(int(NOW) - 120)
    await page.until("document.querySelector('#connection').dataset.state === 'lost'")
    told.overview = an_overview(an_endpoint("other", points=3), run="2")
    before = len(told.asked)
    async with served(app, int(url.rpartition(":")[2])):
        await page.until(f"{texts_of('.card h3')}.join() === 'other'")
        assert told.asked[before + 1] == "0"
        assert "started again" in await page.evaluate(text_of("#note"))
        await page.until(LIVE)


#: How many points of each chart have the colour of requests, and that of instances; edges of lines
#: have some of it, what is filled below them is thinner.
STROKES = """[...document.querySelectorAll('.course canvas')].map((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const style = getComputedStyle(document.documentElement);
  return ['--warm', '--good'].map((name) => {
    const hex = parseInt(style.getPropertyValue(name).trim().slice(1), 16);
    const parts = [hex >> 16, (hex >> 8) & 255, hex & 255];
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      const close = (part, index) => Math.abs(data[at + index] - part) < 8;
      if (data[at + 3] > 90 && parts.every(close)) count += 1;
    }
    return count;
  });
})"""


async def test_the_chart_draws_the_course(page: Page) -> None:
    """Its colours are there where the course has values, and not where it has none."""
    with_traffic = an_endpoint("busy", points=100)
    told = Told(an_overview(with_traffic, an_endpoint("idle")))
    async with served(told.app()) as url:
        await page.open(f"{url}/")
        await page.until(f"{STROKES}[0]?.every((count) => count > 20)")
        assert (await page.evaluate(STROKES))[1] == [0, 0]


async def test_markup_is_text(page: Page) -> None:
    """Whatever has markup in it is shown as it is."""
    broken = an_endpoint("shop", failure_reason=MARKUP, config=MARKUP, status="Failed")
    activity = {"ActivityId": "1", "StatusCode": MARKUP, "Description": MARKUP, "StartTime": NOW}
    told = Told(an_overview(broken, activities=[activity]))
    async with served(told.app()) as url:
        await page.open(f"{url}/")
        await page.until(f"{text_of('.card > .message')} === {json.dumps(MARKUP)}")
        assert await page.evaluate("document.querySelectorAll('img').length") == 0
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


TIME_OF_A_CLICK = """(async () => {
  const began = performance.now();
  document.querySelector('input[name="window"]:not(:checked)').click();
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  return performance.now() - began;
})()"""

LONGEST_TASK = """(async () => {
  const tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ entryTypes: ["longtask"] });
  const wait = (ms) => new Promise((over) => setTimeout(over, ms));
  const reads = () => performance.getEntriesByType("resource")
    .filter((one) => one.name.includes("/simulator/overview")).length;
  const before = reads();
  while (reads() < before + 2) await wait(50);
  await wait(200);  // the second one is drawn
  return Math.max(0, ...tasks);
})()"""


async def test_fifty_endpoints_of_four_instances_do_not_make_it_slow(page: Page) -> None:
    """A click is answered, no task of the page takes long, and each instance has its place."""
    endpoints = [an_endpoint(f"endpoint-{number}", 4, 450) for number in range(50)]
    told = Told(an_overview(*endpoints))
    async with served(told.app()) as url:
        await page.open(f"{url}/")
        await page.until("document.querySelectorAll('.box').length === 200")
        told.overview = an_overview(*(one | {"course": []} for one in endpoints))
        for number, one in enumerate(endpoints):
            one["requests_per_minute"] = number
        # Milliseconds, each in a calm moment.
        await page.until(f"{TIME_OF_A_CLICK}.then((took) => took < 1000)")
        await page.until(f"{LONGEST_TASK}.then((took) => took < 500)")


@pytest.mark.parametrize("dark", [False, True])
async def test_a_phone_needs_no_sideways_scrolling(browser: Browser, dark: bool) -> None:
    """At 400 pixels nothing is wider than the page, however long names and reasons are."""
    long = "a-name-that-is-long-" * 3
    alarm = {
        "AlarmName": f"TargetTracking-endpoint/{long}/variant/{long}-AlarmHigh",
        "StateValue": "INSUFFICIENT_DATA",
        "StateReason": "x" * 500,
        "StateUpdatedTimestamp": NOW,
    }
    failed = an_endpoint(long, 3, 20, failure_reason="y" * 900, config=long, pending_config=long)
    told = Told(an_overview(failed, alarms=[alarm]))
    page = await browser.page(width=400, height=800, dark=dark)
    async with served(told.app()) as url:
        await page.open(f"{url}/")
        await page.until("document.querySelectorAll('.box').length === 3")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400
        parts = ".card, .card > *, .box, .row, .rows li > *, .snippet, .figures > div, canvas, h1"
        wide = f"[...document.querySelectorAll('{parts}')]"
        rights = f"Math.max(...{wide}.map((one) => one.getBoundingClientRect().right))"
        assert await page.evaluate(rights) <= 400
    await page.close()
