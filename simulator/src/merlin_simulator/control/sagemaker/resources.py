"""SageMaker's models, endpoint configurations and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records, filtered, page
from merlin_simulator.errors import ACCOUNT


def make_arn(kind: str, name: str, region: str) -> str:
    """kind: "model", "endpoint-config", "endpoint"; AWS has names in small letters in an ARN."""
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:{kind}/{name.lower()}"


def is_taken(name: str, kept: Iterable[str]) -> bool:
    """AWS, "CreateEndpoint": names do not differ by their case alone: ARNs have none."""
    return any(name.lower() == one.lower() for one in kept)


#: How errors call each kind.
WORDS = {
    "model": "model",
    "endpoint-config": "endpoint configuration",
    "endpoint": "endpoint",
}


def not_found(kind: str, name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#2218)."""
    return f'Could not find {WORDS[kind]} "{make_arn(kind, name, region)}".'


def already_there(kind: str, name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#101)."""
    return f'Cannot create already existing {WORDS[kind]} "{make_arn(kind, name, region)}".'


def in_progress(name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#1168)."""
    return f'Cannot update in-progress endpoint "{make_arn("endpoint", name, region)}".'


#: AWS, "AddTags": of one resource.
_MOST = 50
#: AWS, "ListTags": on one page at least 50; it gives all there are.
_ON_A_PAGE = 50


class Tags:
    """exists: whether a resource of this ARN is there."""

    def __init__(self, records: Records, exists: Callable[[str], bool]) -> None:
        self._records, self._exists = records, exists

    def check(self, tags: Sequence[Mapping[str, str]]) -> None:
        """Raises ServiceError for tags that no resource may get."""
        keys = [tag["Key"] for tag in tags]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ServiceError(f"Duplicate tag keys found: {', '.join(twice)}.")
        if len(keys) > _MOST:
            raise ServiceError(
                f"Tag limit exceeded: {len(keys)} tags, at most {_MOST} are allowed."
            )

    def put(self, arn: str, tags: Sequence[Mapping[str, str]]) -> None:
        """Add these to what the resource has; a key's later value counts."""
        if not tags:
            return
        kept = {**self._of(arn), **{tag["Key"]: tag["Value"] for tag in tags}}
        self.check([{"Key": key, "Value": value} for key, value in kept.items()])
        self._records.put(arn, {"Tags": kept})

    def forget(self, arn: str) -> None:
        """The resource is gone."""
        self._records.remove(arn)

    async def add_tags(self, call: Call) -> Mapping[str, Any]:
        """AddTags."""
        arn = self._found(call)
        self.check(call.members["Tags"])
        self.put(arn, call.members["Tags"])
        return {"Tags": self._listed(arn)}

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTags."""
        arn, members = self._found(call), call.members
        tags, token = page(
            self._listed(arn), members.get("NextToken"), members.get("MaxResults"), _ON_A_PAGE
        )
        return {"Tags": list(tags), **({"NextToken": token} if token else {})}

    async def delete_tags(self, call: Call) -> Mapping[str, Any]:
        """DeleteTags; keys that are not there are nothing to it."""
        arn, gone = self._found(call), set(call.members["TagKeys"])
        self._records.put(
            arn, {"Tags": {key: value for key, value in self._of(arn).items() if key not in gone}}
        )
        return {}

    def _found(self, call: Call) -> str:
        arn: str = call.members["ResourceArn"]
        if not self._exists(arn):
            raise ServiceError(f"Could not find resource {arn!r}.")
        return arn

    def _of(self, arn: str) -> dict[str, str]:
        return dict((self._records.get(arn) or {}).get("Tags", {}))

    def _listed(self, arn: str) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self._of(arn).items()]


#: What CreateModel may ask for that no simulator's endpoint does.
_MODEL_NOT_PLAYED = {
    "InferenceExecutionConfig": "inference pipelines and direct invocation of several containers",
}
_MODEL_SORTS = {"Name": "ModelName", "CreationTime": "CreationTime"}


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
        for member, sentence in _MODEL_NOT_PLAYED.items():
            if member in members:
                raise ServiceError(
                    f"{member} is given: {sentence} are not played by this simulator."
                )
        if not members.get("ExecutionRoleArn"):
            raise ServiceError("ExecutionRoleArn is missing: name the role that SageMaker assumes.")
        container = _only_container(members)
        self._tags.check(members.get("Tags", ()))
        await self._check(container, members["ExecutionRoleArn"])
        if is_taken(name, self._records):
            raise ServiceError(already_there("model", name, call.region))
        arn = make_arn("model", name, call.region)
        own_members = {key: value for key, value in members.items() if key != "Tags"}
        self._records.put(name, {**own_members, "ModelArn": arn, "CreationTime": self._clock.now()})
        self._tags.put(arn, members.get("Tags", ()))
        return {"ModelArn": arn}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeModel."""
        record = dict(self._found(call))
        record.setdefault("EnableNetworkIsolation", False)
        return record

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListModels."""
        records = filtered(self._records.values(), call.members, "ModelName", _MODEL_SORTS)
        models, token = page(records, call.members.get("NextToken"), call.members.get("MaxResults"))
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


#: What a configuration may ask for that this simulator does not play.
_CONFIG_NOT_PLAYED = {
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
_CONFIG_SORTS = {"Name": "EndpointConfigName", "CreationTime": "CreationTime"}
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
        _refuse(members, _CONFIG_NOT_PLAYED, "")
        if (members.get("DataCaptureConfig") or {}).get("EnableCapture"):
            raise ServiceError("DataCaptureConfig is given: data capture is not played here.")
        self._tags.check(members.get("Tags", ()))
        self._check_variants(members["ProductionVariants"], call.region)
        if is_taken(name, self._records):
            raise ServiceError(already_there("endpoint-config", name, call.region))
        arn = make_arn("endpoint-config", name, call.region)
        own_members = {key: value for key, value in members.items() if key != "Tags"}
        own_members["ProductionVariants"] = [
            {"InitialVariantWeight": 1.0, **variant} for variant in members["ProductionVariants"]
        ]
        self._records.put(
            name, {**own_members, "EndpointConfigArn": arn, "CreationTime": self._clock.now()}
        )
        self._tags.put(arn, members.get("Tags", ()))
        return {"EndpointConfigArn": arn}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeEndpointConfig."""
        return self._found(call)

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListEndpointConfigs."""
        records = filtered(
            self._records.values(), call.members, "EndpointConfigName", _CONFIG_SORTS
        )
        configs, token = page(
            records, call.members.get("NextToken"), call.members.get("MaxResults")
        )
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
    for member, sentence in not_played.items():
        if members.get(member):
            raise ServiceError(f"{member}{of} is given: this simulator does not play {sentence}.")


#: Of each type. Chosen: far more than one machine has, so that a slip of the pen does not end it.
DEFAULT_MOST = 100


class Quotas:
    """most: instances at the same time for endpoints, by type; of others DEFAULT_MOST."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = most

    def check(
        self, variants: Sequence[Mapping[str, Any]], in_use: Sequence[tuple[str, int]]
    ) -> None:
        """Raises ResourceLimitExceeded where these would be too many beside those in use.

        Fewer than before are never too many.
        """
        asked, used = Counter[str](), Counter[str]()
        for variant in variants:
            asked[variant["InstanceType"]] += variant["InitialInstanceCount"]
        for instance_type, count in in_use:
            used[instance_type] += count
        for instance_type, count in asked.items():
            most = self._most.get(instance_type, DEFAULT_MOST)
            if count > 0 and used[instance_type] + count > most:
                # SageMaker's own words.
                raise ServiceError(
                    f"The account-level service limit '{instance_type} for endpoint usage' is "
                    f"{most} Instances, with current utilization of {used[instance_type]} "
                    f"Instances and a request delta of {count} Instances. Please use AWS Service "
                    "Quotas to request an increase for this quota. If AWS Service Quotas is not "
                    "available, contact AWS support to request an increase for this quota.",
                    "ResourceLimitExceeded",
                )
