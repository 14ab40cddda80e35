"""PLAN.toml and prices: what is right is read, what is wrong is said with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from merlin_simulator.plan_command.files import Impossible, PlanError, UnusableFile
from merlin_simulator.plan_command.instance_types import find_instance_type
from merlin_simulator.plan_command.plan_toml import read_settings
from merlin_simulator.plan_command.settings import BurstTable
from merlin_simulator.rules import GIB, MIB, CacheSetting

NO_COUNTS = "# counts: not beside [autoscaling]"
GOOD = """\
seed = 7
prices = "prices.csv"

[demand]
models = 40
zipf = 0.9
rps = 12.5
hours = 2
new_models_a_day = 5

[[demand.bursts]]
at_hour = 1
minutes = 10
factor = 4

[[archives]]
memory = "40MB"
load_s = [0.5, 1.0]
service_s = 0.01
gpu_memory = "1GB"

[[archives]]
match = "big-*"
memory = "400MB"
load_s = 2
service_s = [0.05, 0.02]

[container]
base_memory = "300MB"
disk = "20GB"

[[instance_types]]
name = "ml.own.large"
cores = 4
memory = "16GB"

[instances]
types = ["ml.own.large", "ml.g4dn.xlarge"]
# counts: not beside [autoscaling]

[autoscaling]
target = 600
bounds = ["1-4"]

[rules]
cache = "Disabled"
busy_at = 2

[goals]
p99_s = 2.5
cold_share = 0.02
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "prices.csv").write_text("instance_type,price_an_hour\nml.own.large,0.5\n")
    path = tmp_path / "PLAN.toml"
    path.write_text(text, "utf-8")
    return path


def test_all_of_it_is_read(tmp_path: Path) -> None:
    """Each table into its dataclass; distributions are sorted."""
    settings = read_settings(written(tmp_path, GOOD))
    assert (settings.seed, settings.prices) == (7, {"ml.own.large": 0.5})
    assert read_settings(written(tmp_path, GOOD.replace("seed = 7", "seed = 0"))).seed == 0
    demand = settings.demand
    assert (demand.models, demand.rps, demand.new_models_a_day) == (40, 12.5, 5.0)
    assert demand.bursts == [BurstTable(1, 10, 4)]
    small, big = settings.kinds
    assert (small.match, big.match) == (None, "big-*")
    assert (small.figures.memory, small.figures.gpu_memory) == (40 * MIB, GIB)
    assert (small.figures.load_s, big.figures.service_s) == ((0.5, 1.0), (0.02, 0.05))
    assert [one.name for one in settings.types] == ["ml.own.large", "ml.g4dn.xlarge"]
    assert [one.gpu_memory for one in settings.types] == [None, 16 * GIB]
    assert settings.autoscaling is not None
    assert settings.autoscaling.bounds == [(1, 4)]
    assert settings.rules == {"cache": CacheSetting.DISABLED, "busy_at": 2}
    assert (settings.goals.p99_s, settings.goals.failures) == (2.5, None)
    assert settings.container.disk == 20 * GIB


def test_counts_in_place_of_autoscaling(tmp_path: Path) -> None:
    """The least and the most."""
    text = GOOD.replace(NO_COUNTS, 'counts = "1-3"').replace("[autoscaling]\ntarget = 600\n", "")
    settings = read_settings(written(tmp_path, text.replace('bounds = ["1-4"]\n', "")))
    assert (settings.counts, settings.autoscaling) == ((1, 2, 3), None)


@pytest.mark.parametrize(
    ("good", "wrong", "place", "said"),
    [
        ("models = 40", "models = 0", "5:1", "demand.models: found 0"),
        ("models = 40", "modles = 40", "5:1", "did you mean models?"),
        ("models = 40", "models = ", "5:10", "it is no TOML"),
        ("zipf = 0.9", 'zipf = "flat"', "6:1", "demand.zipf: found 'flat', expected a number"),
        ("rps = 12.5", "rps = 0", "7:1", "expected more than 0"),
        ("rps = 12.5", "rps = nan", "7:1", "demand.rps"),
        ("at_hour = 1", "at_hour = 2", "12:1", "found a burst after the end"),
        ('memory = "40MB"', 'memory = "lots"', "17:1", "expected a size such as 4GB"),
        ('memory = "40MB"', "memory = 40", "17:1", 'expected a size such as "40MB"'),
        ('memory = "40MB"\n', "", "16:1", "[archives]: found no memory"),
        ("service_s = 0.01\n", "", "16:1", "found no service_s"),
        ("load_s = [0.5, 1.0]", "load_s = []", "18:1", "found 0 numbers"),
        ("load_s = 2", "load_s = -2", "25:1", "expected numbers from 0"),
        ('"ml.g4dn.xlarge"', '"ml.g4.xlarge"', "38:1", "found instance type 'ml.g4.xlarge'"),
        (NO_COUNTS, 'counts = "3-1"', "39:1", "instances.counts: found '3-1'"),
        (NO_COUNTS, "counts = [0]", "39:1", "instances.counts"),
        (NO_COUNTS, 'counts = "1-3"', "39:1", "instances.counts: found beside [autoscaling]"),
        ('bounds = ["1-4"]', 'bounds = ["4-1"]', "43:1", "the least and the most"),
        ('cache = "Disabled"', 'cache = "off"', "46:1", "expected Enabled or Disabled"),
        ("cold_share = 0.02", "cold_share = 2", "51:1", "a share from 0 to 1"),
        ("[goals]", "[gaols]", "49:1", ": gaols: found a table that is not known"),
        ("[goals]", "[gaols]", "49:1", "did you mean goals?"),
        ("[goals]", "[wish]", "49:1", "known: demand, archives, "),
        ("models = 40", 'trace = "a.csv"\ncloudwatch = "b.csv"', "6:1", "one of the two"),
        ("hours = 2", "hours_of_day = [1, 2]", "8:1", "found 2 numbers, expected 24"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, good: str, wrong: str, place: str, said: str
) -> None:
    """File, line and column, and one sentence."""
    assert good in GOOD
    path = written(tmp_path, GOOD.replace(good, wrong, 1))
    with pytest.raises(UnusableFile) as refused:
        read_settings(path)
    message = str(refused.value)
    assert message.startswith(f"{path}:{place}: "), message
    assert said in message
    assert "\n" not in message


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    """In their order, each with its place; up to twenty, then how many more there are."""
    text = GOOD.replace("models = 40", "models = 0").replace("factor = 4", 'factor = "x"')
    text = text.replace("load_s = 2\n", "").replace("[goals]", "[gaols]")
    text = text.replace(NO_COUNTS, "counts = [1]")
    path = written(tmp_path, text)
    with pytest.raises(UnusableFile) as refused:
        read_settings(path)
    assert [line.removeprefix(f"{path}:") for line in str(refused.value).splitlines()] == [
        "5:1: demand.models: found 0, expected a whole number from 1 to 100000",
        "14:1: demand.bursts.factor: found 'x', expected a number",
        "22:1: [archives]: found no load_s, expected one",
        "38:1: instances.counts: found beside [autoscaling], whose bounds say how many; leave one",
        "48:1: gaols: found a table that is not known; did you mean goals?",
    ]
    path.write_text("\n".join(f"x{n} = 1" for n in range(30)) + "\n" + GOOD)
    with pytest.raises(UnusableFile) as refused:
        read_settings(path)
    lines = str(refused.value).splitlines()
    assert (len(lines), lines[-1]) == (21, "and 10 more")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """The plan itself, and what it names."""
    with pytest.raises(PlanError, match="found no readable file"):
        read_settings(tmp_path / "none.toml")
    text = GOOD.replace('memory = "40MB"', 'report = "none.json"')
    with pytest.raises(PlanError, match=r"none\.json: found no"):
        read_settings(written(tmp_path, text))


@pytest.mark.parametrize("source", ["verify", "metrics"])
def test_a_source_that_plans_take_no_more(tmp_path: Path, source: str) -> None:
    """It is said with its line, and with what to give in its place."""
    text = GOOD.replace('memory = "40MB"', f'{source} = "some.json"')
    with pytest.raises(PlanError, match=r"PLAN\.toml:\d+:.*expected report, the report\.json of a"):
        read_settings(written(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "cores", "memory", "gpu"),
    [
        ("ml.g4dn.xlarge", 4, 16, 16),
        ("ml.g5.12xlarge", 48, 192, 24),
        ("ml.m5.large", 2, 8, None),
        ("ml.c5.9xlarge", 36, 72, None),
        ("ml.p3.2xlarge", 8, 61, 16),
        ("ml.g6e.xlarge", 4, 32, 48),
        ("ml.t2.medium", 2, 4, None),
    ],
)
def test_instance_types(name: str, cores: int, memory: int, gpu: int | None) -> None:
    """vCPUs, memory and the memory of one GPU, by AWS's tables."""
    found = find_instance_type(name)
    assert (found.cores, found.memory) == (cores, memory * GIB)
    assert found.gpu_memory == (None if gpu is None else gpu * GIB)


def test_types_that_are_not_known() -> None:
    """With families that are like it."""
    with pytest.raises(Impossible, match=r"'ml\.g7dn\.xlarge'.*g4dn"):
        find_instance_type("ml.g7dn.xlarge")
    with pytest.raises(Impossible, match=r"'m5\.xlarge'.*: ml\.m5\.xlarge$"):
        find_instance_type("m5.xlarge")
