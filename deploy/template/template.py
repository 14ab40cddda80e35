"""The whole template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deploy.archives.places import read_place
from deploy.config.config import Config
from deploy.template.left_out import LeftOut, find_left_out
from deploy.template.references import attribute, ref
from deploy.template.resources import ENDPOINT, IMAGE, MODEL_DATA, ROLE, make_resources
from deploy.wanted.wanted import Facts, make_wanted

#: In the place of an archive that is a parameter; it is nowhere in the template.
_PARAMETER = "s3://parameter"


@dataclass(frozen=True)
class Rendered:
    """left_out: what CONFIG.toml asks for and the template does not have."""

    template: dict[str, Any]
    left_out: tuple[LeftOut, ...]


def render(config: Config, *, with_role: bool) -> Rendered:
    """Pure. with_role: the execution role is made by the template, too."""
    place, single = read_place(config.endpoint.archives), config.endpoint.single_model
    url = place.archives_url if single is None else _PARAMETER
    wanted = make_wanted(config, Facts(config.endpoint.image, url))
    left_out = find_left_out(wanted)
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The SageMaker endpoint {wanted.endpoint_name}",
        "Metadata": {
            "MadeBy": "python -m deploy render",
            "LeftOut": [str(one) for one in left_out],
            "Names": "CloudFormation names all but the endpoint: what has a name of its own it "
            "cannot replace",
        },
        "Parameters": _make_parameters(config, with_role=with_role),
        "Resources": make_resources(wanted, config, with_role=with_role),
        "Outputs": {
            "EndpointName": {
                "Description": "What InvokeEndpoint asks for",
                "Value": attribute(ENDPOINT, "EndpointName"),
            },
            "EndpointArn": {
                "Description": "What policies of callers name",
                "Value": ref(ENDPOINT),
            },
        },
    }
    return Rendered(template, left_out)


def _make_parameters(config: Config, *, with_role: bool) -> dict[str, Any]:
    endpoint = config.endpoint
    parameters: dict[str, Any] = {
        IMAGE: {
            "Type": "String",
            "Default": endpoint.image,
            "Description": "With its digest (REPOSITORY@sha256:...): under a tag that has moved, "
            "nothing is deployed anew",
        }
    }
    if endpoint.single_model is not None:
        parameters[MODEL_DATA] = {
            "Type": "String",
            "AllowedPattern": r"s3://.+\.tar\.gz",
            "Description": f"The archive of {endpoint.single_model}, as `put` printed it",
        }
    if not with_role:
        parameters[ROLE] = {
            "Type": "String",
            "Default": endpoint.role,
            "Description": "Whose rights the instances have",
        }
    return parameters
