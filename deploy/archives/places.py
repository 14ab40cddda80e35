"""Where things lie below the prefix that CONFIG.toml names.

PREFIX/archives/NAME/DIGEST.tar.gz    an archive; the endpoint's TargetModel is NAME/DIGEST.tar.gz
PREFIX/aliases.json                   which archive each NAME means; outside of what can be invoked

New content is a new key: SageMaker does not load an archive again that was replaced under its key.
A folder for each name lets a policy give a tenant NAME/* and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FOLDER = "archives/"
_ALIASES = "aliases.json"
SUFFIX = ".tar.gz"
#: Of a SHA-256; two archives of one name share it once in 10^19 pairs.
DIGEST_CHARACTERS = 16


@dataclass(frozen=True)
class Place:
    """A prefix in a bucket; it is empty, or ends with a slash."""

    bucket: str
    prefix: str

    @property
    def archives_url(self) -> str:
        """Of CreateModel's ModelDataUrl."""
        return f"s3://{self.bucket}/{self.archives_prefix}"

    @property
    def archives_prefix(self) -> str:
        """What every archive's key begins with."""
        return f"{self.prefix}{_FOLDER}"

    @property
    def aliases_key(self) -> str:
        """Of the table of aliases."""
        return f"{self.prefix}{_ALIASES}"

    def archive_key(self, target_model: str) -> str:
        """Of one archive, by what InvokeEndpoint calls TargetModel."""
        return f"{self.archives_prefix}{target_model}"

    def archive_url(self, target_model: str) -> str:
        """Of one archive, by what InvokeEndpoint calls TargetModel."""
        return f"{self.archives_url}{target_model}"


def read_place(url: str) -> Place:
    """Of s3://BUCKET/PREFIX/, as the configuration's reader has checked it."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return Place(bucket, prefix)


def make_target_model(name: str, digest: str) -> str:
    """What InvokeEndpoint calls TargetModel; digest: SHA-256 of the archive's bytes, in hex."""
    return f"{name}/{digest[:DIGEST_CHARACTERS]}{SUFFIX}"


def is_put(target_model: str) -> bool:
    """Whether an archive's place is one that make_target_model makes."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"[^/]+/{digest}{re.escape(SUFFIX)}", target_model) is not None
