"""What containers count of their models' columns: values, and those that no vocabulary has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import aiohttp

#: For all containers at once, in seconds; bytes of one's page.
_TIMEOUT_S, _LONGEST = 3.0, 32 * 1024 * 1024
_PREFIX = "serve_feature_"
#: The container's counters, by what they are called here.
_COUNTERS = {f"{_PREFIX}{name}_total": name for name in ("values", "unseen", "null")}


async def read_features(urls: Iterable[str]) -> list[dict[str, Any]]:
    """The sums of each archive over the containers, largest share of unseen values first.

    A container that does not answer in time, or with something else, counts nothing.
    """
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as http:
        pages = await asyncio.gather(*(_read_lines(http, url) for url in urls))
    sums: dict[str, Counter[str]] = {}
    for page in pages:
        for name, target, value in _parse(page):
            sums.setdefault(target, Counter())[name] += int(value)
    models: list[dict[str, Any]] = [
        {"target_model": target, **{name: it[name] for name in _COUNTERS.values()}}
        for target, it in sums.items()
        if it["values"]
    ]
    return sorted(models, key=lambda model: (-model["unseen"] / model["values"], -model["values"]))


async def _read_lines(http: aiohttp.ClientSession, url: str) -> str:
    """The lines of a container's page that are wanted: others are tens of thousands."""
    try:
        async with http.get(f"{url}/metrics") as answer:
            page = bytearray()
            async for part in answer.content.iter_any():
                page += part
                if len(page) > _LONGEST:
                    return ""
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError):
        return ""
    lines = page.decode(errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(_PREFIX))


def _parse(lines: str) -> list[tuple[str, str, float]]:
    """Counter, archive and value of each sample; none where they are no Prometheus text."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        samples = [it for family in text_string_to_metric_families(lines) for it in family.samples]
        return [
            (_COUNTERS[it.name], it.labels["target_model"], it.value)
            for it in samples
            if it.name in _COUNTERS
        ]
    except (ValueError, LookupError, AttributeError, TypeError):
        return []
