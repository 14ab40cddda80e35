"""Tags of models, endpoint configurations and endpoints, by ARN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.pages import page
from merlin_simulator.control.records import Records

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
