"""A request as the bytes of a body, and the call that sends it to an endpoint. No I/O."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ensemble_tools.answers.exchange import TensorRequest, encode
from ensemble_tools.answers.tensors import STRINGS, Tensor

JSON_TYPE = "application/json"
BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size={}"


@dataclass(frozen=True)
class Body:
    """The body of a request."""

    content: bytes
    #: The header by which a container reads it.
    content_type: str

    @property
    def is_binary(self) -> bool:
        """Whether it is, and its answer, too."""
        return self.content_type != JSON_TYPE


def make_binary(request: TensorRequest) -> Body:
    """SageMaker's binary form: a JSON head, then the tensors' bytes."""
    head, content = encode(request.tensors)
    return Body(head + content, BINARY_TYPE.format(len(head)))


def make_json(request: TensorRequest) -> Body:
    """The JSON body, one line a tensor, for people."""
    tensors = ",\n  ".join(
        json.dumps(
            {
                "name": name,
                "datatype": tensor.data_type,
                "shape": list(tensor.shape),
                "data": _list_values(tensor),
            },
            ensure_ascii=False,
        )
        for name, tensor in request.tensors.items()
    )
    return Body(f'{{"inputs": [\n  {tensors}\n]}}\n'.encode(), JSON_TYPE)


def _list_values(tensor: Tensor) -> list[Any]:
    flat = tensor.array.reshape(-1)
    if tensor.data_type == STRINGS:
        return [text.decode(errors="replace") for text in flat]
    if tensor.is_float:  # the shortest digits that are read as the same number
        return [float(str(value)) for value in flat]
    return list(flat.tolist())


def write_curl(body: Body, file: Path, name: str, url: str) -> str:
    """The call of curl, for a container that answers at the URL."""
    command = [
        "curl",
        "-s",
        "-X",
        "POST",
        f"{url.rstrip('/')}/models/{quote(name, safe='')}/invoke",
    ]
    command += ["-H", f"Content-Type: {body.content_type}", "--data-binary", f"@{file}"]
    if body.is_binary:
        command += ["-o", "answer.bin"]
    return shlex.join(command)


def write_boto3(body: Body, file: Path, name: str, endpoint: str, url: str | None) -> str:
    """The call of boto3, for a multi-model endpoint. url: of one that is not AWS's own."""
    return f"""\
import boto3

runtime = boto3.client({_write_client(url)})
with open({json.dumps(str(file))}, "rb") as request:
    answer = runtime.invoke_endpoint(
        EndpointName={json.dumps(endpoint)},
        TargetModel={json.dumps(f"{name}.tar.gz")},
        ContentType={json.dumps(body.content_type)},
        Body=request.read(),
    )
print(answer["ContentType"], answer["Body"].read())"""


def _write_client(url: str | None) -> str:
    if url is None:
        return '"sagemaker-runtime"'
    return f"""
    "sagemaker-runtime",
    endpoint_url={json.dumps(url)},
    region_name="us-east-1",
    aws_access_key_id="any",
    aws_secret_access_key="any",
"""
