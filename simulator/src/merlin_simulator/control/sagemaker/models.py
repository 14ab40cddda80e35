"""CreateModel and what goes with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.pages import filtered, page
from merlin_simulator.control.records import Record, Records
from merlin_simulator.control.sagemaker.names import already_there, is_taken, make_arn, not_found
from merlin_simulator.control.sagemaker.tags import Tags

#: What CreateModel may ask for that no simulator's endpoint does.
_NOT_PLAYED = {
    "InferenceExecutionConfig": "inference pipelines and direct invocation of several containers",
}
_SORTS = {"Name": "ModelName", "CreationTime": "CreationTime"}


class Models:
    """check: whether what a container definition names can be had; raises ServiceError if not."""

    def __init__(
        self,
        records: Records,
        tags: Tags,
        clock: Clock,
        check: Callable[[Mapping[str, Any], str], Awaitable[None]],
    ) -> None:
        self._records, self._tags, self._clock, self._check = records, tags, clock, check

    def find(self, name: str) -> Record | None:
        """The model as it was created; see container_of."""
        return self._records.get(name)

    async def create(self, call: Call) -> Mapping[str, Any]:
        """CreateModel."""
        members, name = call.members, call.members["ModelName"]
        for member, words in _NOT_PLAYED.items():
            if member in members:
                raise ServiceError(f"{member} is given: {words} are not played by this simulator.")
        if not members.get("ExecutionRoleArn"):
            raise ServiceError("ExecutionRoleArn is missing: name the role that SageMaker assumes.")
        container = _only_container(members)
        self._tags.check(members.get("Tags", ()))
        await self._check(container, members["ExecutionRoleArn"])
        if is_taken(name, self._records):
            raise ServiceError(already_there("model", name, call.region))
        arn = make_arn("model", name, call.region)
        kept = {key: value for key, value in members.items() if key != "Tags"}
        self._records.put(name, {**kept, "ModelArn": arn, "CreationTime": self._clock.now()})
        self._tags.put(arn, members.get("Tags", ()))
        return {"ModelArn": arn}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeModel."""
        record = dict(self._found(call))
        record.setdefault("EnableNetworkIsolation", False)
        return record

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListModels."""
        found = filtered(self._records.values(), call.members, "ModelName", _SORTS)
        models, token = page(found, call.members.get("NextToken"), call.members.get("MaxResults"))
        shown = [
            {key: model[key] for key in ("ModelName", "ModelArn", "CreationTime")}
            for model in models
        ]
        return {"Models": shown, **({"NextToken": token} if token else {})}

    async def delete(self, call: Call) -> None:
        """DeleteModel; an endpoint that runs keeps what it has of it."""
        record = self._found(call)
        self._records.remove(record["ModelName"])
        self._tags.forget(record["ModelArn"])

    def _found(self, call: Call) -> Record:
        name = call.members["ModelName"]
        record = self._records.get(name)
        if record is None:
            raise ServiceError(not_found("model", name, call.region))
        return record


def container_of(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one container definition of a model that was created."""
    return _only_container(model)


def _only_container(members: Mapping[str, Any]) -> Mapping[str, Any]:
    containers: Sequence[Mapping[str, Any]] = members.get("Containers") or ()
    primary = members.get("PrimaryContainer")
    if (primary is None) == (not containers):
        raise ServiceError("Exactly one of PrimaryContainer and Containers must be given.")
    if primary is None and len(containers) > 1:
        raise ServiceError(
            f"Containers has {len(containers)} members: "
            "this simulator plays models of one container."
        )
    container: Mapping[str, Any] = primary or containers[0]
    if not container.get("Image"):
        raise ServiceError("The container has no Image: name one (model packages are not played).")
    if container.get("Mode") == "MultiModel" and not container.get("ModelDataUrl"):
        raise ServiceError(
            "The container's Mode is MultiModel: "
            "its ModelDataUrl must be the S3 prefix of its archives."
        )
    return container
