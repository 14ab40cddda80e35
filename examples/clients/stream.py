"""Reads an answer that comes in pieces, by boto3, from a single-model endpoint.

python examples/clients/stream.py [URL]               needs boto3

URL is the endpoint's, the simulator's unless it is given. Each piece is a server-sent event of
Triton's generate extension: "data: " and JSON with the model's outputs.
"""

import json
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8090"

began = time.perf_counter()
try:
    client = boto3.client(
        "sagemaker-runtime",
        endpoint_url=URL,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    answer = client.invoke_endpoint_with_response_stream(
        EndpointName="words",
        ContentType="application/json",
        Body=json.dumps({"text": "one word after the other"}),
    )
except (BotoCoreError, ClientError, ValueError) as error:
    raise SystemExit(
        f"{error}; expected the single-model endpoint words at {URL}: simulator/docs/simulator.md "
        "starts it"
    ) from error
rest = b""
for event in answer["Body"]:
    *lines, rest = (rest + event["PayloadPart"]["Bytes"]).split(b"\n")
    for line in filter(None, lines):
        word = json.loads(line.removeprefix(b"data: "))["word"]
        print(f"{time.perf_counter() - began:.1f} s  {word}", flush=True)
