"""Configurations of every shape: all sections on and off, every way of an update."""

from __future__ import annotations

import itertools

from merlin_deploy.config.reading import parse_config
from merlin_deploy.config.sections import Config

_NETWORK = """
[network]
subnets = ["subnet-0a1b2c3d", "subnet-4e5f6a7b"]
security_groups = ["sg-0a1b2c3d"]
isolated = true
"""
_KEYS = """
[encryption]
volume_key = "alias/disks"
archives_key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
"""
_SCALING = """
[autoscaling]
min = 2
max = 8
invocations_per_instance = 300.5
scale_in = false
"""
_TRAFFIC = ("all-at-once", "canary", "linear", "rolling")
_ALARMS = (
    "",
    """
[alarms]
topics = ["arn:aws:sns:us-east-1:123456789012:oncall"]
errors_4xx_above = 100
latency_p99_above_ms = 250
minutes = 3
""",
)
_CONTAINERS = (
    "",
    """
ami = "al2-ami-sagemaker-inference-gpu-3-1"
volume_gb = 64
routing = "random"
[container]
memory_reserve_mb = 1024
environment = { SERVE_LOG_FORMAT = "json", TRACE = true }
[metrics]
path = "/inner/metrics"
every = 10
[tags]
team = "recommendations"
""",
    "[metrics]\ndetailed = false",
)


def make_config(more: str = "", instances: str = "", **endpoint: str) -> Config:
    """Of an endpoint `shop`; more: sections. instances: of [instances], and what follows."""
    given = {
        "name": "shop",
        "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/merlin-sagemaker:1",
        "archives": "s3://models/shop/",
        "role": "arn:aws:iam::123456789012:role/service/sagemaker",
        **endpoint,
    }
    lines = ["[endpoint]", *(f'{key} = "{value}"' for key, value in given.items())]
    lines += ["[instances]", 'type = "ml.g5.xlarge"', "count = 2", instances, more]
    return parse_config("\n".join(lines), "CONFIG.toml")


def make_grid() -> dict[str, Config]:
    """By what each has; 16 of them: all switches, each with every way of an update."""
    grid: dict[str, Config] = {}
    for number, switches in enumerate(itertools.product((False, True), repeat=4)):
        single, network, keys, scaling = switches
        # Another shift in each row, so that no way of an update goes with one switch alone.
        traffic = _TRAFFIC[(number + number // 4) % 4]
        rolls_back = "true" if number % 3 else "false"
        sections = [
            _NETWORK if network else "",
            _KEYS if keys else "",
            _SCALING if scaling else "",
            _ALARMS[sum(switches) % 2],
            f'[deployment]\ntraffic = "{traffic}"\nroll_back_on_alarms = {rolls_back}',
        ]
        names = ("single", "network", "keys", "scaling")
        switched_on = [name for name, is_on in zip(names, switches, strict=True) if is_on]
        grid[" ".join([traffic, *switched_on])] = make_config(
            "\n".join(sections),
            _CONTAINERS[number % 3],
            **({"single_model": "shop-a"} if single else {}),
        )
    assert len(grid) == 16
    return grid
