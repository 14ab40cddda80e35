"""SageMaker's models, endpoint configurations and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records, filter_records, page
from merlin_simulator.errors import ACCOUNT


def make_arn(kind: str, name: str, region: str) -> str:
    """kind: "model", "endpoint-config", "endpoint"; AWS has names in small letters in an ARN."""
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:{kind}/{name.lower()}"


def is_taken(name: str, names: Iterable[str]) -> bool:
    """AWS, "CreateEndpoint": names do not differ by their case alone: ARNs have none."""
    return any(name.lower() == taken.lower() for taken in names)


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
        merged = {**self._of(arn), **{tag["Key"]: tag["Value"] for tag in tags}}
        self.check([{"Key": key, "Value": value} for key, value in merged.items()])
        self._records.put(arn, {"Tags": merged})

    def forget(self, arn: str) -> None:
        """The resource is gone."""
        self._records.remove(arn)

    async def add_tags(self, call: Call) -> Mapping[str, Any]:
        """AddTags."""
        arn = self._require_arn(call)
        self.check(call.members["Tags"])
        self.put(arn, call.members["Tags"])
        return {"Tags": self._listed(arn)}

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTags."""
        arn, members = self._require_arn(call), call.members
        tags, token = page(
            self._listed(arn), members.get("NextToken"), members.get("MaxResults"), _ON_A_PAGE
        )
        return {"Tags": list(tags), **({"NextToken": token} if token else {})}

    async def delete_tags(self, call: Call) -> Mapping[str, Any]:
        """DeleteTags; keys that are not there are nothing to it."""
        arn, gone = self._require_arn(call), set(call.members["TagKeys"])
        self._records.put(
            arn, {"Tags": {key: value for key, value in self._of(arn).items() if key not in gone}}
        )
        return {}

    def _require_arn(self, call: Call) -> str:
        arn: str = call.members["ResourceArn"]
        if not self._exists(arn):
            raise ServiceError(f"Could not find resource {arn!r}.")
        return arn

    def _of(self, arn: str) -> dict[str, str]:
        return dict((self._records.get(arn) or {}).get("Tags", {}))

    def _listed(self, arn: str) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self._of(arn).items()]


class _Resources:
    """Models, or endpoint configurations: a kind of resource that is never changed."""

    kind: str
    #: What the service model calls it, in names of its members and of its lists.
    title: str

    def __init__(self, records: Records, tags: Tags, clock: Clock) -> None:
        self._records, self._tags, self._clock = records, tags, clock

    def find(self, name: str) -> Record | None:
        """One as it was created."""
        return self._records.get(name)

    def get(self, name: str, region: str) -> Record:
        """Raises ServiceError where there is none of that name."""
        record = self.find(name)
        if record is None:
            raise ServiceError(not_found(self.kind, name, region))
        return record

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeModel, DescribeEndpointConfig."""
        return self.get(call.members[f"{self.title}Name"], call.region)

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListModels, ListEndpointConfigs."""
        name = f"{self.title}Name"
        sorts = {"Name": name, "CreationTime": "CreationTime"}
        records = filter_records(self._records.values(), call.members, name, sorts)
        return list_page(
            f"{self.title}s", records, call, (name, f"{self.title}Arn", "CreationTime")
        )

    async def delete(self, call: Call) -> None:
        """DeleteModel, DeleteEndpointConfig; an endpoint that runs keeps what it has of it."""
        record = self.get(call.members[f"{self.title}Name"], call.region)
        self._records.remove(record[f"{self.title}Name"])
        self._tags.forget(record[f"{self.title}Arn"])

    def _keep(self, call: Call, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer of its creation. Raises ServiceError where the name is taken."""
        name, tags = call.members[f"{self.title}Name"], call.members.get("Tags", ())
        if is_taken(name, self._records):
            raise ServiceError(already_there(self.kind, name, call.region))
        arn = {f"{self.title}Arn": make_arn(self.kind, name, call.region)}
        own_members = {key: value for key, value in record.items() if key != "Tags"}
        self._records.put(name, {**own_members, **arn, "CreationTime": self._clock.now()})
        self._tags.put(arn[f"{self.title}Arn"], tags)
        return arn


def list_page(
    output: str, records: Sequence[Mapping[str, Any]], call: Call, members: Sequence[str]
) -> Mapping[str, Any]:
    """A page of a List call's answer. output: its member; members: what it shows of each record."""
    shown, token = page(records, call.members.get("NextToken"), call.members.get("MaxResults"))
    listed = [{key: record[key] for key in members} for record in shown]
    return {output: listed, **({"NextToken": token} if token else {})}


class Models(_Resources):
    """check: whether what a container definition names can be had; raises ServiceError if not."""

    kind, title = "model", "Model"

    def __init__(
        self,
        records: Records,
        tags: Tags,
        clock: Clock,
        check: Callable[[Mapping[str, Any], str], Awaitable[None]],
    ) -> None:
        super().__init__(records, tags, clock)
        self._check = check

    async def create(self, call: Call) -> Mapping[str, Any]:
        """CreateModel."""
        members = call.members
        if "InferenceExecutionConfig" in members:
            raise ServiceError(
                "InferenceExecutionConfig is given: inference pipelines and direct invocation of "
                "several containers are not played by this simulator."
            )
        if not members.get("ExecutionRoleArn"):
            raise ServiceError("ExecutionRoleArn is missing: name the role that SageMaker assumes.")
        container = container_of(members)
        self._tags.check(members.get("Tags", ()))
        await self._check(container, members["ExecutionRoleArn"])
        return self._keep(call, members)

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeModel."""
        return {"EnableNetworkIsolation": False, **await super().describe(call)}


def container_of(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The only container definition of a model. Raises ServiceError where it has none, or more."""
    containers: Sequence[Mapping[str, Any]] = model.get("Containers") or ()
    primary = model.get("PrimaryContainer")
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


class EndpointConfigs(_Resources):
    """Endpoint configurations."""

    kind, title = "endpoint-config", "EndpointConfig"

    def __init__(self, records: Records, tags: Tags, clock: Clock, models: Models) -> None:
        super().__init__(records, tags, clock)
        self._models = models

    async def create(self, call: Call) -> Mapping[str, Any]:
        """CreateEndpointConfig."""
        members = call.members
        _refuse(members, _CONFIG_NOT_PLAYED, "")
        if (members.get("DataCaptureConfig") or {}).get("EnableCapture"):
            raise ServiceError("DataCaptureConfig is given: data capture is not played here.")
        self._tags.check(members.get("Tags", ()))
        self._check_variants(members["ProductionVariants"], call.region)
        variants = [
            {"InitialVariantWeight": 1.0, **variant} for variant in members["ProductionVariants"]
        ]
        return self._keep(call, {**members, "ProductionVariants": variants})

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
            container = container_of(self._models.get(variant["ModelName"], region))
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


def check_quotas(
    quotas: Mapping[str, int],
    variants: Iterable[Mapping[str, Any]],
    in_use: Iterable[tuple[str, int]],
) -> None:
    """Raises ServiceError where these would be too many instances beside those in use.

    quotas: instances at the same time for endpoints, by type; of others DEFAULT_MOST. Fewer than
    before are never too many.
    """
    requested, used = Counter[str](), Counter[str]()
    for variant in variants:
        requested[variant["InstanceType"]] += variant["InitialInstanceCount"]
    for instance_type, count in in_use:
        used[instance_type] += count
    for instance_type, count in requested.items():
        most = quotas.get(instance_type, DEFAULT_MOST)
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
