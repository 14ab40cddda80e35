"""Whatever befalls a container, tenants are answered rightly: the short form of `make chaos`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.reliability.chaos import Happened, Stage, happen, is_excused, quick
from tests.reliability.faults import Fault, with_name
from tests.reliability.traffic import Asked, Traffic

TENANTS = 8
LASTS_S = 1.0
RATE = 8.0
SEED = 7

pytestmark = pytest.mark.thorough


@dataclass
class Chaos:
    """The stage, and the traffic that never pauses."""

    stage: Stage
    traffic: Traffic
    chance: random.Random

    def happen(self, fault: Fault) -> Happened:
        """Let it happen; a container that did not stand is another for the next fault."""
        scene = self.stage.scene(self.chance, LASTS_S)
        if lacking := fault.needs(scene):
            pytest.skip(lacking)
        found = happen(self.stage, fault, scene, self.traffic)
        self.stage.heal(found)
        return found


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    """Eight small tenants, asked all the time."""
    stage = Stage(tmp_path_factory.mktemp("chaos"), TENANTS, (), SEED)
    try:
        with Traffic(stage.tenants, lambda: stage.port, RATE, SEED) as traffic:
            yield Chaos(stage, traffic, random.Random(SEED))
    finally:
        stage.close()


@pytest.mark.parametrize("name", [fault.name for fault in quick()])
def test_fault(name: str, chaos: Chaos) -> None:
    """No answer is wrong, none lost but what was in flight in what was killed; all are right again.

    An attacker is answered as a caller at fault, and neither tritonserver nor the container ends.
    """
    found = chaos.happen(with_name(name))
    assert found.asked > 0
    assert list(found.failures()) == []


def test_no_answer_was_wrong(chaos: Chaos) -> None:
    """All through the faults above no tenant was given another's numbers."""
    assert [one for one in chaos.traffic.asked if one.wrong] == []


@pytest.mark.parametrize(
    ("tenant", "sent", "over", "status", "expected"),
    [
        ("killed", 1.0, 3.0, 500, True),
        ("killed", 1.0, 3.0, 0, False),
        ("killed", 2.5, 3.0, 500, False),
        ("other", 1.0, 3.0, 500, False),
    ],
)
def test_what_a_killed_stub_excuses(
    tenant: str, sent: float, over: float, status: int, expected: bool
) -> None:
    """Only an error to what was in flight, at the kill (second 2), in the model that was killed."""
    one = Asked(tenant, sent, over, status)
    fault = with_name("kill -9 of a stub")
    assert is_excused(one, fault, {"killed"}, (2.0, 2.0)) is expected


def test_what_a_killed_tritonserver_excuses() -> None:
    """A 503 until it is back; nothing else."""
    fault = with_name("kill -9 of tritonserver")
    assert is_excused(Asked("a", 2.5, 3.0, 503), fault, {"a"}, (2.0, 2.0))
    assert not is_excused(Asked("a", 2.5, 3.0, 500), fault, {"a"}, (2.0, 2.0))
    assert is_excused(Asked("a", 2.5, 3.0, 500), fault, {"a"}, (2.0, 2.6))
