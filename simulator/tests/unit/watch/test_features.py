"""The containers' counts of unknown values, added up by archive."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestServer

from merlin_simulator.watch.features import read_features

PAGE = """\
# HELP serve_feature_values_total Values.
# TYPE serve_feature_values_total counter
serve_feature_values_total{target_model="a.tar.gz",model_name="1",column="age"} 100
serve_feature_values_total{target_model="a.tar.gz",model_name="1",column="item"} 100
serve_feature_values_total{target_model="b\\\\\\"c",model_name="2"} 50
serve_feature_values_total{target_model="idle",model_name="3"} 0
# TYPE serve_feature_unseen_total counter
serve_feature_unseen_total{target_model="a.tar.gz",model_name="1",column="item"} 10
serve_feature_unseen_total{target_model="b\\\\\\"c",model_name="2"} 5
# TYPE serve_feature_null_total counter
serve_feature_null_total{target_model="a.tar.gz",model_name="1",column="age"} 7
serve_feature_null_total{target_model="b\\\\\\"c",model_name="2"} 0
# TYPE serve_invocations_total counter
serve_invocations_total{target_model="a.tar.gz"} 999
"""


async def serve(text: str, status: int = 200) -> TestServer:
    """A container whose page is that."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    server = TestServer(app)
    await server.start_server()
    return server


async def test_sums_over_containers_and_columns() -> None:
    """An archive with nothing counted is left out; the larger share, then the more values."""
    first, second = await serve(PAGE), await serve(PAGE)
    try:
        models = await read_features([str(it.make_url("/")).rstrip("/") for it in (first, second)])
    finally:
        await first.close()
        await second.close()
    assert models == [
        {"target_model": 'b\\"c', "values": 100, "unseen": 10, "null": 0},
        {"target_model": "a.tar.gz", "values": 400, "unseen": 20, "null": 14},
    ]


async def test_a_container_that_says_nothing_of_the_kind() -> None:
    """Nobody listens, a page that is cut off or no text: the others are shown."""
    pages = ["<html>", "serve_feature_values_total{target_model=", "serve_feature_values_total 5\n"]
    servers = [await serve(page) for page in [*pages, PAGE]]
    try:
        urls = [str(it.make_url("/")).rstrip("/") for it in servers]
        models = await read_features(["http://127.0.0.1:1", *urls])
    finally:
        for server in servers:
            await server.close()
    assert [model["values"] for model in models] == [50, 200]
