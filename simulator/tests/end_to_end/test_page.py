"""The page, in headless Chromium, and the routes that feed it, on a real server."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import itertools
import json
import shlex
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from merlin_simulator.watch.events import Event, EventLog
from merlin_simulator.watch.state import InstanceState, ModelState
from simulator.tests.end_to_end.page_driver import (
    LIVE,
    Browser,
    BrowserFailed,
    Page,
    chromium,
    text_of,
    texts_of,
)
from simulator.tests.end_to_end.played_endpoint import (
    PlayedEndpoint,
    a_model,
    an_instance,
    invoked,
    page_app,
    served,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>.tar.gz'
LOST = "document.querySelector('#connection').dataset.state === 'lost'"


@pytest.fixture
def endpoint() -> PlayedEndpoint:
    """One instance in service that has loaded a.tar.gz and holds b.tar.gz on its disk."""
    endpoint = PlayedEndpoint()
    models = a_model("a.tar.gz"), a_model("b.tar.gz", ModelState.ON_DISK)
    endpoint.put(an_instance("instance-1", *models))
    return endpoint


@contextlib.asynccontextmanager
async def showing(
    page: Page, endpoint: PlayedEndpoint, app: Starlette | None = None
) -> AsyncIterator[str]:
    """The page has drawn the endpoint and hears its events; its url. app: a new one if None."""
    async with served(app or page_app(endpoint)) as url:
        await page.open(f"{url}/")
        await page.until(LIVE)
        await page.until("document.querySelector('#endpoint').textContent !== '…'")
        yield url


async def until_told(page: Page, count: int) -> None:
    """The list of events has that many."""
    await page.until(f"{texts_of('.sentence')}.length === {count}")


def click(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).click()"


def hidden(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).hidden"


def states() -> str:
    return (
        "Object.fromEntries([...document.querySelectorAll('.tile')]"
        ".map((tile) => [tile.querySelector('.name').textContent, tile.dataset.state]))"
    )


async def test_it_shows_what_there_is(page: Page, endpoint: PlayedEndpoint) -> None:
    """The endpoint's facts, its instances, each model's state and memory, and what was told."""
    endpoint.put(replace(an_instance("instance-2"), state=InstanceState.FAILED, message="no /ping"))
    endpoint.log.tell("loaded", "instance-1", target_model="a.tar.gz", seconds=1.5, memory=2**20)
    async with showing(page, endpoint):
        assert await page.evaluate(text_of("#endpoint")) == "shop"
        assert "s3://models/shop/" in await page.evaluate(text_of("#facts"))
        assert await page.evaluate(texts_of(".instance h3")) == ["instance-1", "instance-2"]
        assert await page.evaluate(texts_of(".instance .state")) == ["in service", "failed"]
        assert "no /ping" in await page.evaluate(text_of(".instance:nth-child(2) .message"))
        assert await page.evaluate(states()) == {"a": "loaded"}
        assert await page.evaluate(texts_of(".chip")) == ["b"]
        assert "400 MB of 4.0 GB" in await page.evaluate(text_of(".bar .amount"))
        await page.until(f"{text_of('#events .sentence')} === 'Loaded a.tar.gz in 1.5 s, 1.0 MB'")


async def test_it_shows_whose_values_are_unknown(page: Page, endpoint: PlayedEndpoint) -> None:
    """By what the containers count, the worst archive first; nothing where they count nothing."""
    count = 'serve_feature_{}_total{{target_model="{}",model_name="m"}} {}\n'
    counts = [("values", "a", 200), ("unseen", "a", 2), ("null", "a", 50), ("values", MARKUP, 200)]
    lines = "".join(
        count.format(name, target.replace('"', '\\"'), number)
        for name, target, number in [*counts, ("unseen", MARKUP, 11)]
    )
    app = page_app(endpoint)
    app.routes.append(Route("/metrics", lambda _: PlainTextResponse(lines)))
    async with showing(page, endpoint, app) as url:
        assert await page.evaluate(hidden("#features"))
        endpoint.put(replace(an_instance("instance-1"), url=url))
        await page.open(f"{url}/")
        await page.until(f"!{hidden('#features')}")
        assert await page.evaluate(texts_of("#features dt")) == [MARKUP, "a"]
        assert await page.evaluate(texts_of("#features .value")) == ["5.5 %", "1.0 %"]
        assert await page.evaluate(texts_of("#features .remark")) == [
            "of 200; 0.0 % null",
            "of 200; 25.0 % null",
        ]
        bad = (
            "[...document.querySelectorAll('#features div[data-bad]')].map((it) => it.dataset.bad)"
        )
        assert await page.evaluate(bad) == ["true", "false"]


async def test_it_links_to_the_metrics_that_this_browser_can_reach(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """Those of a container on this machine; not those of an address inside a Docker network."""
    there = replace(an_instance("instance-2"), url="http://172.18.0.4:8080")
    endpoint.put(there)
    async with showing(page, endpoint):
        links = "[...document.querySelectorAll('.instance .numbers')]"
        shown = f"{links}.filter((one) => one.checkVisibility()).map((one) => one.href)"
        await page.until(f"{links}.length === 2")
        assert await page.evaluate(shown) == ["http://127.0.0.1:1/metrics"]


async def test_it_changes_with_what_happens(page: Page, endpoint: PlayedEndpoint) -> None:
    """Each event shows without a reload, also while the state that is read is from before it."""
    endpoint.sequence = 0
    async with showing(page, endpoint):
        await page.evaluate("window.stayed = true; document.querySelectorAll('.tile').length")
        for kind, state in (
            ("download_started", "downloading"),
            ("load_started", "loading"),
            ("loaded", "loaded"),
            ("unload_started", "unloading"),
        ):
            endpoint.log.tell(kind, "instance-1", target_model="c.tar.gz", seconds=1.0, memory=1)
            await page.until(f"{states()}.c === {json.dumps(state)}")
        reads = "performance.getEntriesByName(`${location.origin}/simulator/state`).length"
        for count in (1, 2, 3):
            before = await page.evaluate(reads)
            invoked(endpoint.log, "a.tar.gz")
            await page.until(f"{text_of('#figures .value')} === '{count}'")
            await page.until(f"{reads} > {before}")
        assert await page.evaluate(f"{states()}.c") == "unloading"
        assert await page.evaluate("window.stayed") is True


async def test_memory_that_changes_without_events_shows(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """The state is read again now and then, whether or not something was told."""
    async with showing(page, endpoint):
        endpoint.put(replace(endpoint.instances[0], memory_used=2 * 2**30))
        await page.until(f"{text_of('.bar .amount')}.startsWith('2.0 GB')")


async def test_the_figures_are_of_what_was_told(page: Page, endpoint: PlayedEndpoint) -> None:
    """Invocations, hits, percentiles, evictions and failures add up to the events."""
    for _ in range(3):
        invoked(endpoint.log, "a.tar.gz")
    invoked(endpoint.log, "b.tar.gz", cold=True)
    failed(endpoint.log, "it broke")
    for reason in ("memory", "507", "stopping"):
        endpoint.log.tell("unloaded", "instance-1", target_model="a", seconds=0.1, reason=reason)
    async with showing(page, endpoint):
        values = f"{texts_of('#figures .value')}.join(' | ')"
        expected = "5 | 75.0 % | 20 ms / 20 ms | 2.0 s / 2.0 s | 2 | 1"
        await page.until(f"{values} === {json.dumps(expected)}")


async def test_what_cold_requests_waited_for_shows(page: Page, endpoint: PlayedEndpoint) -> None:
    """Each part's percentiles and share, the bar of the shares, and the parts in the event."""
    invoked(endpoint.log, "a.tar.gz")
    invoked(endpoint.log, "b.tar.gz", cold=True)
    async with showing(page, endpoint):
        values = f"{texts_of('#parts .value')}.join(' | ')"
        shown = ("0.0 ms", "400 ms", "50 ms", "50 ms", "1.5 s", "20 ms")
        await page.until(f"{values} === {json.dumps(' | '.join(f'{p} / {p}' for p in shown))}")
        remarks = await page.evaluate(texts_of("#parts .remark"))
        assert [remark.split(" ")[0] for remark in remarks] == ["0", "20", "2", "2", "74", "1"]
        widths = "[...document.querySelectorAll('#parts-bar i')].map((one) => one.dataset.width)"
        assert (await page.evaluate(widths))[4] == "74.26%"
        told = f"{texts_of('#events .sentence')}[0]"
        assert (await page.evaluate(told)).endswith("in 2.0 s: a turn 400 ms, load 1.5 s")


async def test_no_cold_request_has_no_parts(page: Page, endpoint: PlayedEndpoint) -> None:
    """Dashes, and a bar without a segment's width."""
    invoked(endpoint.log, "a.tar.gz")
    async with showing(page, endpoint):
        await page.until(f"{texts_of('#parts .value')}.join('') === '––––––'")


def failed(log: EventLog, message: str, target_model: str = "a.tar.gz") -> None:
    log.tell(
        "invocation_failed",
        "instance-1",
        target_model=target_model,
        status=424,
        seconds=0.1,
        cold=False,
        error="ModelError",
        message=message,
        request_id="r",
    )


@pytest.mark.parametrize("refused", [False, True])
async def test_nothing_is_lost_or_doubled_when_the_connection_is_cut(
    page: Page, endpoint: PlayedEndpoint, refused: bool
) -> None:
    """What was told before, during and after the cut is there once; the page says it was cut.

    Also where something else answered meanwhile, after which EventSource does not try again.
    """
    app = page_app(endpoint)
    tell_loads(endpoint.log, "before-1", "before-2")
    async with showing(page, endpoint, app) as url:
        pass
    await page.until(LOST)
    assert "trying again" in await page.evaluate(text_of("#connection"))
    tell_loads(endpoint.log, "during-1", "during-2")
    if refused:
        asked, other = refusing_app()
        async with served(other, port_of(url)):
            await asyncio.wait_for(asked.wait(), 60)
    async with served(app, port_of(url)):
        await page.until(LIVE)
        tell_loads(endpoint.log, "after-1")
        await page.until(f"{texts_of('.sentence')}.some((text) => text.includes('after-1'))")
        names = ["after-1", "during-2", "during-1", "before-2", "before-1"]
        assert await page.evaluate(texts_of("#events .sentence")) == [f"Loading {n}" for n in names]


def refusing_app() -> tuple[asyncio.Event, Starlette]:
    """An app that has no events, and what is set once it was asked for them."""
    asked = asyncio.Event()

    async def refuse(_: Request) -> Response:
        asked.set()
        return Response(status_code=503)

    app = Starlette(routes=[Route("/simulator/events", refuse)])
    app.state.ending = asyncio.Event()
    return asked, app


async def test_a_simulator_that_starts_again_is_told_apart(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """Its events, numbered from 1 again, are all there once, after a line that says so."""
    tell_loads(endpoint.log, "old-1", "old-2", "old-3")
    async with showing(page, endpoint) as url:
        await until_told(page, 3)
    again = PlayedEndpoint(instances=endpoint.instances)
    tell_loads(again.log, "new-1", "new-2", "new-3", "new-4")
    async with served(page_app(again), port_of(url)):
        await until_told(page, 7)
        rows = await page.evaluate(texts_of("#events > li"))
    assert [row.split("Loading ")[-1] for row in rows[:4]] == ["new-4", "new-3", "new-2", "new-1"]
    assert rows[4].endswith("The simulator was started again.")
    assert [row.split("Loading ")[-1] for row in rows[5:]] == ["old-3", "old-2", "old-1"]


def tell_loads(log: EventLog, *names: str) -> None:
    for name in names:
        log.tell("load_started", "instance-1", target_model=name)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def test_markup_is_text(page: Page, endpoint: PlayedEndpoint) -> None:
    """A target model, a message and an endpoint that contain markup are shown as they are."""
    endpoint.put(an_instance("<b>instance</b>", a_model(MARKUP), a_model("d", ModelState.ON_DISK)))
    endpoint.endpoint_name = endpoint.models = MARKUP
    failed(endpoint.log, MARKUP, MARKUP)
    endpoint.log.tell("instance_unhealthy", "<b>instance</b>", message=MARKUP)
    async with showing(page, endpoint):
        await page.until(f"{text_of('#events pre')} === {json.dumps(MARKUP)}")
        assert await page.evaluate(text_of("#endpoint")) == MARKUP
        await page.evaluate("document.querySelector('#timeline').focus()")
        await page.press("ArrowLeft")
        await page.until(f"{text_of('#details')}.includes('<script>')")
        assert (
            await page.evaluate("document.querySelectorAll('img, b:not(#error-count)').length") == 0
        )
        assert await page.evaluate("document.querySelectorAll('script').length") == 1
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


async def test_it_asks_nobody_else_and_complains_of_nothing(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """Every request goes to the simulator, and the console stays empty."""
    for cold in (True, False):
        invoked(endpoint.log, "a.tar.gz", cold=cold)
    failed(endpoint.log, "it broke")
    async with showing(page, endpoint) as url:
        await until_told(page, 3)
        assert {request for request in page.requests if not request.startswith(f"{url}/")} == set()
        assert f"{url}/simulator/events" in page.requests
        assert page.complaints == []


@pytest.mark.parametrize("dark", [False, True])
async def test_a_phone_needs_no_sideways_scrolling(
    browser: Browser, endpoint: PlayedEndpoint, dark: bool
) -> None:
    """At 400 pixels nothing is wider than the page, however long names and messages are."""
    long = "nlp/" + "a-model-with-a-long-name-" * 8 + ".tar.gz"
    endpoint.put(an_instance("instance-" + "2" * 60, a_model(long), a_model(long + "2")))
    endpoint.models = "s3://" + "bucket" * 30
    failed(endpoint.log, "x" * 3000, long)
    page = await browser.page(width=400, height=800, dark=dark)
    async with showing(page, endpoint):
        await until_told(page, 1)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400
        parts = ".instance, .figures > div, canvas, .list li, pre, .sentence, .value, h1, h3"
        wide = f"[...document.querySelectorAll('{parts}')]"
        rights = f"Math.max(...{wide}.map((one) => one.getBoundingClientRect().right))"
        assert await page.evaluate(rights) <= 400
    await page.close()


async def test_ten_thousand_events_do_not_make_it_slow(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """The elements stay as few as they were, everything is counted, and a click is answered."""
    async with showing(page, endpoint):
        for start in range(0, 10_000, 500):
            for number in range(start, start + 500):
                invoked(endpoint.log, f"{number % 50}.tar.gz", cold=number % 5 == 0)
            await page.until(f"{text_of('#figures .value')} === '{start + 500:,}'")
        assert await page.evaluate("document.querySelectorAll('*').length") < 2500
        assert await page.evaluate("document.querySelectorAll('#events > li').length") <= 200
        # Milliseconds, in a calm moment.
        await page.until(f"{TIME_OF_A_CLICK}.then((took) => took < 1000)")


TIME_OF_A_CLICK = """(async () => {
  const began = performance.now();
  document.querySelector('input[name="filter"]:not(:checked)').click();
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  return performance.now() - began;
})()"""


async def test_two_hundred_models_of_an_instance_have_their_place(
    page: Page, endpoint: PlayedEndpoint
) -> None:
    """Each has its tile and its part of the memory bar, and the card stays on one screen."""
    models = [a_model(f"team/model-{number:03}.tar.gz") for number in range(200)]
    endpoint.put(an_instance("instance-1", *(replace(one, memory=10 * 2**20) for one in models)))
    async with showing(page, endpoint):
        await page.until("document.querySelectorAll('.tile').length === 200")
        assert await page.evaluate("document.querySelectorAll('.segments i').length") == 200
        assert await page.evaluate("document.querySelector('.instance').offsetHeight") < 700
        await page.resize(400, 800)
        heights = "[...document.querySelectorAll('.tile')].map((tile) => tile.offsetHeight)"
        assert await page.evaluate(f"Math.min(...{heights})") >= 16
        assert await page.evaluate("document.querySelector('.instance').offsetHeight") < 700
        inside = (
            "document.querySelector('.segments').lastElementChild.getBoundingClientRect().right"
        )
        line = "document.querySelector('.threshold').getBoundingClientRect().left"
        assert await page.evaluate(f"{inside} < {line}")


async def test_an_endpoint_without_models_says_what_to_do(page: Page) -> None:
    """The hint is there until there is a model."""
    endpoint = PlayedEndpoint(instances=[an_instance("instance-1")], sequence=0)
    async with showing(page, endpoint):
        await page.until(f"!{hidden('#empty')}")
        assert "MODEL.tar.gz" in await page.evaluate(text_of("#curl"))
        endpoint.log.tell("download_started", "instance-1", target_model="a.tar.gz")
        await page.until(hidden("#empty"))


async def test_events_can_be_chosen(page: Page, endpoint: PlayedEndpoint) -> None:
    """Errors only, and everything but answers; a failed invocation is in both."""
    invoked(endpoint.log, "a.tar.gz")
    failed(endpoint.log, "the container's own words")
    tell_loads(endpoint.log, "c.tar.gz")
    async with showing(page, endpoint):
        await until_told(page, 3)
        await page.evaluate(click("input[value=changes]"))
        assert await page.evaluate(texts_of(".badge")) == ["load", "failed"]
        await page.evaluate(click("input[value=errors]"))
        assert await page.evaluate(texts_of(".badge")) == ["failed"]
        assert await page.evaluate(text_of("#events pre")) == "the container's own words"
        assert await page.evaluate(text_of("#error-count")) == "1"


async def test_who_reads_is_not_disturbed(page: Page, endpoint: PlayedEndpoint) -> None:
    """While the list is scrolled down nothing is added; a button tells how much there is."""
    tell_loads(endpoint.log, *(f"{number}.tar.gz" for number in range(100)))
    async with showing(page, endpoint):
        await until_told(page, 100)
        await page.evaluate("document.querySelector('#events').scrollTop = 300")
        tell_loads(endpoint.log, "new-1", "new-2")
        await page.until(f"{text_of('#newer')} === '2 newer'")
        assert await page.evaluate(f"{texts_of('.sentence')}.length") == 100
        await page.evaluate(click("#newer"))
        await page.until(f"{text_of('.sentence')} === 'Loading new-2'")
        assert await page.evaluate(hidden("#newer"))


async def test_the_timeline_tells_details(page: Page, endpoint: PlayedEndpoint) -> None:
    """Arrow keys go through the marks, pointing at one tells of it, the container's message too."""
    invoked(endpoint.log, "a.tar.gz", cold=True)
    failed(endpoint.log, "the container's own words")
    async with showing(page, endpoint):
        await until_told(page, 2)
        await page.evaluate("document.querySelector('#timeline').focus()")
        await page.press("ArrowLeft")
        await page.until(f'{text_of("#details")}.includes("the container\'s own words")')
        await page.press("ArrowLeft")
        await page.until(f"{text_of('#details')}.includes('answered in 2.0 s')")
        await page.press("Escape")
        assert await page.evaluate(hidden("#details"))
        await page.evaluate("document.querySelector('#timeline').scrollIntoView()")
        box = await page.evaluate(
            "(({right, bottom}) => [right, bottom])"
            "(document.querySelector('#timeline').getBoundingClientRect())"
        )
        # The marks move on with the time, and stand still from here on.
        await page.evaluate(click("#pause"))
        for away, height in itertools.product(range(16, 1000, 16), range(30, 180, 6)):
            await page.point(box[0] - away, box[1] - height)
            if not await page.evaluate(hidden("#details")):
                break
        assert not await page.evaluate(hidden("#details"))
        assert "a.tar.gz" in await page.evaluate(text_of("#details"))


@pytest.mark.parametrize("target_model", ['team/it\'s "a" $(name) \\.tar.gz', "a.tar.gz"])
async def test_the_examples_can_be_pasted(page: Page, target_model: str) -> None:
    """Shell and Python read out of them what is meant, whatever the model's name."""
    endpoint = PlayedEndpoint(instances=[an_instance("instance-1", a_model(target_model))])
    async with showing(page, endpoint) as url:
        words = shlex.split((await page.evaluate(text_of("#curl"))).replace("\\\n", " "))
        assert words[1] == f"{url}/endpoints/shop/invocations"
        assert f"X-Amzn-SageMaker-Target-Model: {target_model}" in words
        program = ast.parse(await page.evaluate(text_of("#boto3")))
    keywords = {
        keyword.arg: keyword.value.value
        for keyword in ast.walk(program)
        if isinstance(keyword, ast.keyword) and isinstance(keyword.value, ast.Constant)
    }
    assert keywords["TargetModel"] == target_model
    assert keywords["endpoint_url"] == url
    assert keywords["EndpointName"] == "shop"


async def test_a_single_models_endpoint_is_shown_as_one(page: Page) -> None:
    """No target model in the examples, no hint about downloads, no cache setting."""
    endpoint = PlayedEndpoint(multi_model=False, instances=[an_instance("instance-1")])
    async with showing(page, endpoint):
        assert "arget" not in await page.evaluate(text_of("#invoke pre"))
        assert await page.evaluate(hidden("#empty"))
        assert "one model" in await page.evaluate(text_of("#facts"))
        assert "ModelCacheSetting" not in await page.evaluate(text_of("#facts"))


@pytest.mark.parametrize("dark", [False, True])
async def test_words_can_be_read(browser: Browser, endpoint: PlayedEndpoint, dark: bool) -> None:
    """Each colour of words has WCAG's contrast of 4.5 at least on each ground it stands on."""
    page = await browser.page(dark=dark)
    async with showing(page, endpoint):
        style = "getComputedStyle(document.documentElement)"
        words = ("ink", "muted", "warm", "cold", "error", "good", "load", "download")
        for ground in ("card", "ground", "lane", "error-ground"):
            for name in words if ground != "error-ground" else ("ink", "muted", "error"):
                pair = [
                    await page.evaluate(f"{style}.getPropertyValue('--{one}').trim()")
                    for one in (name, ground)
                ]
                assert contrast(*pair) >= 4.5, (name, ground, pair)
    await page.close()


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio of two #rrggbb."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


async def test_without_a_browser_the_tests_fail_and_say_so() -> None:
    """What was looked for and how to get it are in the message; nothing is skipped."""
    with pytest.raises(BrowserFailed, match="need Chromium; on Debian: apt-get install"):
        chromium(path="/nowhere")


# The routes without a browser


@contextlib.asynccontextmanager
async def client_of(
    endpoint: PlayedEndpoint, **settings: float
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        served(page_app(endpoint, **settings)) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def ids(client: httpx.AsyncClient, count: int, last_event_id: str | None = None) -> list[str]:
    """The ids of the first events that a reader gets."""
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    found: list[str] = []
    async with client.stream("GET", "/simulator/events", headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                found.append(line.removeprefix("id: "))
            if len(found) == count:
                break
    return found


async def test_the_state_is_the_view_as_json(endpoint: PlayedEndpoint) -> None:
    """Field names are those of watch/state.py, enums are their values."""
    async with client_of(endpoint) as client:
        state = (await client.get("/simulator/state")).json()
    assert state["endpoint_name"] == "shop"
    assert state["memory_threshold"] == 0.9
    assert state["instances"][0]["state"] == "in service"
    model = state["instances"][0]["models"][1]
    assert (model["target_model"], model["state"], model["memory"]) == ("b.tar.gz", "on disk", None)


async def test_targets_are_what_prometheus_reads(endpoint: PlayedEndpoint) -> None:
    """http_sd_configs: where each container answers, with the instance's name for a label."""
    async with client_of(endpoint) as client:
        answer = await client.get("/simulator/targets")
    assert answer.headers["content-type"] == "application/json"
    labels = {
        "instance": "instance-1",
        "endpoint_name": "shop",
        "variant_name": "AllTraffic",
    }
    assert answer.json() == [{"targets": ["127.0.0.1:1"], "labels": labels}]


async def test_health_is_200_once_an_instance_serves(endpoint: PlayedEndpoint) -> None:
    """503 until then, with what each instance does."""
    starting = replace(an_instance("instance-1"), state=InstanceState.STARTING, message="wait")
    endpoint.put(starting)
    async with client_of(endpoint) as client:
        answer = await client.get("/simulator/health")
        assert answer.status_code == 503
        assert answer.json()["instances"] == {
            "instance-1": {"state": "starting", "message": "wait"}
        }
        endpoint.put(an_instance("instance-2"))
        answer = await client.get("/simulator/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "in service")


async def test_words_that_are_no_text_do_no_harm(endpoint: PlayedEndpoint) -> None:
    """Bytes that were no UTF-8 reach the reader, in the state as in events."""
    endpoint.put(replace(an_instance("instance-1"), message="\udcff"))
    endpoint.log.tell("instance_unhealthy", "instance-1", message="\udcff")
    async with client_of(endpoint) as client:
        state = (await client.get("/simulator/state")).json()
        assert state["instances"][0]["message"] == "\udcff"
        assert len(await ids(client, 1)) == 1


async def test_headers_keep_the_page_to_itself(endpoint: PlayedEndpoint) -> None:
    """Nothing from elsewhere, nothing inline, no stale script, no kept state."""
    async with client_of(endpoint) as client:
        for path in ("/", "/simulator/static/page.js", "/simulator/static/page.css"):
            answer = await client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-cache"
        assert "no-store" in (await client.get("/simulator/state")).headers["cache-control"]
        assert (await client.get("/simulator/static/../page_routes.py")).status_code == 404
        assert (await client.get("/simulator/static/index.html")).status_code == 404


async def test_a_reader_goes_on_where_it_was(endpoint: PlayedEndpoint) -> None:
    """After its last id; from the beginning where that is another run's, or no id of ours."""
    tell_loads(endpoint.log, "1", "2", "3")
    async with client_of(endpoint) as client:
        every = await ids(client, 3)
        assert [one.split("-")[0] for one in every] == ["1", "2", "3"]
        assert await ids(client, 1, every[1]) == every[2:]
        assert await ids(client, 2, "1") == every[1:]
        for other in ("2-otherrun", "900", "x", "-5", "", "9" * 5000):
            assert await ids(client, 3, other) == every


async def test_a_quiet_stream_is_kept_alive(endpoint: PlayedEndpoint) -> None:
    """A comment comes when nothing happens."""
    async with (
        client_of(endpoint, heartbeat_s=0.05) as client,
        client.stream("GET", "/simulator/events") as answer,
    ):
        lines = answer.aiter_lines()
        async for line in lines:
            if line.startswith(":"):
                break
        assert line == ": nothing new"
        assert answer.headers["content-type"].startswith("text/event-stream")


class CountedLog(EventLog):
    """A log that knows how many listen."""

    def __init__(self) -> None:
        super().__init__()
        self.listening, self.left = 0, asyncio.Event()

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        self.listening += 1
        stop = super().listen(listener)

        def ended() -> None:
            self.listening -= 1
            self.left.set()
            stop()

        return ended


async def test_a_reader_that_leaves_is_forgotten() -> None:
    """Nothing listens for it any more."""
    log = CountedLog()
    endpoint = PlayedEndpoint(log=log)
    tell_loads(log, "1")
    async with client_of(endpoint) as client:
        await ids(client, 1)
        await asyncio.wait_for(log.left.wait(), 60)
        assert log.listening == 0


async def test_streams_end_when_the_server_does() -> None:
    """A reader that waits for events sees the end of its stream, and the server does not wait."""
    endpoint = PlayedEndpoint()
    async with httpx.AsyncClient(timeout=60) as client, contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(page_app(endpoint), graceful_s=600))
        async with client.stream("GET", f"{url}/simulator/events") as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            await stack.aclose()
            assert [line async for line in lines] == [""]


async def test_a_reader_that_does_not_read_costs_no_memory_and_no_shutdown() -> None:
    """What it did not take is in the log's length only, and the server's time-out ends it."""
    log = EventLog(kept=50)
    async with served(page_app(PlayedEndpoint(log=log))) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(url), limit=1024)
        writer.write(b"GET /simulator/events HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket's transport
        tracemalloc.start()
        for number in range(500):
            log.tell("load_failed", "i", target_model=str(number), message="x" * 100_000)
            await asyncio.sleep(0)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    assert held < 20_000_000
