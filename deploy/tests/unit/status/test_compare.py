"""The endpoint that there is, against the one that is desired."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from merlin_deploy.config.reading import parse_config
from merlin_deploy.desired import Desired, Facts, make_desired
from merlin_deploy.status.compare import Present, Scaling, compare, find_changes
from merlin_deploy.status.report import Change, ConfigurationPart, Missing


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        ({"A": 1, "AddedByAws": 2}, {"A": 1}, []),
        ({"A": 1}, {"A": 2}, [("it A", "1", "2")]),
        ({}, {"A": 2}, [("it A", None, "2")]),
        ({"A": [{"B": 1, "C": 1}]}, {"A": [{"B": 2, "C": 1}]}, [("it A B", "1", "2")]),
        ({"A": [{"B": 1}] * 2}, {"A": [{"B": 1}, {"B": 2}]}, [("it A[1] B", "1", "2")]),
        ({"A": ["x"]}, {"A": ["x", "y"]}, [("it A", "x", "x, y")]),
        ({"A": ["x"]}, {"A": []}, [("it A", "x", "none")]),
        ({"ModelName": "shop-1"}, {"ModelName": "shop-2"}, []),
        ({"KmsKeyId": "k"}, {}, [("it KmsKeyId", "k", None)]),
        (None, {"A": 1}, [("it", None, "new")]),
        ({"A": 1}, None, [("it", "there", None)]),
        (None, None, []),
    ],
)
def test_changes(present: Any, wanted: Any, changes: list[tuple[str, str, str]]) -> None:
    """Each by its path; what AWS added itself is none, and names of content are none."""
    assert list(find_changes("it", present, wanted)) == [Change(*change) for change in changes]


def test_environment_is_named_and_not_shown() -> None:
    """Its values may be secrets."""
    present = {"Environment": {"GONE": "secret1", "SAME": "x", "OTHER": "secret2"}}
    wanted = {"Environment": {"NEW": "secret3", "SAME": "x", "OTHER": "secret4"}}
    found = list(find_changes("model", present, wanted))
    names = [change.what.rpartition(" ")[2] for change in found]
    assert names == ["GONE", "NEW", "OTHER"]
    assert "secret" not in str(found)
    (gone,) = find_changes("model", {"Environment": {"GONE": "secret"}}, {})
    assert (gone.what, gone.wanted) == ("model Environment GONE", None)


FILE = """
[endpoint]
name = "shop"
image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1"
archives = "s3://models/shop/"
role = "arn:aws:iam::123456789012:role/sagemaker"
[instances]
type = "ml.c5.xlarge"
count = 2
[container]
environment = { SERVE_LOG_FORMAT = "json" }
"""
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin@sha256:" + "ab" * 32


def test_what_up_has_made_is_what_is_wanted() -> None:
    """Nothing differs, and the image is told as SageMaker resolved it."""
    wanted = want(FILE)
    part = compare(as_made(wanted), wanted, ())
    assert part == ConfigurationPart(
        wanted.config_name, wanted.config_name, True, (), (), IMAGE, "ml.c5.xlarge"
    )


def test_another_model_is_told_by_what_differs_in_it() -> None:
    """Not by names, which say their content; variables without their values."""
    wanted = want(FILE.replace('"json"', '"text"').replace("c5", "m5"))
    part = compare(as_made(want(FILE)), wanted, ())
    assert part.is_wanted is False
    assert [change.what for change in part.changes] == [
        "configuration ProductionVariants InstanceType",
        "model PrimaryContainer Environment SERVE_LOG_FORMAT",
    ]


def test_count_is_the_files_without_autoscaling() -> None:
    """Somebody has changed it by hand: `up` brings it back. Autoscaling's counts are its own."""
    wanted = want(FILE)
    (change,) = compare(as_made(wanted, count=5), wanted, ()).changes
    assert (change.what, change.now, change.wanted) == ("instances", "5", "2")
    scaled = want(FILE + "[autoscaling]\nmax = 8\ninvocations_per_instance = 300\n")
    assert compare(as_made(scaled, count=5), scaled, ()).changes == ()


def test_alarm_that_nobody_wants_goes() -> None:
    """And one that lacks comes; so do tags."""
    wanted = want(FILE)
    present = as_made(wanted)
    assert not isinstance(present.alarms, Missing)
    others = [*present.alarms[1:], {"AlarmName": "shop/former"}]
    part = compare(replace(present, alarms=others, tags={}), wanted, ())
    assert {(change.what, change.now, change.wanted) for change in part.changes} == {
        ("tag deploy:endpoint", None, "shop"),
        (f"alarm {wanted.alarms[0]['AlarmName']}", None, "new"),
        ("alarm shop/former", "there", None),
    }


def test_what_may_not_be_read_is_noted() -> None:
    """It makes no change; where nothing is known of what is wanted, nothing is said of it."""
    wanted = want(FILE)
    denied = Missing("it is not allowed")
    blind = Present(as_made(wanted).endpoint, denied, denied, denied, denied, denied)
    part = compare(blind, wanted, ("a note",))
    assert part.changes == ()
    assert part.notes[0] == "a note"
    assert len(part.notes) == 6
    assert compare(blind, None, ()).is_wanted is None


def want(file: str) -> Desired:
    """Of a CONFIG.toml."""
    return make_desired(
        parse_config(file, "CONFIG.toml"), Facts(IMAGE, "s3://models/shop/archives/")
    )


def as_made(wanted: Desired, count: int = 2) -> Present:
    """As AWS describes what `up` has made, with members of its own."""
    variant: dict[str, Any] = {
        "DesiredInstanceCount": count,
        "DeployedImages": [{"SpecifiedImage": "merlin:1", "ResolvedImage": IMAGE}],
    }
    policies = [] if wanted.policy is None else [{**wanted.policy, "Alarms": []}]
    return Present(
        endpoint={"EndpointConfigName": wanted.config_name, "ProductionVariants": [variant]},
        config={**wanted.endpoint_config, "CreationTime": 1},
        model={**wanted.model, "CreationTime": 1},
        tags={tag["Key"]: tag["Value"] for tag in wanted.tags},
        scaling=Scaling(wanted.target, policies, ()),
        alarms=[{**alarm, "StateValue": "OK"} for alarm in wanted.alarms],
    )
