"""One request to a multi-model endpoint by the SageMaker SDK.

python examples/clients/sagemaker_sdk.py [URL]        needs sagemaker<3

URL is the endpoint's, the simulator's unless it is given.
"""

import json
import sys
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from sagemaker.deserializers import JSONDeserializer
from sagemaker.predictor import Predictor
from sagemaker.serializers import JSONSerializer
from sagemaker.session import Session

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"
REQUEST = Path(__file__).parents[1] / "merlin/dense/request.json"

session = boto3.session.Session(
    aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
)
try:
    predictor = Predictor(
        "shop",
        Session(
            boto_session=session,
            sagemaker_runtime_client=session.client("sagemaker-runtime", endpoint_url=URL),
        ),
        serializer=JSONSerializer(),
        deserializer=JSONDeserializer(),
    )
    answer = predictor.predict(json.loads(REQUEST.read_text()), target_model="dense.tar.gz")
except (BotoCoreError, ClientError, ValueError) as error:
    raise SystemExit(
        f"{error}; expected the endpoint shop at {URL}: simulator/docs/simulator.md starts it"
    ) from error
for output in answer["outputs"]:
    print(output["name"], output["data"])
