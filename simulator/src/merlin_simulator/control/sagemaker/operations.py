"""SageMaker's calls that are carried out here; all others are moto's."""

from __future__ import annotations

from collections.abc import Mapping

from merlin_simulator.control.json_api import Operation
from merlin_simulator.control.sagemaker.endpoint_configs import EndpointConfigs
from merlin_simulator.control.sagemaker.endpoints import Endpoints
from merlin_simulator.control.sagemaker.models import Models
from merlin_simulator.control.sagemaker.tags import Tags


def make_operations(
    models: Models, configs: EndpointConfigs, endpoints: Endpoints, tags: Tags
) -> Mapping[str, Operation]:
    """By their names in the service model."""
    return {
        "CreateModel": models.create,
        "DescribeModel": models.describe,
        "ListModels": models.list,
        "DeleteModel": models.delete,
        "CreateEndpointConfig": configs.create,
        "DescribeEndpointConfig": configs.describe,
        "ListEndpointConfigs": configs.list,
        "DeleteEndpointConfig": configs.delete,
        "CreateEndpoint": endpoints.create,
        "DescribeEndpoint": endpoints.describe,
        "ListEndpoints": endpoints.list,
        "UpdateEndpoint": endpoints.update,
        "UpdateEndpointWeightsAndCapacities": endpoints.update_weights_and_capacities,
        "DeleteEndpoint": endpoints.delete,
        "AddTags": tags.add_tags,
        "ListTags": tags.list_tags,
        "DeleteTags": tags.delete_tags,
    }
