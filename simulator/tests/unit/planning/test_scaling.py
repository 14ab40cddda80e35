"""Autoscaling of a plan, minute by minute."""

from __future__ import annotations

import numpy as np
import pytest

from merlin_simulator.planning.demand import Scaling, Setting, TraceDemand
from merlin_simulator.planning.endpoint import PlannedEndpoint
from merlin_simulator.planning.instances import Happening
from merlin_simulator.planning.run import Scaler
from merlin_simulator.rules import Rules
from simulator.tests.support.planning import archives, machine

#: One request a second for 200 s, then two.
TIMES = np.concatenate((np.arange(1.0, 201.0), np.arange(200.5, 2000.0, 0.5)))


def test_nothing_is_decided_while_instances_come() -> None:
    """As the control plane has it: an endpoint that is updated is not changed, and the cooldown of
    a scale-out begins when its instances serve. In it, what was added counts as not there yet.
    """
    happening = Happening()
    demand = TraceDemand(TIMES, np.zeros(len(TIMES), dtype=int), 1, 2000.0)
    endpoint = PlannedEndpoint(happening, Setting(demand, archives(1), machine(2), Rules(), 1))
    Scaler(happening, demand, endpoint, Scaling(1, 10, target=20.0))
    counts = []
    # Three minutes above the target: three are wanted at 180 s. At 240 s it would be six.
    for until in (419.0, 421.0, 659.0, 661.0):
        happening.run(until)
        counts.append(len(endpoint.instances))
    assert counts == [1, 3, 3, 6]
    assert endpoint.served_s == pytest.approx(420.0 + 3 * 240.0 + 6 * 1.0)
