"""All that is known of an ensemble before its steps are made: wiring, configs, inputs, placement.

The later stages read it, and none changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.ensembles.edges import InputPlan
from ensemble_tools.ensembles.operators import make_config
from ensemble_tools.ensembles.placement import Placement
from ensemble_tools.ensembles.wiring import Call, Wiring


@dataclass(frozen=True)
class Parts:
    """The wiring of an ensemble, with its configs, and what was planned of it."""

    wiring: Wiring
    #: The executor's config.
    executor: ModelConfig
    #: The called models' configs by name.
    steps: Mapping[str, ModelConfig]
    #: How each call and the answer is fed (plan_inputs).
    plans: Mapping[str, InputPlan]
    placement: Placement

    @cached_property
    def calls(self) -> Mapping[str, Call]:
        """The calls by their keys, in the order in which each finds its sources."""
        return {call.key: call for call in self.wiring.calls}

    @cached_property
    def _configs(self) -> Mapping[str, ModelConfig]:
        return {
            key: self.steps[call.model_name]
            if call.work is None
            else make_config(call.work, self.plans[key].specs)
            for key, call in self.calls.items()
        }

    def find_config(self, key: str) -> ModelConfig:
        """The config of the model, or of the generated step, that this call calls."""
        return self._configs[key]

    def list_calls_up_to(self, level: int) -> tuple[Call, ...]:
        """The calls that have answered when a generated step of this level runs."""
        depths = self.placement.depths
        return tuple(call for key, call in self.calls.items() if depths[key] <= level)
