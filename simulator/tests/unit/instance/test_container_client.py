"""A container's listing as the platform reads it, whatever the container says."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from merlin_simulator.errors import ContainerFailed
from merlin_simulator.instance.container_client import ContainerClient
from merlin_simulator.rules import Rules
from simulator.tests.unit.plain_http import Answering, plain_http

RULES = replace(Rules(), ping_timeout_s=60.0)


@asynccontextmanager
async def _client(answering: Answering, rules: Rules = RULES) -> AsyncIterator[ContainerClient]:
    with plain_http(answering) as port:
        client = ContainerClient(f"http://127.0.0.1:{port}", rules)
        try:
            yield client
        finally:
            await client.close()


def _listing(*models: object, token: object = None) -> bytes:
    return json.dumps({"models": models, "nextPageToken": token}).encode()


async def test_all_pages_are_read() -> None:
    """The token of each page asks for the next one."""
    pages = {"2": _listing({"modelName": "b"}, token="3"), "3": _listing({"modelName": "c"})}
    first = _listing({"modelName": "a"}, token="2")
    async with _client(lambda _, path: pages.get(path[-1], first)) as client:
        assert await client.loaded() == frozenset("abc")


async def test_pages_without_end_are_no_listing() -> None:
    """A token that is always there is not followed for ever."""
    asked: list[str] = []

    def answering(_: str, path: str) -> bytes:
        asked.append(path)
        return _listing(token="again")

    async with _client(answering) as client:
        with pytest.raises(ContainerFailed, match="more than 100 pages"):
            await client.loaded()
    assert len(asked) == 100


async def test_slow_pages_have_one_deadline() -> None:
    """Each page in its time is not enough: all of them have five times that."""
    asked, rules = [], replace(RULES, ping_timeout_s=0.3)

    def answering(_: str, path: str) -> bytes:
        asked.append(path)
        time.sleep(rules.ping_timeout_s / 2)
        return _listing(token="again")

    async with _client(answering, rules) as client:
        with pytest.raises(ContainerFailed, match="did not answer in time") as failed:
            await client.loaded()
    assert failed.value.status == 0
    assert len(asked) <= 11


@pytest.mark.parametrize("name", [None, 7, ["a"], {"a": "b"}])
async def test_a_name_that_is_no_text_is_none(name: object) -> None:
    """As a nameless model: the listing says nothing certain."""
    async with _client(lambda *_: _listing({"modelName": "a"}, {"modelName": name})) as client:
        assert await client.loaded() is None


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"models": 1}', b'{"models": ["a"]}', _listing(token=[1]), b"\xff"],
)
async def test_what_is_no_listing_is_the_containers_failure(body: bytes) -> None:
    """The platform has one error for it, with what the container said."""
    async with _client(lambda *_: body) as client:
        with pytest.raises(ContainerFailed):
            await client.loaded()


async def test_a_model_of_any_name_can_be_unloaded() -> None:
    """What an earlier simulator left need not be named as this one names models."""
    asked: list[tuple[str, str]] = []

    def answering(method: str, path: str) -> bytes:
        asked.append((method, path))
        return b"{}"

    async with _client(answering) as client:
        await client.unload("a b/../c?d", "left over")
    assert asked == [("DELETE", "/models/a%20b%2F..%2Fc%3Fd")]


async def test_a_listing_that_is_too_deep_is_none() -> None:
    async with _client(lambda _, __: b"[" * 100_000) as client:
        with pytest.raises(ContainerFailed):
            await client.loaded()
