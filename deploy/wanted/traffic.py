"""UpdateEndpoint's DeploymentConfig."""

from __future__ import annotations

from typing import Any

from deploy.config.config import Config
from deploy.wanted.alarms import make_rollback_alarm_names

#: Beyond the steps' waits: instances take so long to come, in seconds.
_ROOM_S = 3600
_LEAST_S, _MOST_S = 600, 28_800
#: The guide on rolling updates: a batch has at most so much of the fleet.
_MOST_BATCH_PERCENT = 50


def make_deployment_config(config: Config) -> dict[str, Any]:
    """How the new instances take over, and which alarms bring the old ones back."""
    made = _make_policy(config)
    alarms = [{"AlarmName": name} for name in make_rollback_alarm_names(config)]
    if config.deployment.roll_back_on_alarms and alarms:
        made["AutoRollbackConfiguration"] = {"Alarms": alarms}
    return made


def _make_policy(config: Config) -> dict[str, Any]:
    deployment = config.deployment
    share: dict[str, Any] = {"Type": "CAPACITY_PERCENT", "Value": deployment.step_percent}
    steps = -(-100 // deployment.step_percent)
    wait = 0 if deployment.traffic == "all-at-once" else deployment.wait
    waits = wait * steps + deployment.termination_wait
    limit = max(_LEAST_S, min(_MOST_S, waits + _ROOM_S))
    if deployment.traffic == "rolling":
        share["Value"] = min(share["Value"], _MOST_BATCH_PERCENT)
        return {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": share,
                "WaitIntervalInSeconds": deployment.wait,
                "MaximumExecutionTimeoutInSeconds": limit,
            }
        }
    kind = {"all-at-once": "ALL_AT_ONCE", "canary": "CANARY", "linear": "LINEAR"}
    routing: dict[str, Any] = {
        "Type": kind[deployment.traffic],
        "WaitIntervalInSeconds": wait,
    }
    if deployment.traffic == "canary":
        routing["CanarySize"] = share
    if deployment.traffic == "linear":
        routing["LinearStepSize"] = share
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": routing,
            "TerminationWaitInSeconds": deployment.termination_wait,
            "MaximumExecutionTimeoutInSeconds": limit,
        }
    }
