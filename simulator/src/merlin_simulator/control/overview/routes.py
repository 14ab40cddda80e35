"""The routes of the overview: its page, the same as JSON, and the page of each endpoint."""

from __future__ import annotations

import math

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from merlin_simulator.control.overview.endpoint_pages import EndpointPages
from merlin_simulator.control.overview.overview import Overview
from merlin_simulator.watch.page_answers import answer_json, answer_page, make_static_routes
from merlin_simulator.watch.page_routes import make_endpoint_routes, make_targets


def make_overview_routes(overview: Overview, pages: EndpointPages) -> list[Route]:
    """All of them GET.

    /simulator/overview: see Overview.as_json; ?since=SECONDS leaves out of each endpoint's course
    what is not newer. /simulator/health: 200 as soon as it answers, with the number of endpoints
    by status. /simulator/targets: every container, for Prometheus' http_sd_configs.
    """

    async def index(_: Request) -> Response:
        return answer_page("overview.html")

    async def whole(request: Request) -> Response:
        text = request.query_params.get("since", "0")
        try:
            since = float(text)
        except ValueError:
            since = math.nan
        if not math.isfinite(since):
            words = f"since is {text!r}: expected seconds since the epoch, as clock.now has them."
            return answer_json({"message": words}, 400)
        return answer_json(overview.as_json(since))

    async def health(_: Request) -> Response:
        return answer_json({"status": "in service", "endpoints": overview.counts()})

    async def targets(_: Request) -> Response:
        return answer_json([target for view in pages.views() for target in make_targets(view)])

    return [
        Route("/", index),
        *make_static_routes(),
        Route("/simulator/overview", whole),
        Route("/simulator/health", health),
        Route("/simulator/targets", targets),
        *make_endpoint_routes(pages.find),
    ]
