"""Which additional arguments go well with how the container runs tritonserver."""

from __future__ import annotations

import pytest

from container.errors import SettingsError
from container.settings.reading import read_settings

NAME = "SAGEMAKER_TRITON_ADDITIONAL_ARGS"


@pytest.mark.parametrize(
    ("raw", "found", "why"),
    [
        ("--load-model=x", "--load-model=x", "loads archives itself"),
        ("--id a --load-model x", "--load-model=x", "loads archives itself"),
        ("--load-m=x", "--load-model=x", "loads archives itself"),
        ("--load-model=*", "--load-model=*", "loads archives itself"),
        ("--model-control-mode=poll", "--model-control-mode=poll", "loads archives itself"),
        ("--model-repository=/x", "--model-repository=/x", "SERVE_MODEL_ROOT"),
        ("--http-port 9000", "--http-port=9000", "listens for HTTP on a Unix socket"),
        ("--grpc-port=9000", "--grpc-port=9000", "SAGEMAKER_TRITON_GRPC_PORT sets it"),
        ("--allow-http=false", "--allow-http=false", "must reach tritonserver"),
        ("--allow-grpc=OFF", "--allow-grpc=OFF", "must reach tritonserver"),
        ("--http-address=0.0.0.0", "--http-address=0.0.0.0", "listens for HTTP on a Unix socket"),
        ("--grpc-use-ssl=1", "--grpc-use-ssl=1", "must reach tritonserver"),
        ("--http-restricted-api=inference:k=hunter2", "--http-restricted-api", "asks for health"),
        ("--grpc-restricted-p=model-repository:k=v", "--grpc-restricted-protocol", "asks for"),
        ("--allow-sagemaker=true", "--allow-sagemaker=true", "answers SageMaker's calls"),
        ("--help", "--help", "prints its arguments"),
    ],
)
def test_what_would_keep_the_container_from_it(raw: str, found: str, why: str) -> None:
    """One sentence at the start, with the argument and the reason, and nobody's secret."""
    with pytest.raises(SettingsError) as refused:
        read_settings({NAME: raw})
    sentence = str(refused.value)
    assert sentence.startswith(f"{NAME} is '{found}', expected no such argument, since ")
    assert why in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize(
    "raw",
    [
        "--model-control-mode=explicit --strict-readiness=false --allow-http=true",
        "--allow-grpc true --reuse-grpc-port=0 --exit-on-error=false",
        "--http-restricted-api=logging:k=v --grpc-restricted-protocol=logging,trace:k=v",
        "--http-header-forward-pattern=.* --http-thread-count=1 --log-format=ISO8601",
        "--strict-model-config=true --model-load-thread-count=2 --cache-config=local,size=1",
        "word",
    ],
)
def test_all_others_are_handed_on(raw: str) -> None:
    """Also what only repeats what the container does; tritonserver judges what is left."""
    assert read_settings({NAME: raw}).additional_args
