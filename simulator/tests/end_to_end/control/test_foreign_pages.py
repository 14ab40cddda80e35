"""A page of another origin in a real browser tries all that it can: nothing is done or told."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from simulator.tests.end_to_end.page_driver import Browser, Page, started_browser
from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Names that their owner points at this machine.
REBOUND = "rebound.example"
#: Signatures are not looked at, so that a page can write one into an address, too.
SIGNED = "X-Amz-Credential=a/20260101/us-east-1/iam/aws4_request"
#: Each is told what came of it: what a page could read, or why it could not.
TRICKS = """
const MODEL = {ModelName: NAME, ExecutionRoleArn: ROLE, PrimaryContainer:
    {Image: IMAGE, Mode: "MultiModel", ModelDataUrl: "s3://models/shop/"}};
const ofRole = (role) => `${URL_}/?Action=DeleteRole&RoleName=${role}&${SIGNED}`;
const file = (key) => {
    const form = new FormData();
    form.append("key", key);
    form.append("file", new Blob(["not yours"]), "x.tar.gz");
    return form;
};
const told = async (asking) => {
    try {
        const answer = await asking;
        return answer.type === "opaque" ? "opaque" : `read ${answer.status} ${await answer.text()}`;
    } catch (error) {
        return "not read";
    }
};
const loaded = (element) => new Promise((resolve) => {
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("not loaded");
    document.body.append(element);
});
const made = (name, attributes) => Object.assign(document.createElement(name), attributes);
const framed = (source) => new Promise((resolve) => {
    const frame = made("iframe", {sandbox: "allow-scripts allow-forms", srcdoc: source});
    addEventListener("message", (message) => {
        if (message.source === frame.contentWindow) resolve(message.data);
    });
    document.body.append(frame);
});
const sent = (action, kind, fields) => new Promise((resolve) => {
    const frame = made("iframe", {name: `frame-${Math.random()}`});
    document.body.append(frame);
    const form = made("form", {method: "POST", action, enctype: kind, target: frame.name});
    for (const [name, value] of Object.entries(fields)) {
        const input = made("input", {name});
        if (value instanceof File) {
            const files = new DataTransfer();
            files.items.add(value);
            Object.assign(input, {type: "file", files: files.files});
        } else input.value = value;
        form.append(input);
    }
    frame.onload = () => resolve("sent");
    document.body.append(form);
    form.submit();
});
const opened = (socket) => new Promise((resolve) => {
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("not open");
});
const script = "</scr" + "ipt>";
const tricks = {
    "a read of the overview": () => told(fetch(`${URL_}/simulator/overview`)),
    "a read of the page": () => told(fetch(`${URL_}/`)),
    "a put": () => told(fetch(`${URL_}/models/shop/put`, {method: "PUT", body: "x"})),
    "a delete": () => told(fetch(`${URL_}/models/shop/a.tar.gz`, {method: "DELETE"})),
    "a call of SageMaker": () => told(fetch(`${URL_}/`, {method: "POST", body:
        JSON.stringify(MODEL), headers: {"X-Amz-Target": "SageMaker.CreateModel"}})),
    "a call in a query": () => told(fetch(ofRole("fetched"), {mode: "no-cors"})),
    "a post without a preflight": () => told(fetch(ofRole("posted"), {method: "POST",
        mode: "no-cors", body: new URLSearchParams({Action: "DeleteRole", RoleName: "posted"})})),
    "an upload without a preflight": () => told(fetch(`${URL_}/models`,
        {method: "POST", mode: "no-cors", body: file("shop/fetched")})),
    "an upload as a simple request": () => told(fetch(`${URL_}/models`,
        {method: "POST", body: file("shop/simple")})),
    "an invocation": () => told(fetch(`${URL_}/endpoints/none/invocations`,
        {method: "POST", mode: "no-cors", body: "{}"})),
    "a beacon": async () => navigator.sendBeacon(`${URL_}/models`, file("shop/beacon")),
    "an image": () => loaded(made("img", {src: ofRole("image")})),
    "an image without a referrer": () => loaded(
        made("img", {referrerPolicy: "no-referrer", src: ofRole("quiet")})),
    "a script": () => loaded(made("script", {src: ofRole("script")})),
    "a style": () => loaded(made("link", {rel: "stylesheet", href: ofRole("style")})),
    "a frame": () => loaded(made("iframe", {src: ofRole("frame")})),
    "a form of files": () => sent(`${URL_}/models`, "multipart/form-data",
        {key: "shop/form", file: new File(["not yours"], "x")}),
    "a form of fields": () => sent(ofRole("form"), "application/x-www-form-urlencoded",
        {Action: "DeleteRole", RoleName: "form"}),
    "a form of text": () => sent(`${URL_}/endpoints/none/invocations`, "text/plain", {a: "b"}),
    "a socket": () => opened(new WebSocket(`${URL_.replace("http", "ws")}/endpoints/none`)),
    "events": () => opened(new EventSource(`${URL_}/simulator/endpoints/none/events`)),
    "a sandbox": () => framed(`<script>fetch("${URL_}/models", {method: "POST", mode: "no-cors",
        body: new URLSearchParams({key: "shop/sandbox", file: "x"})})
        .then(() => parent.postMessage("opaque", "*"))${script}`),
    "a sandbox that reads": () => framed(`<script>fetch("${URL_}/simulator/overview")
        .then((answer) => answer.text(), () => "not read")
        .then((text) => parent.postMessage(text, "*"))${script}`),
};
window.left = new Set(Object.keys(tricks));
const results = {};
const work = Object.entries(tricks).map(async ([name, trick]) => {
    results[name] = await trick();
    window.left.delete(name);
});
Promise.all(work).then(() => { window.results = results; });
"""
ROLES = ("fetched", "posted", "image", "quiet", "script", "style", "frame", "form")
NOT_READ = ("opaque", "not read", "not loaded", "not open", "sent", True, "loaded")


@pytest.fixture(scope="module")
def foreign() -> Iterator[str]:
    """An empty page at a port of its own; its url."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>foreign</title><body></body>")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    async with started_browser(tmp_path_factory.mktemp("chromium"), rules) as browser:
        yield browser


@pytest.fixture
def untouched(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane in which a page changes nothing: not a key, a role, a model, an event."""
    iam = plane.client("iam")
    for role in ROLES:
        iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    before = _state(plane)
    yield plane
    assert _state(plane) == before
    assert before["roles"] >= set(ROLES)
    for role in ROLES:
        iam.delete_role(RoleName=role)


def _state(plane: ControlPlane) -> dict[str, set[str]]:
    objects = plane.client("s3").list_objects_v2(Bucket="models")["Contents"]
    return {
        "keys": {f"{it['Key']} {it['ETag']}" for it in objects},
        "roles": {it["RoleName"] for it in plane.client("iam").list_roles()["Roles"]},
        "models": {it["ModelName"] for it in plane.client("sagemaker").list_models()["Models"]},
    }


@pytest.mark.parametrize("page_host", ["127.0.0.1", "localhost", "evil.example"])
@pytest.mark.parametrize("asked", ["127.0.0.1", "localhost", "models.localhost"])
async def test_a_page_of_another_origin_does_and_reads_nothing(
    page: Page, foreign: str, untouched: ControlPlane, page_host: str, asked: str
) -> None:
    """Another port of this machine is another origin, too."""
    port = urlsplit(untouched.url).port
    await page.open(f"{foreign.replace('127.0.0.1', page_host)}/")
    words = {"URL_": f"http://{asked}:{port}", "SIGNED": SIGNED, "NAME": "theirs"}
    given = {**words, "ROLE": ROLE, "IMAGE": IMAGE}
    names = "".join(f"const {name} = {json.dumps(value)};" for name, value in given.items())
    await page.evaluate(f"(() => {{ {names} {TRICKS} }})()")
    results = await page.until("window.results")
    assert len(results) == 23
    assert {name: told for name, told in results.items() if told not in NOT_READ} == {}


async def test_a_page_that_moved_to_this_machine_is_refused(
    page: Page, untouched: ControlPlane
) -> None:
    """DNS rebinding: to the browser it is the page's own origin, so that only the host tells."""
    url = f"http://{REBOUND}:{urlsplit(untouched.url).port}"
    await page.open(f"{url}/")
    assert "is none of this simulator's" in await page.evaluate("document.body.innerText")
    asked = [
        ("/models/shop/put", {"method": "PUT", "body": "x"}),
        ("/models/shop/a.tar.gz", {"method": "DELETE"}),
        ("/simulator/overview", {}),
        (f"/?Action=DeleteRole&RoleName=fetched&{SIGNED}", {}),
    ]
    for path, options in asked:
        words = f"fetch({json.dumps(url + path)}, {json.dumps(options)}).then((it) => it.status)"
        assert await page.evaluate(words) == 403


async def test_the_simulators_own_page_works(page: Page, untouched: ControlPlane) -> None:
    """By either name of this machine; and its scripts may ask it."""
    for host in ("127.0.0.1", "localhost"):
        url = untouched.url.replace("127.0.0.1", host)
        await page.open(f"{url}/")
        await page.until("document.querySelector('#connection').dataset.state === 'live'")
        asked = f"fetch({json.dumps(url + '/simulator/overview')}).then((it) => it.status)"
        assert await page.evaluate(asked) == 200
    assert page.complaints == []


async def test_a_link_changes_nothing(plane: ControlPlane) -> None:
    """Even where a browser does not say whose it is; what reads is answered."""
    plane.client("iam").create_role(RoleName="linked", AssumeRolePolicyDocument="{}")
    async with httpx.AsyncClient(base_url=plane.url, trust_env=False, timeout=60) as client:
        for service, action in (("iam", "DeleteRole"), ("monitoring", "DeleteAlarms")):
            signed = SIGNED.replace("iam", service)
            answer = await client.get(f"/?Action={action}&RoleName=linked&{signed}")
            assert (answer.status_code, "send the call as a POST" in answer.text) == (400, True)
        signed = SIGNED.replace("iam", "monitoring")
        assert (await client.get(f"/?Action=ListMetrics&{signed}")).status_code == 200
    plane.client("iam").delete_role(RoleName="linked")


async def test_refusals_are_answered_before_anything_is_read(plane: ControlPlane) -> None:
    """Of every kind of address; whoever follows a link from elsewhere is told what to do."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for path in ("/", "/models", "/endpoints/x/invocations", "/metrics", "/moto-api/", "/x?y"):
            for headers in (
                {"Origin": "null"},
                {"Origin": plane.url.replace("http", "chrome-extension")},
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-site"},
                {"Host": "evil.example"},
            ):
                answer = await client.post(plane.url + path, headers=headers, content=b"x" * 10**6)
                assert answer.status_code == 403
                assert answer.json()["message"].endswith(".")
                assert not [name for name in answer.headers if name.startswith("access-control")]
