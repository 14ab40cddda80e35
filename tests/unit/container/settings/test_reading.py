"""Every environment variable: default, meaning, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.errors import SettingsError
from container.machine.hardware import Hardware
from container.settings.reading import (
    SETTINGS,
    Settings,
    format_settings_table,
    read_alone,
    read_settings,
)
from container.settings.values import METRIC_LABELS, PortRange, S3Prefix
from ensemble_tools.setting_names import FORMER_SETTINGS
from serve.telemetry.exposition import FAMILIES
from serve.telemetry.metrics import Metrics

ALL_NAMES = sorted(name for row in SETTINGS for name in row.names)


def mistakes_of(environment: dict[str, str]) -> dict[str, str]:
    """What is expected of each variable that was refused."""
    with pytest.raises(SettingsError) as caught:
        read_settings(environment)
    return {mistake.variable: mistake.expected for mistake in caught.value.mistakes}


def test_an_empty_environment_gives_the_defaults() -> None:
    """The contract's defaults hold where nothing is set."""
    settings = read_settings({})
    assert (settings.bind_port, settings.bind_address) == (8080, "0.0.0.0")
    assert not settings.multi_model
    assert settings.ping_mode == "ready"
    assert settings.model_namespacing == "true"
    assert (settings.shm_default_byte_size, settings.shm_growth_byte_size) == (16777216, 1048576)
    assert settings.model_root == Path("/opt/ml/models")
    assert settings.single_model_dir == Path("/opt/ml/model")
    assert (settings.load_timeout, settings.invoke_timeout) == (350, 60)
    assert settings.table_cache_mb == 1024
    assert (settings.log_format, settings.cuda_compat) == ("text", "auto")
    assert (settings.grpc_port, settings.metrics_port, settings.allow_metrics) == (
        None,
        None,
        False,
    )
    assert (settings.metrics, settings.metric_dimensions) == (True, ())
    assert settings.feature_metrics == "models"
    assert settings.unknown == ()


@pytest.mark.parametrize(
    ("shared_memory", "region"),
    [(None, 16), (8 << 30, 16), (1 << 30, 16), ((1 << 30) - 4096, 1), (64 << 20, 1), (4096, 1)],
)
def test_a_region_in_shared_memory(shared_memory: int | None, region: int) -> None:
    """Where few of SageMaker's size have room it is Triton's own; one that is asked for stays."""
    name = "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE"
    hardware = Hardware(0, shared_memory)
    assert read_settings({}, hardware).shm_default_byte_size == region << 20
    assert read_settings({name: "2097152"}, hardware).shm_default_byte_size == 2 << 20


def test_an_empty_variable_is_an_unset_one() -> None:
    """Task definitions often set what they do not want to ""."""
    assert read_settings(dict.fromkeys(ALL_NAMES, "")) == read_settings({})


def test_multi_model_mode_pings_live() -> None:
    """An endpoint with no model yet must still become healthy."""
    assert read_settings({"SAGEMAKER_MULTI_MODEL": "true"}).ping_mode == "live"


@pytest.mark.parametrize(
    "name", ["SAGEMAKER_TRITON_PING_MODE", "SAGEMAKER_TRITON_OVERRIDE_PING_MODE"]
)
def test_either_name_sets_the_ping_mode(name: str) -> None:
    """Both of upstream's names work, in both modes."""
    assert read_settings({name: "live"}).ping_mode == "live"
    assert read_settings({name: "ready", "SAGEMAKER_MULTI_MODEL": "true"}).ping_mode == "ready"


def test_the_override_wins() -> None:
    """Of several names the first in the table counts."""
    both = {
        "SAGEMAKER_TRITON_PING_MODE": "ready",
        "SAGEMAKER_TRITON_OVERRIDE_PING_MODE": "live",
    }
    assert read_settings(both).ping_mode == "live"


def test_namespacing_is_passed_verbatim() -> None:
    """The name is inverted upstream; the value goes to --model-namespacing as it is."""
    name = "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING"
    assert read_settings({name: "false"}).model_namespacing == "false"
    assert name in mistakes_of({name: "maybe"})


def test_all_mistakes_come_together() -> None:
    """One failed start is enough to learn all of them, each with what was found and expected."""
    wrong = {
        "SAGEMAKER_BIND_TO_PORT": "eighty",
        "SAGEMAKER_SAFE_PORT_RANGE": "5-3",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--id='x",
        "SAGEMAKER_TRITON_INFERENCE_TYPE": "stream",
        "SERVE_LOAD_TIMEOUT": "0",
        "SERVE_MODEL_ROOT": "models",
    }
    assert set(mistakes_of(wrong)) == set(wrong)
    with pytest.raises(SettingsError, match="SAGEMAKER_BIND_TO_PORT is 'eighty', expected a whole"):
        read_settings(wrong)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("SAGEMAKER_BIND_TO_PORT", "65536"),
        ("SAGEMAKER_BIND_TO_PORT", "８０"),  # digits, but not ASCII ones
        ("SAGEMAKER_SAFE_PORT_RANGE", "21000"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "0-10"),
        ("SAGEMAKER_MULTI_MODEL", "yes please"),
        ("SAGEMAKER_TRITON_THREAD_COUNT", "0"),
        ("SAGEMAKER_TRITON_LOG_VERBOSE", "loud"),
        ("SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE", "1024"),
        ("SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", "1.5"),
        ("SAGEMAKER_TRITON_PING_MODE", "LIVE"),
        ("SERVE_INVOKE_TIMEOUT", "inf"),
        ("SERVE_MAX_WAITING_TOTAL_MB", "3"),
        ("SERVE_RATE_LIMIT", "-1"),
        ("SERVE_RATE_LIMIT", "0.0001"),
        ("SERVE_RATE_LIMIT", "1000000"),
        ("SERVE_RATE_LIMIT", "1e3"),
        ("SERVE_RATE_LIMIT", "20/s"),
        ("SERVE_RATE_LIMIT", "nan"),
        ("SERVE_CAPTURE", "captured"),
        ("SERVE_CAPTURE", "s3://"),
        ("SERVE_CAPTURE", "s3://Bucket/a"),
        ("SERVE_CAPTURE", "https://bucket/a"),
        ("SERVE_CAPTURE_PERCENT", "100.1"),
        ("SERVE_CAPTURE_PERCENT", "5%"),
        ("SERVE_CAPTURE_MB", "0"),
        ("SERVE_CAPTURE_OMIT", " , "),
        ("SERVE_CANDIDATE_PERCENT", "100.5"),
        ("SERVE_CANDIDATE_PERCENT", "-1"),
        ("SERVE_CANDIDATE_PERCENT", "10%"),
        ("SERVE_LOG_LEVEL", "verbose"),
        ("SERVE_LOG_FORMAT", "JSON"),
    ],
)
def test_what_is_refused(variable: str, words: str) -> None:
    """A value out of its kind or its limits is a mistake of that variable and no other."""
    assert set(mistakes_of({variable: words})) == {variable}


def test_a_percentage_of_which_0_is_off() -> None:
    """A refusal says so."""
    for words in ("10%", "101", "-1", "100.5", "nan"):
        assert mistakes_of({"SERVE_CANDIDATE_PERCENT": words, "SERVE_CAPTURE_PERCENT": words}) == {
            "SERVE_CANDIDATE_PERCENT": "a number from 0 (off) to 100, such as 10 or 0.5",
            "SERVE_CAPTURE_PERCENT": "a number from 0 (off) to 100, such as 10 or 0.5",
        }
    for words, number in (("0", 0), ("0.0", 0), ("0.5", 0.5), ("100", 100)):
        settings = read_settings({"SERVE_CANDIDATE_PERCENT": words, "SERVE_CAPTURE_PERCENT": words})
        assert (settings.candidate_percent, settings.capture_percent) == (number, number)


def test_a_rate_may_have_decimals() -> None:
    """Down to one in a thousand seconds; 0 and nothing are none."""
    rates = [
        read_settings({"SERVE_RATE_LIMIT": words}).rate_limit
        for words in ("", "0", "0.000", "20", "0.001", "999999.999")
    ]
    assert rates == [0, 0, 0, 20, 0.001, 999_999.999]


def test_where_captures_go() -> None:
    """A directory, or a bucket with what its keys begin with; nowhere by default."""
    targets = [
        read_settings({"SERVE_CAPTURE": words}).capture
        for words in (
            "",
            "/a/b/",
            "s3://a-bucket",
            "s3://a-bucket/",
            "s3://a-bucket/a/b",
            "s3://b.1/a//",
        )
    ]
    assert targets == [
        None,
        Path("/a/b"),
        S3Prefix("a-bucket", ""),
        S3Prefix("a-bucket", ""),
        S3Prefix("a-bucket", "a/b/"),
        S3Prefix("b.1", "a/"),
    ]


def test_what_is_captured() -> None:
    """Everything by default, and of each request every column."""
    settings = read_settings({})
    assert (settings.capture_percent, settings.capture_mb) == (100, 256)
    assert settings.capture_omit == ()
    settings = read_settings(
        {"SERVE_CAPTURE_PERCENT": "0.5", "SERVE_CAPTURE_OMIT": " user_id,email, user_id,"}
    )
    assert settings.capture_percent == 0.5
    assert settings.capture_omit == ("user_id", "email")


def test_one_setting_alone() -> None:
    """Whatever the others are; one that is refused counts as unset until all are read."""
    others = {"SAGEMAKER_BIND_TO_PORT": "eighty"}
    found = [
        read_alone("log_format", {**others, "SERVE_LOG_FORMAT": words})
        for words in ("json", "text", "", "xml")
    ]
    assert found == ["json", "text", "text", "text"]


def test_verbose_logging_takes_levels_and_booleans() -> None:
    """Upstream's script passes `true`; tritonserver documents a number."""
    name = "SAGEMAKER_TRITON_LOG_VERBOSE"
    found = [read_settings({name: words}).log_verbose for words in ("true", "False", "3")]
    assert found == ["1", "0", "3"]


def test_additional_arguments_respect_quoting() -> None:
    """One quoted argument stays one."""
    raw = "--log-file='/tmp/a b' --id x"
    settings = read_settings({"SAGEMAKER_TRITON_ADDITIONAL_ARGS": raw})
    assert settings.additional_args == ("--log-file=/tmp/a b", "--id", "x")


def test_fixed_ports_without_a_range() -> None:
    """gRPC and metrics have Triton's ports when they are allowed and nothing else is said."""
    allowed = {"SAGEMAKER_TRITON_ALLOW_GRPC": "true", "SAGEMAKER_TRITON_ALLOW_METRICS": "true"}
    settings = read_settings(allowed)
    assert (settings.grpc_port, settings.metrics_port) == (8001, 8002)
    with_range = read_settings({**allowed, "SAGEMAKER_SAFE_PORT_RANGE": "21000-21999"})
    assert (with_range.grpc_port, with_range.metrics_port) == (None, None)
    assert with_range.safe_port_range == PortRange(21000, 21999)


def test_an_explicit_port_outside_the_range_is_a_mistake() -> None:
    """A metrics port of 8002 killed real endpoints."""
    wrong = {
        "SAGEMAKER_SAFE_PORT_RANGE": "21000-21999",
        "SAGEMAKER_TRITON_ALLOW_METRICS": "true",
        "SAGEMAKER_TRITON_METRICS_PORT": "8002",
    }
    assert set(mistakes_of(wrong)) == {"SAGEMAKER_TRITON_METRICS_PORT"}
    assert read_settings({**wrong, "SAGEMAKER_TRITON_METRICS_PORT": "21000"}).metrics_port == 21000
    assert read_settings({**wrong, "SAGEMAKER_TRITON_ALLOW_METRICS": "false"}).metrics_port is None


def test_two_servers_cannot_share_a_port() -> None:
    """A default that meets another port is found out as well."""
    wrong = {"SAGEMAKER_TRITON_ALLOW_GRPC": "1", "SAGEMAKER_BIND_TO_PORT": "8001"}
    assert set(mistakes_of(wrong)) == {"SAGEMAKER_TRITON_GRPC_PORT"}
    wrong = {
        "SAGEMAKER_TRITON_ALLOW_GRPC": "1",
        "SAGEMAKER_TRITON_ALLOW_METRICS": "1",
        "SAGEMAKER_TRITON_METRICS_PORT": "8001",
    }
    assert set(mistakes_of(wrong)) == {"SAGEMAKER_TRITON_METRICS_PORT"}


def test_publishing_needs_its_two_names_and_no_port() -> None:
    """Either spelling of the names will do."""
    publish = {"SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true"}
    assert set(mistakes_of(publish)) == {
        "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP",
        "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE",
    }
    names = {
        "SAGEMAKER_TRITON_LOG_GROUP": "/endpoint",
        "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": "Triton",
    }
    settings = read_settings({**publish, **names})
    assert settings.metrics_port is None
    assert (settings.cloudwatch_log_group, settings.cloudwatch_metric_namespace) == (
        "/endpoint",
        "Triton",
    )


@pytest.mark.parametrize("kind", ["grpc", "metrics"])
def test_an_address_for_what_listens_on_a_socket(kind: str) -> None:
    """It needs a port, which is to be asked for; a flag may be cut short, as getopt takes it."""
    for flag in (f"--{kind}-address=0.0.0.0", f"--{kind}-addr 0.0.0.0"):
        given = {"SAGEMAKER_TRITON_ADDITIONAL_ARGS": flag}
        with pytest.raises(SettingsError, match=f"SAGEMAKER_TRITON_ALLOW_{kind.upper()}=true"):
            read_settings(given)
        opened = {**given, f"SAGEMAKER_TRITON_ALLOW_{kind.upper()}": "true"}
        assert read_settings(opened).additional_args


def test_a_slip_of_the_pen_is_noticed() -> None:
    """A variable that looks like ours and is not is kept for a warning, with the likely name."""
    environment = {"SERVE_MODEL_ROT": "/x", "SAGEMAKER_TRITON_XYZ": "1", "SAGEMAKER_REGION": "eu"}
    described = [str(unknown) for unknown in read_settings(environment).unknown]
    assert len(described) == 2
    assert "SAGEMAKER_TRITON_XYZ" in described[0]
    assert described[1].endswith("did you mean SERVE_MODEL_ROOT?")


@pytest.mark.parametrize("name", FORMER_SETTINGS)
def test_a_former_setting_is_named(name: str) -> None:
    """It is no slip of the pen: the warning says what holds in its place. None is read any more."""
    (told,) = read_settings({name: "1"}).unknown
    assert str(told) == f"{name} is no setting any more: {FORMER_SETTINGS[name]}"
    assert name not in ALL_NAMES


def test_the_table_holds_every_variable_once() -> None:
    """The table has one row a variable, and each field of Settings comes from one row."""
    rows = format_settings_table().splitlines()[2:]
    assert len(rows) == len(SETTINGS)
    assert len(ALL_NAMES) == len(set(ALL_NAMES))
    assert all(row.count(" | ") == 2 for row in rows)
    assert {row.field for row in SETTINGS} | {"unknown"} == set(Settings.__dataclass_fields__)


def test_rows_say_what_else_counts() -> None:
    """Where one setting depends on something, its row says so."""
    meaning = {row.names[0]: row.meaning for row in SETTINGS}
    largest = meaning["SERVE_MAX_REQUEST_MB"]
    assert "a quarter of `SERVE_MAX_WAITING_TOTAL_MB`" in largest
    assert "JSON that is not turned into binary tensors may have 16" in largest
    assert "tritonserver up to 2.51 has no limit of its own" in largest
    assert "ten seconds more" in meaning["SERVE_LOAD_TIMEOUT"]
    assert "at least 2 requests" in meaning["SERVE_MAX_WAITING_TOTAL_MB"]


@given(st.dictionaries(st.sampled_from(ALL_NAMES), st.text(max_size=30), max_size=8))
def test_any_words_give_settings_or_a_settings_error(environment: dict[str, str]) -> None:
    """Nothing else is ever raised."""
    with contextlib.suppress(SettingsError):
        assert read_settings(environment).bind_port


def test_metric_dimensions_are_read_in_their_order() -> None:
    """Blanks around names and values are nobody's; a value may hold a =."""
    settings = read_settings({"SERVE_METRIC_DIMENSIONS": "Endpoint=shop, Variant = a=b"})
    assert settings.metric_dimensions == (("Endpoint", "shop"), ("Variant", "a=b"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("shop", "a name and a value around a = in the place of 'shop'"),
        ("a=1,", "a name and a value around a = in the place of ''"),
        ("a=", "a name and a value around a = in the place of 'a='"),
        (":a=1", "a name of up to 255 ASCII characters without blanks and : in front, not ':a'"),
        ("a b=1", "a name of up to 255 ASCII characters without blanks and : in front, not 'a b'"),
        ("a=é", "a value of up to 1024 ASCII characters for 'a'"),
        ("a=" + "x" * 1025, "a value of up to 1024 ASCII characters for 'a'"),
        ("code=1", "another name than 'code', which metrics have themselves"),
        ("nv_a=1", "another name than 'nv_a', which metrics have themselves"),
        ("a=1,a=2", "'a' once"),
        (",".join(f"a{n}=1" for n in range(21)), "at most 20 dimensions, not 21"),
    ],
)
def test_metric_dimensions_that_cloudwatch_would_refuse(words: str, expected: str) -> None:
    """The start fails, with what is wrong: at the endpoint it would be lost in silence."""
    name = "SERVE_METRIC_DIMENSIONS"
    assert mistakes_of({name: words}) == {name: f"Name=value,Name=value with {expected}"}


def test_each_mistake_in_metric_dimensions_is_told() -> None:
    """One failed start is enough."""
    (expected,) = mistakes_of({"SERVE_METRIC_DIMENSIONS": "code=1,b"}).values()
    assert expected.count(";") == 1


def test_no_fixed_dimension_is_a_label_of_ours() -> None:
    """The names that are refused are those that the metrics have."""
    counted = [sample for family in Metrics().events.collect() for sample in family.samples]
    labels = {label for family in FAMILIES for label in family.labels}
    labels |= {label for sample in counted for label in sample.labels}
    assert labels <= set(METRIC_LABELS)
