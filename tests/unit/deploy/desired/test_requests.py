"""Every request is one that AWS takes, as far as its service models say."""

from __future__ import annotations

from tests.support.aws_requests import check_config
from tests.support.deploy_grid import make_grid


def test_requests_pass_botocore_and_the_models_patterns() -> None:
    """Over every shape of a configuration: botocore's own validator, then what it leaves to AWS."""
    seen = set[str]()
    for config in make_grid().values():
        seen |= check_config(config)
    assert len(seen) == 7
