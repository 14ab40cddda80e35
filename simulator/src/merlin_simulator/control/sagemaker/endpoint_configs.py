"""CreateEndpointConfig and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.pages import filtered, page
from merlin_simulator.control.records import Record, Records
from merlin_simulator.control.sagemaker.models import Models
from merlin_simulator.control.sagemaker.names import already_there, is_taken, make_arn, not_found
from merlin_simulator.control.sagemaker.tags import Tags

#: What a configuration may ask for that this simulator does not play.
_NOT_PLAYED = {
    "AsyncInferenceConfig": "asynchronous inference",
    "ExplainerConfig": "explainers",
    "ShadowProductionVariants": "shadow variants",
    "CrossRegionTrafficConfig": "traffic between regions",
}
_VARIANT_NOT_PLAYED = {
    "ServerlessConfig": "serverless inference",
    "InstancePools": "pools of instance types",
    "ManagedInstanceScaling": "managed instance scaling",
}
_SORTS = {"Name": "EndpointConfigName", "CreationTime": "CreationTime"}
_LISTED = ("EndpointConfigName", "EndpointConfigArn", "CreationTime")


class EndpointConfigs:
    """Endpoint configurations; they are never changed."""

    def __init__(self, records: Records, tags: Tags, clock: Clock, models: Models) -> None:
        self._records, self._tags, self._clock, self._models = records, tags, clock, models

    def find(self, name: str) -> Record | None:
        """The configuration as it was created."""
        return self._records.get(name)

    async def create(self, call: Call) -> Mapping[str, Any]:
        """CreateEndpointConfig."""
        members, name = call.members, call.members["EndpointConfigName"]
        _refuse(members, _NOT_PLAYED, "")
        if (members.get("DataCaptureConfig") or {}).get("EnableCapture"):
            raise ServiceError("DataCaptureConfig is given: data capture is not played here.")
        self._tags.check(members.get("Tags", ()))
        self._check_variants(members["ProductionVariants"], call.region)
        if is_taken(name, self._records):
            raise ServiceError(already_there("endpoint-config", name, call.region))
        arn = make_arn("endpoint-config", name, call.region)
        kept = {key: value for key, value in members.items() if key != "Tags"}
        kept["ProductionVariants"] = [
            {"InitialVariantWeight": 1.0, **variant} for variant in members["ProductionVariants"]
        ]
        self._records.put(
            name, {**kept, "EndpointConfigArn": arn, "CreationTime": self._clock.now()}
        )
        self._tags.put(arn, members.get("Tags", ()))
        return {"EndpointConfigArn": arn}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeEndpointConfig."""
        return self._found(call)

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListEndpointConfigs."""
        found = filtered(self._records.values(), call.members, "EndpointConfigName", _SORTS)
        configs, token = page(found, call.members.get("NextToken"), call.members.get("MaxResults"))
        shown = [{key: config[key] for key in _LISTED} for config in configs]
        return {"EndpointConfigs": shown, **({"NextToken": token} if token else {})}

    async def delete(self, call: Call) -> None:
        """DeleteEndpointConfig; an endpoint that runs by it goes on, as AWS's does."""
        record = self._found(call)
        self._records.remove(record["EndpointConfigName"])
        self._tags.forget(record["EndpointConfigArn"])

    def _found(self, call: Call) -> Record:
        name = call.members["EndpointConfigName"]
        record = self._records.get(name)
        if record is None:
            raise ServiceError(not_found("endpoint-config", name, call.region))
        return record

    def _check_variants(self, variants: Any, region: str) -> None:
        names = [variant["VariantName"] for variant in variants]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ServiceError(f"Duplicate production variant names: {', '.join(twice)}.")
        modes = set()
        for variant in variants:
            name = variant["VariantName"]
            _refuse(variant, _VARIANT_NOT_PLAYED, f" of variant {name}")
            for member in ("ModelName", "InstanceType", "InitialInstanceCount"):
                if variant.get(member) is None:
                    raise ServiceError(
                        f"Variant {name} has no {member}, which every variant here needs "
                        "(inference components and serverless inference are not played)."
                    )
            model = self._models.find(variant["ModelName"])
            if model is None:
                raise ServiceError(not_found("model", variant["ModelName"], region))
            container = model.get("PrimaryContainer") or model["Containers"][0]
            modes.add(container.get("Mode", "SingleModel"))
        if len(modes) > 1:
            raise ServiceError(
                "Variants of models in Mode MultiModel and SingleModel are mixed: "
                "all of one endpoint must be alike."
            )


def _refuse(members: Mapping[str, Any], not_played: Mapping[str, str], of: str) -> None:
    for member, words in not_played.items():
        if members.get(member):
            raise ServiceError(f"{member}{of} is given: this simulator does not play {words}.")
