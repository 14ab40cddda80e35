"""examples/observe and docs/metrics.md, held against Prometheus' rules and the code's metrics."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from container.telemetry.capture.tally import CaptureTally
from container.telemetry.cloudwatch import make_counters
from examples.observe.panels import fill_in, read_panels
from serve.telemetry.meters import PARTS
from serve.telemetry.metrics import Metrics
from tests.architecture.listings import ROOT, metric_rows
from tests.support.promtool import PromtoolMissing, find_promtool, run_promtool
from tests.support.triton_metrics import TRITON_METRICS

OBSERVE = ROOT / "examples/observe"
RULES, CONFIG, DASHBOARD = (
    OBSERVE / name for name in ("rules.yml", "prometheus.yml", "dashboard.json")
)
METRICS_PAGE = ROOT / "docs/metrics.md"
#: A metric's name, and no part of a recorded series' name.
NAME = re.compile(r"(?<![\w:/.])(?:serve|nv)_[a-z]\w*(?![\w:])")
RECORDED = re.compile(r"\w+:\w+:\w+")
ENDS = {"histogram": ("_bucket", "_sum", "_count", "")}


def known_names() -> set[str]:
    """Every name under which a container's page has a series, and those of the table."""
    ours = {name + end for name, kind, *_ in metric_rows() for end in ENDS.get(kind, ("",))}
    return ours | TRITON_METRICS


def label_values() -> set[str]:
    """Every value that a label of a rare event may have."""
    events = Metrics().events
    make_counters(events)
    CaptureTally(events)
    samples = [sample for metric in events.collect() for sample in metric.samples]
    return {
        value for sample in samples for name, value in sample.labels.items() if name != "le"
    } | set(PARTS)


def test_every_value_of_a_label_is_explained() -> None:
    """In the tables below the listing, by its name."""
    tables = METRICS_PAGE.read_text().partition("### What the values mean")[2].partition("\n## ")[0]
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    values = label_values()
    assert len(values) > 25
    missing = {value for value in values if not any(f"`{value}`" in row for row in rows)}
    assert not missing


@pytest.mark.parametrize("words", [("check", "rules", RULES), ("check", "config", CONFIG)])
def test_prometheus_takes_the_files(words: tuple[str | Path, ...]) -> None:
    """As promtool reads them."""
    code, said = run_promtool(*words)
    assert code == 0, said


def test_the_receiver_of_traces_prints_each_span() -> None:
    """Compressed or not, as the SDK sends them."""
    sent = ExportTraceServiceRequest()
    span = sent.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"t" * 16, b"s" * 8, "invocation"
    span.end_time_unix_nano = 2_500_000
    span.attributes.add(key="cold").value.bool_value = True
    body = sent.SerializeToString()
    command = [sys.executable, "-m", "examples.observe.spans", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as printing:
        try:
            assert printing.stdout is not None
            found = re.search(r"http://\S+(?=;)", printing.stdout.readline())
            assert found
            for data, headers in ((body, {}), (gzip.compress(body), {"content-encoding": "gzip"})):
                answer = httpx.post(found[0], content=data, headers=headers, timeout=60)
                assert answer.status_code == 200
                words = printing.stdout.readline().split()
                assert words[0] == span.trace_id.hex()
                assert words[1:] == [
                    f">{span.span_id.hex()}",
                    "2.500",
                    "ms",
                    "invocation",
                    "cold=True",
                ]
        finally:
            printing.kill()


def test_every_alert_fires_and_rests() -> None:
    """Each one on series that call for it, and none on those of a container that is well."""
    tests = Path(__file__).with_name("observe_rules.yml")
    code, said = run_promtool("test", "rules", tests)
    assert code == 0, said
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", tests.read_text()))


@pytest.mark.parametrize("page", [RULES, DASHBOARD, METRICS_PAGE], ids=lambda page: page.name)
def test_named_metrics_exist(page: Path) -> None:
    named = set(NAME.findall(page.read_text()))
    assert len(named) > 5
    assert named - known_names() == set()


def test_recorded_series_are_recorded() -> None:
    """What an alert looks at, and what a page names."""
    rules = RULES.read_text()
    recorded = set(re.findall(r"- record: (\S+)", rules))
    assert recorded
    assert set(RECORDED.findall(rules + METRICS_PAGE.read_text())) == recorded


def test_expressions_are_prometheus(tmp_path: Path) -> None:
    """Those of the dashboard's panels, and the queries of docs/metrics.md."""
    panels = [fill_in(target["expr"]) for panel in read_panels() for target in panel["targets"]]
    queries = re.findall(r"```promql\n(.*?)```", METRICS_PAGE.read_text(), re.DOTALL)
    assert len(panels) > 20
    assert queries
    found = [*panels, *_statements("".join(queries))]
    rules = [{"record": f"checked:{n}", "expr": expression} for n, expression in enumerate(found)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "checked", "rules": rules}]}))  # YAML, too
    code, said = run_promtool("check", "rules", path)
    assert code == 0, said


def _statements(text: str) -> list[str]:
    """A line that is indented belongs to the one above."""
    return re.sub(r"\n\s+", " ", text).strip().splitlines()


def test_the_dashboard_is_whole() -> None:
    """Its variables are there and used, its panels have places and numbers of their own."""
    dashboard = json.loads(DASHBOARD.read_text())
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert variables >= {"target_model", "instance"}
    text = json.dumps(dashboard["panels"])
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval"}
    assert used == variables
    numbers = [panel["id"] for panel in dashboard["panels"]]
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers)) == len(set(places))
    assert [row["title"] for row in dashboard["panels"] if row["type"] == "row"] == [
        "Overview",
        "The chosen archives",
    ]


def test_without_promtool_the_tests_fail_and_say_so() -> None:
    with pytest.raises(PromtoolMissing, match="apt-get install prometheus"):
        find_promtool(path="/nowhere")
