"""One request with binary tensors, by boto3: no number is written as text on the way.

python examples/clients/binary_tensors.py [URL]       needs boto3 and tritonclient[http]

URL is the endpoint's, the simulator's unless it is given; "" is AWS itself, with your credentials.
"""

import sys
from typing import Any

import boto3
import numpy as np
import tritonclient.http as triton
from botocore.exceptions import BotoCoreError, ClientError

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="
URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"
#: Five rows of examples/merlin/dense: each column as the model declares it.
COLUMNS = {
    "user_id": np.array([1003, 1011, 5, 1019, 1000]),
    "item_id": np.array([7, 99999, 12, -1, 29]),
    "age": np.array([18.5, 44.0, 71.25, 33.0, 0.0], np.float32),
    "price": np.array([3.99, 0.0, 120.5, 19.95, 0.001]),
    "visits": np.array([0, 1, 49, 7, 1000000]),
}


def as_input(name: str, values: "np.ndarray[Any, Any]") -> triton.InferInput:
    """The column as tritonclient sends it: its type, its shape, its bytes."""
    tensor = triton.InferInput(name, values.shape, triton.np_to_triton_dtype(values.dtype))
    tensor.set_data_from_numpy(values)
    return tensor


body, json_size = triton.InferenceServerClient.generate_request_body(
    [as_input(name, values) for name, values in COLUMNS.items()],
    outputs=[triton.InferRequestedOutput("click", binary_data=True)],
)
credentials = {"aws_access_key_id": "any", "aws_secret_access_key": "any"} if URL else {}
try:
    client = boto3.client(
        "sagemaker-runtime", endpoint_url=URL or None, region_name="us-east-1", **credentials
    )
    answer = client.invoke_endpoint(
        EndpointName="shop",
        TargetModel="dense.tar.gz",
        ContentType=f"{BINARY}{json_size}",
        Body=body,
    )
except (BotoCoreError, ClientError, ValueError) as error:
    raise SystemExit(
        f"{error}; expected the endpoint shop at {URL or 'AWS'}: simulator/docs/simulator.md "
        "starts it on this machine"
    ) from error
read = triton.InferenceServerClient.parse_response_body(
    answer["Body"].read(), header_length=int(answer["ContentType"].removeprefix(BINARY))
)
click = read.as_numpy("click")
print(click.dtype, click.shape, click.tolist())
