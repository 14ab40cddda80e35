"""One request to a multi-model endpoint by sagemaker_core, which is also in the SageMaker SDK 3.

python examples/clients/sagemaker_core_endpoint.py [URL]      needs sagemaker-core

URL is the endpoint's, the simulator's unless it is given. The body is given as text: bytes end in
`TypeError: vars() argument must have __dict__ attribute` within sagemaker_core 1.0.78, before
anything is sent (its serialize() takes them for a shape). So binary tensors need boto3.
"""

import os
import sys
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from sagemaker_core.resources import Endpoint

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"
os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"] = URL  # it makes its own client
REQUEST = Path(__file__).parents[1] / "merlin/dense/request.json"

session = boto3.session.Session(
    aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
)
try:
    answer = Endpoint(endpoint_name="shop").invoke(
        body=REQUEST.read_text(),
        content_type="application/json",
        target_model="dense.tar.gz",
        session=session,
        region="us-east-1",
    )
except (BotoCoreError, ClientError, ValueError) as error:
    raise SystemExit(
        f"{error}; expected the endpoint shop at {URL}: simulator/docs/simulator.md starts it"
    ) from error
print(answer.body.read().decode())
