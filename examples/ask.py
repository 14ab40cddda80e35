"""Two Merlin exports on the simulator's endpoint, by boto3, each cold and then warm."""

import json
import os
import time
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

EXPORTS = Path(__file__).parent / "merlin"
URL = os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:8090")

client = boto3.client(
    "sagemaker-runtime",
    endpoint_url=URL,
    region_name="us-east-1",
    aws_access_key_id="any",
    aws_secret_access_key="any",
)
for target in ("dense", "session", "dense", "session"):
    start = time.perf_counter()
    try:
        answer = client.invoke_endpoint(
            EndpointName="shop",
            TargetModel=f"{target}.tar.gz",
            ContentType="application/json",
            Body=(EXPORTS / target / "request.json").read_bytes(),
        )
    except (BotoCoreError, ClientError) as error:
        raise SystemExit(
            f"{error}; expected the endpoint shop at {URL}: simulator/docs/simulator.md starts it"
        ) from error
    output = json.loads(answer["Body"].read())["outputs"][0]
    seconds = time.perf_counter() - start
    print(f"{target:8}{seconds:8.3f} s  {output['name']} {output['data'][:3]}")
