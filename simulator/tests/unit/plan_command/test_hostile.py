"""Files of somebody who means no good, and slips of the pen: one sentence, soon, and in bounds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.plan_command.files import PlanError, UnusableFile, printable
from merlin_simulator.plan_command.plan_toml import read_settings
from merlin_simulator.plan_command.replay_report import read_report
from merlin_simulator.plan_command.run import print_plan, print_simulated_replay

REPLAY = Path(__file__).with_name("replays") / "busy/two-instances.json"
DEMAND = "[demand]\nmodels = 5\nrps = 5\nhours = 0.01\n"
ARCHIVES = '[[archives]]\nmemory = "100MB"\nload_s = 1.0\nservice_s = 0.01\n'
INSTANCES = '[instances]\ntypes = ["ml.m5.xlarge"]\n'
WHOLE = DEMAND + ARCHIVES + INSTANCES
#: What no sentence is longer than, and one line.
MOST_SENTENCE = 700


def refusal(make: Callable[[], object]) -> str:
    """The sentence that a plan is refused with."""
    with pytest.raises(PlanError) as refused:
        make()
    said = str(refused.value)
    assert len(said) < MOST_SENTENCE
    assert "\n" not in said
    return said


def plan_of(tmp_path: Path, text: str | bytes) -> bool:
    """Of a PLAN.toml, from beginning to end."""
    path = tmp_path / "PLAN.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return print_plan(read_settings(path), tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x=" + "[" * 40_000 + "]" * 40_000, "too deep"),
        ("x=" + "{a=" * 5000 + "1" + "}" * 5000, "too deep"),
        ("a" + ".a" * 49_000 + "=1", "found more than 500 dots"),
        ("[" + '",".' * 20_000 + "a]", "found more than 500 dots"),
        ("seed=" + "9" * 5000, "a number of thousands of digits"),
        ("seed=0x" + "f" * 5000 + "\n" + WHOLE, "found a number of thousands of digits"),
        (b"#" * 200_000, "more than 0.1 MB"),
        (WHOLE.encode("utf-16"), "no text in UTF-8"),
        ("[demand]\nmodels = 10000000\n" + ARCHIVES + INSTANCES, "from 1 to 100000"),
        ("[demand]\nrps = 1e15\n" + ARCHIVES + INSTANCES, "from 0 to 1e+06"),
        ("[demand]\nhours = 1e300\n" + ARCHIVES + INSTANCES, "from 0 to 100000"),
        ("[demand]\nnew_models_a_day = 1e9\n" + ARCHIVES + INSTANCES, "at most 100,000"),
        (DEMAND + "days_of_week = [0, 0, 0, 0, 0, 0, 1]\n" + ARCHIVES + INSTANCES, "rate of 0 in"),
        (DEMAND + "days_of_week = [{a = 1}]\n" + ARCHIVES + INSTANCES, "expected numbers"),
        (DEMAND + 'trace = "a\\u0000b"\n' + ARCHIVES + INSTANCES, "no readable file"),
        (DEMAND + ARCHIVES + "concurrency = 1000000000\n" + INSTANCES, "from 1 to 10000"),
        (DEMAND + ARCHIVES + 'disk = "' + "9" * 400 + 'TB"\n' + INSTANCES, "a size such as"),
        (WHOLE + 'counts = "1-999999999999"\n', "numbers from 1 to 1000"),
        (WHOLE + "counts = [1000000]\n", "numbers from 1 to 1000"),
        (WHOLE + '[autoscaling]\ntarget = 1\nbounds = ["²-³"]\n', "the least and the most"),
        (WHOLE + '[autoscaling]\ntarget = 1\nbounds = ["1-1000000"]\n', "up to 1000"),
        (WHOLE + "[rules]\nmemory_threshold = 1e300\n", "from 0 to 1"),
        ("seed = [1]\n" + WHOLE, "found a list of 1, expected a whole number"),
        (
            "instance_types = 5\n" + WHOLE.replace("ml.m5.xlarge", "ml.no"),
            "instance_types",
        ),
        (
            '[[instance_types]]\nname = "a\\u001b[2J\\nb"\ncores = 1\nmemory = "8GB"\n' + WHOLE,
            "expected one line",
        ),
        (
            DEMAND
            + ARCHIVES
            + '[instances]\ncounts = "1-1000"\ntypes = ['
            + '"ml.m5.xlarge",\n' * 11
            + "]\n",
            "more than 10,000 candidates",
        ),
        (
            "[demand]\nrps = 1e6\nhours = 1\n"
            + ARCHIVES
            + INSTANCES
            + '[rules]\ncache = "Disabled"',
            "expected at most 100,000,000",
        ),
        (
            "[demand]\nmodels = 1\nrps = 1e6\nhours = 1\n"
            '[[archives]]\nmemory = "1MB"\nload_s = 50\nservice_s = 1e-6\n' + INSTANCES,
            "expected at most 2,000,000",
        ),
    ],
)
def test_a_plan_that_is_absurd(tmp_path: Path, text: str | bytes, said: str) -> None:
    """Whatever is reckoned of it would take all the memory, or days; or it is a number of no
    archive, no instance and no rate."""
    assert said in refusal(lambda: plan_of(tmp_path, text))


def test_many_numbers_are_no_key(tmp_path: Path) -> None:
    """A distribution may have thousands of values."""
    many = ", ".join(["0.25"] * 5000)
    text = WHOLE.replace("service_s = 0.01", f"service_s = [{many}]")
    assert plan_of(tmp_path, text)


@pytest.mark.parametrize("key", ["trace", "cloudwatch", "report"])
def test_files_without_an_end(tmp_path: Path, key: str) -> None:
    """They are read up to a bound."""
    in_demand = key in ("trace", "cloudwatch")
    demand = DEMAND + (f'{key} = "/dev/zero"\n' if in_demand else "")
    archives = ARCHIVES if in_demand else f'[[archives]]\n{key} = "/dev/zero"\n'
    assert "found " in refusal(lambda: plan_of(tmp_path, demand + archives + INSTANCES))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,1\n1,1\n1e15,1\n", "expected at most 1,000,000 of them"),
        ("-1e308,1\n1e308,1\n", "expected at most 1,000,000 of them"),
        ("0,1e308\n1,1e308\n", "invocations a second"),
    ],
)
def test_a_series_that_is_absurd(tmp_path: Path, rows: str, said: str) -> None:
    """Two lines may stand for any number of periods."""
    (tmp_path / "c.csv").write_text("time,invocations\n" + rows)
    text = DEMAND + 'cloudwatch = "c.csv"\n' + ARCHIVES + INSTANCES
    assert said in refusal(lambda: plan_of(tmp_path, text))


def changed(whole: Any, way: tuple[str | int, ...], value: object) -> Any:
    """With another value there."""
    whole = copy.deepcopy(whole)
    inner = whole
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return whole


def ways_of(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """To each member, and to the first of each list."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*way, key)
            yield from ways_of(one, (*way, key))
    elif isinstance(value, list) and value:
        yield (*way, 0)
        yield from ways_of(value[0], (*way, 0))


@pytest.mark.parametrize(
    "value", [-1, 1e308, 10**400, "\x1b[2J", [], {}, True, [None], float("nan"), float("inf")]
)
def test_reports_of_others(tmp_path: Path, value: object) -> None:
    """Any member may be anything: a plan is made, or one sentence says what is wrong with it."""
    report, path = json.loads(REPLAY.read_text()), tmp_path / "report.json"
    report["settings"] |= {"duration_s": 1.0, "models": 3}
    refusals = []
    for way in ways_of(report):
        if way[0] not in ("settings", "machine", "calibration"):
            continue
        path.write_text(json.dumps(changed(report, way, value)))
        try:
            print_simulated_replay(path, tmp_path / "plan.json")
        except UnusableFile as error:
            refusals.append(str(error))
    assert refusals
    assert max(map(len, refusals)) < MOST_SENTENCE


@pytest.mark.parametrize(
    ("key", "said"), [('""', "''"), ('"a\\nb"', r"'a\nb'"), ("a" * 5000, "'aaa")]
)
@pytest.mark.parametrize("above", ["", "[demand]\n"])
def test_keys_of_any_text(tmp_path: Path, key: str, said: str, above: str) -> None:
    """A mistake is one line, whatever its key holds."""
    assert f"{said}" in refusal(lambda: plan_of(tmp_path, f"{above}{key} = 1\n{ARCHIVES}"))


def test_a_report_too_deep_in_one_of_its_parts(tmp_path: Path) -> None:
    """JSON's reader takes it, and what goes through it does not."""
    path = tmp_path / "report.json"
    calibration = '{"a": ' * 900 + "1" + "}" * 900
    path.write_text(f'{{"format": 1, "settings": {{}}, "calibration": {calibration}}}')
    assert "too deep" in refusal(lambda: read_report(path))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_json_that_nobody_reads(tmp_path: Path, text: str) -> None:
    """Too deep, too many digits."""
    path = tmp_path / "it.json"
    path.write_text(text)
    assert "expected a replay's report.json" in refusal(lambda: read_report(path))


def test_what_is_printed_moves_no_cursor() -> None:
    """Whatever stands in somebody's file."""
    assert printable("a\x1b[2J\u202eb\x9b\n") == "a\\x1b[2J\\u202eb\\x9b\n"
