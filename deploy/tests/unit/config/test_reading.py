"""CONFIG.toml: all mistakes together, each with its line; whatever it is, a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.settings.reading import SETTINGS as CONTAINERS_SETTINGS
from deploy.tests.support.grid import make_config
from ensemble_tools.shipping import FORMER_SETTINGS
from merlin_deploy.config.container_settings import SETTINGS
from merlin_deploy.config.reading import find_lines, parse_config, read_config
from merlin_deploy.config.sections import SECTIONS, Config, make_example
from merlin_deploy.errors import ConfigurationRefused, DeployError, Refused

WRITTEN = '''\
top.dotted = 1 # [not.a.header]

[one]
name = "[two]"
name2 = """
[two]
name = 5
""" # ]
list = [
  "]", # ]
  { name = 1 },
]
last = 1
"quoted name" = 1
'literal' . "dotted" = 1
inline = { inner = 1, deep = { deeper = 2 } }

[ two . "three" ]
name = 1
[[many]]
name = 1
[[many]]
name = 2
other = """\\
  \\"""] """
end = \'\'\'
]\'\'\'
[two]
name = 1
'''


def test_each_key_has_the_line_where_its_statement_begins() -> None:
    """Names that stand in several sections, in strings or in comments are not mixed up."""
    lines = find_lines(WRITTEN)
    assert lines == {
        ("top",): 1,
        ("top", "dotted"): 1,
        ("one",): 3,
        ("one", "name"): 4,
        ("one", "name2"): 5,
        ("one", "list"): 9,
        ("one", "last"): 13,
        ("one", "quoted name"): 14,
        ("one", "literal"): 15,
        ("one", "literal", "dotted"): 15,
        ("one", "inline"): 16,
        ("one", "inline", "inner"): 16,
        ("one", "inline", "deep"): 16,
        ("one", "inline", "deep", "deeper"): 16,
        ("two",): 18,
        ("two", "three"): 18,
        ("two", "three", "name"): 19,
        ("many",): 20,
        ("many", "name"): 21,
        ("many", "other"): 24,
        ("many", "end"): 26,
        ("two", "name"): 29,
    }


def test_windows_line_ends_are_one() -> None:
    """And what other programs take for one, in a string, is none."""
    assert find_lines('a = "\u2028"\r\n[b]\r\nc = 1\r\n')["b", "c"] == 3


def test_what_would_take_long_has_no_line() -> None:
    """A list of so many lines is no configuration; what stands before it has its line."""
    many = "a = 1\nb = [\n" + '"]",\n' * 20_000 + "]\nc = 1\n"
    assert find_lines(many) == {("a",): 1}


WRONG = """\
name = "top"
[endpoint]
name = "a b"
image = "merlin:1"
archives = '''s3://models
]
'''
role = "arn:aws:iam::123456789012:role/sagemaker"
region = "us-eats-1"

[instances]
type = "ml.g5.xlrge"
count = true
conut = 2
max = 3
startup_timeout = 1979-05-27

[container]
environment.A = 1
environment."1x" = "a"
environment.C = [1, [2]]
[network]
subnets = [
  "subnet-1", # ]
  5,
]
"security_groups" = ["sg-1", "sg-1"]
[tags]
"aws:x" = "1"
x = {a = 1}
"DEPLOY:history" = "1"
[[alarms]]
minutes = 3
[deploymnet]
keep = 1
[autoscaling]
max = inf
invocations_per_instance = nan
"""
SENTENCES = [
    (1, "found name, expected a section; it belongs to [endpoint]"),
    (3, 'endpoint.name: found "a b", expected 1 to 54 letters, digits and single hyphens'),
    (4, 'endpoint.image: found "merlin:1", expected an image in ECR, such as 123456789012.dkr.'),
    (5, 'endpoint.archives: found "s3://models\\n]\\n", expected an S3 prefix'),
    (9, 'endpoint.region: found "us-eats-1", expected a region of AWS; did you mean us-east-1?'),
    (12, 'found "ml.g5.xlrge", expected an instance type of AWS; did you mean ml.g5.xlarge?'),
    (13, "instances.count: found true, expected a whole number from 1 to 2147483647"),
    (14, "found conut, expected a choice of [instances]; did you mean count?"),
    (15, "found max, expected a choice of [instances]; it belongs to [autoscaling]"),
    (16, "instances.startup_timeout: found 1979-05-27, expected a whole number from 60 to 3600"),
    (21, "container.environment.C: found [1, […]], expected a string, a number or a boolean"),
    (23, 'network.subnets: found ["subnet-1", 5], expected a subnet'),
    (27, "expected a list without the same value twice"),
    (30, "tags.x: found a table, expected a string, a number or a boolean"),
    (32, "alarms: found a list, expected a section [alarms]"),
    (34, "found deploymnet, expected a section; did you mean deployment?"),
    (37, "autoscaling.max: found inf, expected a whole number"),
    (38, "autoscaling.invocations_per_instance: found nan, expected a number from 1e-09 to"),
]


def mistakes_of(written: str) -> list[tuple[int | None, str]]:
    """The mistakes that a file is refused with."""
    with pytest.raises(ConfigurationRefused) as refused:
        parse_config(written, "C.toml")
    return list(refused.value.mistakes)


def test_all_mistakes_are_told_in_the_order_of_their_lines() -> None:
    """What was found, what was expected, and where; each is one line of what is printed."""
    mistakes = mistakes_of(WRONG)
    assert [line for line, _ in mistakes] == [line for line, _ in SENTENCES]
    for (line, message), (_, expected) in zip(mistakes, SENTENCES, strict=True):
        assert expected in message, line
        assert "\n" not in message


def test_what_cannot_be_together_is_told_with_the_rest() -> None:
    """Of sections whose values can be read; also where a name in them is unknown."""
    with pytest.raises(ConfigurationRefused) as refused:
        make_config(
            """
[network]
subnets = ["subnet-1"]
[container]
model_cache = false
memory_reserve_mb = 1
sorts = 1
[container.environment]
SERVE_MEMORY_RESERVE_MB = 2
SAGEMAKER_MULTI_MODEL = true
A = "\\u0000"
[autoscaling]
min = 3
max = 2
invocations_per_instance = 1
[deployment]
traffic = "linear"
step_percent = 9
[tags]
"aws:a" = ""
"DEPLOY:history" = ""
"" = ""
[costs]
currency = " "
""",
            single_model="shop-a",
        )
    sentences = [f"{line} {sentence}" for line, sentence in refused.value.mistakes]
    for expected, message in zip(
        [
            "13 subnets and security_groups are given together",
            "15 model_cache is about multi-model endpoints",
            "17 found sorts, expected a choice of [container]",
            "19 SERVE_MEMORY_RESERVE_MB and memory_reserve_mb are both given",
            "20 container.environment: SAGEMAKER_MULTI_MODEL is SageMaker's own",
            "21 container.environment: the value of A has a NUL",
            "23 autoscaling.min is 3, more than autoscaling.max, which is 2",
            "28 deployment.step_percent is 9, expected 10 to 50",
            '30 the tag "aws:a": names that begin with aws: are AWS',
            '31 the tag "DEPLOY:history": names that begin with deploy: are `up`',
            '32 the tag "": found a name of 0 characters, expected 1 to 128',
            '34 costs.currency: found " ", expected a string in one line',
        ],
        sentences,
        strict=True,
    ):
        assert message.startswith(expected)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SERVE_LOG_FROMAT", "SERVE_LOG_FORMAT"),
        ("SERVE_LOGLEVEL", "SERVE_LOG_LEVEL"),
        ("serve_log_format", "SERVE_LOG_FORMAT"),
        ("SERVE_MEMORY_RESERVE", "SERVE_MEMORY_RESERVE_MB"),
        ("SERVE_", None),
        ("SERVE_QQQ", None),
    ],
)
def test_a_setting_that_the_container_does_not_have(name: str, nearest: str | None) -> None:
    """It would only be warned of in the log; the names that there are are told."""
    with pytest.raises(ConfigurationRefused) as refused:
        make_config(f"[container.environment]\nSERVE_SLOW_MS = 1\nSERVED = 1\n{name} = 1")
    ((line, sentence),) = refused.value.mistakes
    assert line == 13
    assert sentence.startswith(f"container.environment: found {name}, which is no setting")
    assert ("did you mean" in sentence) is (nearest is not None)
    assert f"did you mean {nearest}? " in sentence or nearest is None
    assert f"they are {', '.join(SETTINGS)}; " in sentence


@pytest.mark.parametrize("name", [*FORMER_SETTINGS, "serve_read_timeout"])
def test_a_setting_that_the_container_had_once(name: str) -> None:
    """What holds in its place is told with its line."""
    with pytest.raises(ConfigurationRefused) as refused:
        make_config(f"[container.environment]\n{name} = 1")
    ((line, sentence),) = refused.value.mistakes
    assert line == 11
    instead = FORMER_SETTINGS[name.upper()]
    is_no_setting = f"container.environment: {name} is no setting any more: {instead}"
    assert sentence == f"{is_no_setting}; leave it out"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("[metrics]\ndetailed = false", "metrics.detailed is false"),
        ('[container.environment]\nSERVE_METRICS = "off"', "SERVE_METRICS is off"),
        ('[container.environment]\nSERVE_FEATURE_METRICS = "off"', "SERVE_FEATURE_METRICS is off"),
    ],
)
def test_an_alarm_of_unseen_values_that_nobody_counts(more: str, reason: str) -> None:
    """It would never say anything."""
    with pytest.raises(ConfigurationRefused) as refused:
        make_config(f"[alarms]\nunseen_above_percent = 5\n{more}")
    ((line, sentence),) = refused.value.mistakes
    assert line == 11
    assert sentence.startswith(f"alarms.unseen_above_percent is given, and {reason}: ")


def test_the_settings_are_the_containers() -> None:
    """All that its table has, the reserve of memory among them."""
    names = {name for row in CONTAINERS_SETTINGS for name in row.names}
    assert sorted(name for name in names if name.startswith("SERVE_")) == list(SETTINGS)
    every = "\n".join(f"{name} = 1" for name in SETTINGS)
    environment = make_config(f"[container.environment]\n{every}").container.environment
    assert environment is not None
    assert set(environment) == set(SETTINGS)


@pytest.mark.parametrize(
    ("more", "instances", "message"),
    [
        ("max = 1\n", "", "instances.count is 2, expected .*1 to 1"),
        ("max = 2\n", "", None),
        ("max = 4\nmin = 3\n", "", "instances.count is 2, expected .*3 to 4"),
        ("max = 4\nmin = 2\n", "", None),
        ("max = 3\nmin = 4\n", "", "autoscaling.min is 4"),
    ],
)
def test_counts_fit_their_bounds(more: str, instances: str, message: str | None) -> None:
    """A count at a bound is within it."""
    section = f"[autoscaling]\ninvocations_per_instance = 1\n{more}"
    if message is None:
        make_config(section, instances)
        return
    with pytest.raises(ConfigurationRefused, match=message):
        make_config(section, instances)


def test_burstable_instances_do_not_scale() -> None:
    """AWS would say so when the endpoint is there; without autoscaling they are taken."""
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1"
    plain = f'[endpoint]\nname = "a"\nimage = "{image}"\narchives = "s3://models/"\n' + (
        'role = "arn:aws:iam::123456789012:role/r"\n[instances]\ntype = "ml.t2.medium"\n'
    )
    scaled = f"{plain}[autoscaling]\nmax = 2\ninvocations_per_instance = 1\n"
    assert parse_config(plain, "C.toml").instances.type == "ml.t2.medium"
    ((line, message),) = mistakes_of(scaled)
    assert (line, message[:37]) == (7, "instances.type is ml.t2.medium: AWS s")
    trainium = scaled.replace("ml.t2.medium", "ml.trn1.2xlarge")
    assert parse_config(trainium, "C.toml").instances.type == "ml.trn1.2xlarge"


@pytest.mark.parametrize(
    ("written", "line", "message"),
    [
        ("a = " + "[" * 5000, None, "too deep to be read"),
        ("\na" + ".a" * 40_000 + " = 1", 2, "more than 500 dots in a line"),
        ("a = " + "1" * 5000, None, "a number of thousands of digits"),
        ("[endpoint]\nname='a'\nname='b'", 3, "it is no TOML (at its end)"),
        ("[endpoint]\nname='a'\nname='b'\na=1", 3, "it is no TOML (column 9)"),
        ('[endpoint]\nname="""a\n', 2, "it is no TOML"),
        ("\n[endpoint", 2, "it is no TOML"),
    ],
)
def test_what_is_no_toml(written: str, line: int | None, message: str) -> None:
    """One mistake, at its line where TOML's reader tells it."""
    ((found_line, sentence),) = mistakes_of(written)
    assert found_line == line
    assert message in sentence


def test_numbers_that_python_does_not_write() -> None:
    """Hexadecimal ones may be of any length."""
    written = f"[instances]\ncount = 0x{'f' * 5000}\n[tags]\na = 0x{'f' * 5000}"
    lines = [line for line, message in mistakes_of(written) if "thousands of digits" in message]
    assert lines == [2, 4]


def test_what_would_draw_on_a_terminal_is_written_out() -> None:
    """Names and values may have anything in them."""
    for sign in ("\\u001b", "\\u202e", "\\u009b"):
        sentences = mistakes_of(f'"{sign}[31m" = 1\n[instances]\ntype = "{sign}"')
        assert all(message.isprintable() for _, message in sentences)
        assert any(line == 3 and f'found "{sign}"' in message for line, message in sentences)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there is no [endpoint], which has name and image and archives and role"),
        ("[endpoint]".encode("utf-16"), "UTF-16, expected text in UTF-8"),
        (b"a = 1\n\xff", "byte 6 is no UTF-8"),
        (b"#" * 100_001, "found more than 100 kB"),
        (b"\0", "it is no TOML"),
    ],
)
def test_files_that_are_none(tmp_path: Path, data: bytes, message: str) -> None:
    """Empty, in other letters, too large."""
    path = tmp_path / "C.toml"
    path.write_bytes(data)
    with pytest.raises(DeployError) as refused:
        read_config(path)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """A directory, a device without an end, nothing; 100 MB are not read into memory."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 100_000_000)
    for path, message in (
        (tmp_path, "Is a directory; expected a CONFIG.toml"),
        (tmp_path / "none", "No such file or directory"),
        (tmp_path / ("n" * 300), "File name too long"),
        (large, "more than 100 kB"),
        (Path("/dev/zero"), "more than 100 kB"),
    ):
        with pytest.raises(Refused, match=message):
            read_config(path)


def test_mark_in_front_is_none_of_it(tmp_path: Path) -> None:
    """Editors of Windows write one; line ends are theirs, too."""
    path = tmp_path / "C.toml"
    path.write_bytes(b"\xef\xbb\xbf" + make_example().replace("\n", "\r\n").encode())
    assert isinstance(read_config(path), Config)


@given(
    st.dictionaries(
        st.sampled_from([*SECTIONS, "tags", "x"]),
        st.sampled_from(
            [
                "1",
                "'a'",
                "[]",
                "{}",
                "{name = 1, image = inf}",
                "[[1]]",
                "{environment = {A = nan}}",
            ]
        ),
    )
)
def test_whatever_toml_says_it_is_a_sentence(given_sections: dict[str, str]) -> None:
    """Nothing but DeployError comes out."""
    written = "\n".join(f"{name} = {value}" for name, value in given_sections.items())
    for line, message in mistakes_of(written):
        assert message
        assert line is None or 1 <= line <= len(given_sections)


def test_example_says_what_can_be_said() -> None:
    """As it is printed, and with every choice in it uncommented."""
    printed = make_example()
    assert parse_config(printed, "C.toml").tags == {}
    config = parse_config(printed.replace("#: ", ""), "C.toml")
    assert config.tags == {"team": "recommendations"}
    assert config.autoscaling is not None
    assert config.endpoint.region == "us-east-1"
