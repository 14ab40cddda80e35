"""Drives headless Chromium over its own protocol, through a pipe.

No browser driver and no port: Chromium reads commands on its descriptor 3 and answers on 4, each
message ends with a zero byte, and it quits when the pipe does. The protocol's domains used here are
Chromium's stable ones (Target, Page, Runtime, Network, Emulation, Input, Log).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

#: Where Debian's package puts it, and what others call it.
NAMES = ("chromium", "chromium-browser", "google-chrome")

#: --no-sandbox: the tests may run as root; the page is ours.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
)

#: A screenshot in base64 is one message; bytes.
LONGEST_MESSAGE = 64 * 1024 * 1024

#: How long Chromium may take for one command, and the page for what a test waits for; seconds.
COMMAND_S = 90.0
PAGE_S = 90.0
LOOK_EVERY_S = 0.05


#: Of both pages: they hear what happens.
LIVE = "document.querySelector('#connection').dataset.state === 'live'"


def text_of(selector: str) -> str:
    """The expression of an element's text, empty where there is none."""
    return f"(document.querySelector({json.dumps(selector)})?.textContent ?? '')"


def texts_of(selector: str) -> str:
    """The expression of the texts of all such elements."""
    return f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)"


class BrowserFailed(Exception):
    """Chromium could not be had, ended, or refused a command."""


def chromium(path: str | None = None) -> str:
    """The browser's path, looked for along path (PATH where None).

    BrowserFailed where there is none, so that a test fails and says so.
    """
    for name in NAMES:
        if path := shutil.which(name, path=path):
            return path
    raise BrowserFailed(
        f"found no browser (looked for {', '.join(NAMES)}): the page's tests need Chromium; "
        "on Debian: apt-get install chromium"
    )


class Browser:
    """One Chromium with an empty profile; its pages are independent of each other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._sent = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def command(
        self, method: str, session: str | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """One command's answer; BrowserFailed where it is refused or does not come."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        answer = self._answers[self._sent] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        return await asyncio.wait_for(answer, COMMAND_S)

    async def page(self, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """A new empty page, in a context of its own: no cache and no storage of others."""
        context = await self.command("Target.createBrowserContext")
        target = await self.command(
            "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
        )
        attached = await self.command(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = Page(self, attached["sessionId"], target["targetId"])
        self._pages[attached["sessionId"]] = page
        await page.prepare(width, height, dark)
        return page

    async def close(self) -> None:
        """Ends the browser."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), COMMAND_S)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._take(json.loads((await self._process.stdout.readuntil(b"\0"))[:-1]))
        except asyncio.IncompleteReadError:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(BrowserFailed("Chromium ended"))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            page = self._pages.get(message.get("sessionId", ""))
            if page is not None:
                page.heard(message["method"], message["params"])
            return
        answer = self._answers.pop(message["id"])
        if "error" in message:
            answer.set_exception(BrowserFailed(message["error"]["message"]))
        else:
            answer.set_result(message["result"])


class Page:
    """One page: what it logs and asks for is kept, and it can be looked at and driven."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.complaints: list[str] = []
        self.requests: list[str] = []

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to this page."""
        return await self._browser.command(method, self._session, **parameters)

    async def prepare(self, width: int, height: int, dark: bool) -> None:
        """Sets the viewport (a phone's below 600) and the reader's colour scheme, and listens."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.command(f"{domain}.enable")
        await self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.command("Emulation.setEmulatedMedia", features=[scheme])

    async def resize(self, width: int, height: int) -> None:
        """Another viewport, in CSS pixels."""
        await self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    async def open(self, url: str) -> None:
        """Goes there and waits until the document is read; its scripts may still be at work."""
        answer = await self.command("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserFailed(f"{url}: {answer['errorText']}")
        await self.until(
            f"location.href === {json.dumps(url)} && document.readyState !== 'loading'"
        )

    async def evaluate(self, expression: str) -> Any:
        """The expression's value, awaited where it is a promise."""
        answer = await self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserFailed(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str, seconds: float = PAGE_S) -> Any:
        """The expression's value as soon as it is true; AssertionError with the last one if not."""
        end = asyncio.get_running_loop().time() + seconds
        while not (value := await self.evaluate(expression)):
            if asyncio.get_running_loop().time() > end:
                text = await self.evaluate("document.body?.innerText")
                raise AssertionError(f"{expression} is {value!r} after {seconds} s of:\n{text}")
            await asyncio.sleep(LOOK_EVERY_S)
        return value

    async def press(self, key: str) -> None:
        """A key goes down and up."""
        for kind in ("keyDown", "keyUp"):
            await self.command("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    async def point(self, x: float, y: float) -> None:
        """The pointer moves there."""
        await self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def screenshot(self, whole: bool = True) -> bytes:
        """A PNG of the page, whole or as far as the viewport goes."""
        answer = await self.command(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        return base64.b64decode(answer["data"])

    async def close(self) -> None:
        """Closes the page."""
        await self._browser.command("Target.closeTarget", targetId=self._target)

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        """Keeps what the page complains about and what it asks for."""
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


@asynccontextmanager
async def started_browser(profile: Path, *more_flags: str) -> AsyncIterator[Browser]:
    """A browser with profile, an empty directory; its own output goes to a file in there."""
    log = profile / "chromium.log"
    flags = (*FLAGS, *more_flags, f"--user-data-dir={profile / 'data'}")
    # Its descriptors 3 and 4 are our pipe; what it prints itself goes into the file.
    joined = 'exec "$@" 3<&0 4>&1 </dev/null >&2'
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            joined,
            "sh",
            chromium(),
            *flags,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
            limit=LONGEST_MESSAGE,
            env={**os.environ, "HOME": str(profile)},
        )
    browser = Browser(process)
    try:
        yield browser
    finally:
        await browser.close()
