"""Two Merlin exports on the simulator's endpoint, by boto3, each cold and then warm."""

import json
import os
import time
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

EXPORTS = Path(__file__).parent / "merlin"
URL = os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:8090")


def main() -> None:
    """Ask each export twice, and print how long each answer took."""
    client = boto3.client(
        "sagemaker-runtime",
        endpoint_url=URL,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    for target in ("dense", "session", "dense", "session"):
        start = time.perf_counter()
        answer = client.invoke_endpoint(
            EndpointName="shop",
            TargetModel=f"{target}.tar.gz",
            ContentType="application/json",
            Body=(EXPORTS / target / "request.json").read_bytes(),
        )
        output = json.loads(answer["Body"].read())["outputs"][0]
        seconds = time.perf_counter() - start
        print(f"{target:8}{seconds:8.3f} s  {output['name']} {output['data'][:3]}")


if __name__ == "__main__":
    try:
        main()
    except (BotoCoreError, ClientError, ValueError) as error:
        raise SystemExit(
            f"{error}; expected the endpoint shop at {URL}: simulator/docs/simulator.md starts it"
        ) from error
