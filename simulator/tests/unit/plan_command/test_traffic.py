"""Traces, CloudWatch's series and waves: what is read, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from merlin_simulator.plan_command.files import UnusableFile
from merlin_simulator.plan_command.instance_types import read_prices
from merlin_simulator.plan_command.settings import (
    ArchiveKind,
    BurstTable,
    DemandTable,
    PlanSettings,
    make_steps,
)
from merlin_simulator.plan_command.traffic import make_traffic, read_series, read_trace
from simulator.tests.support.simulated import archives

TRACE = "time,target_model\n10.0,a.tar.gz\n10.5,b.tar.gz\n12,a.tar.gz\n"
SETTINGS = PlanSettings(DemandTable(), [ArchiveKind(archives(1)[0])], [])


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.csv"
    path.write_text(text, "utf-8")
    return path


def test_a_trace(tmp_path: Path) -> None:
    """Seconds count from its first request; columns in any order, times as dates, too."""
    trace = read_trace(written(tmp_path, TRACE))
    assert (trace.times, trace.models) == ([0.0, 0.5, 2.0], [0, 1, 0])
    assert (trace.names, trace.lines) == (["a.tar.gz", "b.tar.gz"], [2, 3])
    dates = "status,target_model,time\n200,a,2026-01-01T00:00:00Z\n200,b,2026-01-01T00:01:00Z\n"
    assert read_trace(written(tmp_path, dates)).times == [0.0, 60.0]


@pytest.mark.parametrize(
    ("good", "wrong", "place", "said"),
    [
        ("12,a", "10.4,a", ":4:1", "before that of the line above"),
        ("12,a", "noon,a", ":4:1", "found 'noon', expected seconds or a time"),
        ("12,a.tar.gz", "12", ":4:3", "found 1 columns, expected 2"),
        ("12,a.tar.gz", "12,", ":4:4", "found no target model"),
        ("time,target_model", "when,model", ":1", "found the columns when, model"),
        (TRACE, "", ":1", "found the columns (none)"),
        (TRACE, "time,target_model\n", ":2", "found no requests"),
        ("10.5", '"10.5', ":", "found no CSV"),
    ],
)
def test_a_trace_that_is_wrong(
    tmp_path: Path, good: str, wrong: str, place: str, said: str
) -> None:
    """Line and column."""
    path = written(tmp_path, TRACE.replace(good, wrong))
    with pytest.raises(UnusableFile) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{place}")
    assert said in str(refused.value)


def test_models_that_no_archive_is_for(tmp_path: Path) -> None:
    """Where each kind of archive has a pattern, a trace may ask for what none matches."""
    path = written(tmp_path, TRACE)
    settings = replace(SETTINGS, demand=DemandTable(trace=path))
    assert [one.name for one in make_traffic(settings).archives] == ["a.tar.gz", "b.tar.gz"]
    only = replace(settings, kinds=[ArchiveKind(archives(1)[0], "a*")])
    with pytest.raises(UnusableFile, match=r"given\.csv:3: found target model b\.tar\.gz"):
        make_traffic(only)


def test_a_trace_with_more_requests(tmp_path: Path) -> None:
    """The same ones in less time."""
    traffic = make_traffic(replace(SETTINGS, demand=DemandTable(trace=written(tmp_path, TRACE))))
    twice = traffic.make(2.0)
    assert twice.duration == pytest.approx(1.0, abs=1e-3)
    assert twice.draw_times(0, 0.0, 2.0) == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize("start", [0, 9e8])
@pytest.mark.parametrize("more", [1.0, 1.25, 3.0, 8.0])
def test_requests_of_one_second_are_as_many(tmp_path: Path, start: float, more: float) -> None:
    """Each is one of its own, from the first on, in the order of its line."""
    rows = [(0, name) for name in "abaab"] + [(start + 5, name) for name in "bbb"]
    lines = [f"{at},{name}\n" for at, name in rows]
    path = written(tmp_path, "".join(["time,target_model\n", *lines]))
    demand = make_traffic(replace(SETTINGS, demand=DemandTable(trace=path))).make(more)
    assert demand.count_all(0.0, demand.duration) == len(rows)
    found = [demand.draw_times(model, 0.0, demand.duration) for model in (0, 1)]
    assert [len(set(times.tolist())) for times in found] == [3, 5]
    assert found[0][0] < found[1][0] < found[0][1] < found[0][2] < found[1][1]
    assert demand.find_next(0, 0.0) == found[0][0]


def test_cloudwatchs_series(tmp_path: Path) -> None:
    """A period without a line had no requests; the demand has as many in each as there were."""
    rows = "time,invocations\n0,60\n60,600\n180,120\n"
    series = read_series(written(tmp_path, rows))
    assert (series.counts, series.period_s) == ([60.0, 600.0, 0.0, 120.0], 60.0)
    demand = make_traffic(
        replace(SETTINGS, demand=DemandTable(models=3, cloudwatch=tmp_path / "given.csv"))
    ).make(1.0)
    assert demand.duration == 240.0
    assert demand.count_all(60.0, 120.0) == pytest.approx(600, abs=120)
    assert demand.count_all(120.0, 180.0) == 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,5\n", "found 1 periods"),
        ("0,5\n0,6\n", ":3:1: found time 0, expected one after"),
        ("0,5\n60,-1\n", ":3:4: found '-1'"),
        ("0,0\n60,0\n", "found no invocations"),
    ],
)
def test_a_series_that_is_wrong(tmp_path: Path, rows: str, said: str) -> None:
    """One sentence."""
    with pytest.raises(UnusableFile) as refused:
        read_series(written(tmp_path, "time,invocations\n" + rows))
    assert said in str(refused.value)


def test_waves() -> None:
    """Hours and days have a mean of 1, bursts come on top."""
    assert make_steps(DemandTable(), ()) == [1.0]
    steps = np.array(make_steps(DemandTable(hours_of_day=[1.0] * 12 + [3.0] * 12), ()))
    assert steps.mean() == pytest.approx(1.0)
    assert (steps[0], steps[-1]) == (0.5, 1.5)
    weekend = make_steps(DemandTable(hours=7 * 24.0, days_of_week=[1, 1, 1, 1, 1, 0, 0]), ())
    assert (weekend[0], weekend[-1]) == (1.4, 0.0)
    burst = make_steps(DemandTable(hours=2.0), [BurstTable(1.0, 1.0, 5.0)])
    assert sum(burst) / len(burst) == pytest.approx(1 + 4 * 60 / 7200, rel=0.01)


def test_new_models_come_in_their_time() -> None:
    """Nobody asks for one before it is there."""
    demand = DemandTable(models=10, hours=24.0, new_models_a_day=3.0, rps=1.0)
    traffic = make_traffic(replace(SETTINGS, demand=demand))
    made = traffic.make(1.0)
    assert len(traffic.archives) == made.models == 13
    assert [made.rate(model, 0.0) > 0 for model in (9, 10, 12)] == [True, False, False]
    assert made.rate(12, 86399.0) > 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [("ml.a.b,free\n", ":2:8: found 'free'"), ("ml.a.b,-1\n", ":2:8"), ("", "found no rows")],
)
def test_prices_that_are_wrong(tmp_path: Path, rows: str, said: str) -> None:
    """Line and column."""
    with pytest.raises(UnusableFile) as refused:
        read_prices(written(tmp_path, "instance_type,price_an_hour\n" + rows))
    assert said in str(refused.value)
