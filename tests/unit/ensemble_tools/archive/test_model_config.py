"""config.pbtxt: read as protobuf, edited as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import guess_backend
from ensemble_tools.archive.model_config import parse_model_config, put_on_cpu
from ensemble_tools.errors import ConfigUnreadable

PATH = Path("m/config.pbtxt")
NAMES = {"a": "model.a", "b": "model.b", 'q"\\\n': "model.q", "ü": "model.ü", "ab": "model.ab"}

STEPS = 'ensemble_scheduling { step { model_name: "a" model_version: -1 } }'
ODD = {
    "plain": f'name: "x"\n{STEPS}',
    "no name": STEPS,
    "comments": '# name: "c"\nname: \'x\' # "y" \'z\n'
    'ensemble_scheduling { step { # model_name: "none"\n model_name: "a" # "none"\n } }',
    "single quotes": f"name: 'x'\n{STEPS}",
    "adjacent literals": 'name: "x" \'y\'\n  "z"\nensemble_scheduling { step { '
    "model_name: 'a' # c\n 'b' } }",
    "lists": 'name:"x" ensemble_scheduling { step: [ {model_name:"a"}, {model_name:"b"} ] } '
    "input: [{name:'i' dims: [1, 2,3]}, {name: 'name'}]",
    "angle brackets": "name:'x' ensemble_scheduling < step < model_name:'a' > "
    "step {model_name:'b'} >",
    "separators": 'name: "x"; backend: "python", '
    'ensemble_scheduling: { step: { model_name: "a"; }; };',
    "escapes": r'name: "\170" ensemble_scheduling { step { model_name: "q\"\\\n" } '
    r'step { model_name: "\303\274" } step { model_name: "\x61" } }',
    "utf-8": 'name: "x" ensemble_scheduling { step { model_name: "ü" } } # naïve ✓',
    "carriage returns": 'name: "x"\r\n# c\r\nensemble_scheduling {\r\n '
    'step { model_name: "a" }\r\n}\r\n',
    "no blanks": "name:'x'ensemble_scheduling{step{model_name:'a'}}",
    "other names": 'name: "x" input { name: "a" } output { name: "a" label_filename: "a" } '
    'parameters { key: "name" value { string_value: "a" } } instance_group { name: "a" } '
    'model_warmup { name: "a" } ensemble_scheduling { step { model_name: "a" '
    'input_map { key: "model_name" value: "a" } output_map { key: "a" value: "name" } } }',
    "values like fields": 'backend: "name" name: "x" platform: "model_name" '
    'ensemble_scheduling { step { model_name: "a" model_namespace: "" } }',
}


def renamed_message(text: str, *, unknown: bool = False) -> tuple[pb.ModelConfig, pb.ModelConfig]:
    """The text renamed and then parsed, beside the text parsed and then renamed."""
    config = parse_model_config(text, PATH)
    after = text_format.Parse(
        config.renamed("new.name", NAMES), pb.ModelConfig(), allow_unknown_field=unknown
    )
    before = pb.ModelConfig()
    before.CopyFrom(config.message)
    if before.name:
        before.name = "new.name"
    for step in before.ensemble_scheduling.step:
        step.model_name = NAMES[step.model_name]
    for group in before.instance_group:
        group.name = ""
    return after, before


@pytest.mark.parametrize("kind", ODD)
def test_renamed(kind: str) -> None:
    """Renaming the text is renaming the message, however the text is written."""
    after, before = renamed_message(ODD[kind])
    assert after == before


@pytest.mark.parametrize(
    "field",
    [
        'future: "name"',
        "future: [ 'name', 'model_name' ]",
        'future { name: "a" model_name: "a" }',
        "future < step { model_name: 'a' } >",
        "future: -1.5e3",
        'future: "a" "b"',
        "future: [ { name: 'a' }, { name: 'b' } ]",
    ],
)
def test_unknown_fields_are_kept(field: str) -> None:
    """Fields of a newer Triton stay, byte for byte, where they are; only the names change."""
    scheduling = f'ensemble_scheduling {{ {field} step {{ {field} model_name: "a" }} }}'
    text = f'name: "x" {field}\n{field}\n{scheduling}'
    config = parse_model_config(text, PATH)
    assert config.unknown_field == 'line 1: no field named "future"'

    renamed = scheduling.removesuffix('"a" } }') + '"model.a" } }'
    assert config.renamed("n", NAMES) == f'name: "n" {field}\n{field}\n{renamed}'
    after, before = renamed_message(text, unknown=True)
    assert after == before


def strings(**limits: Any) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), **limits)


tensors: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        name=strings(max_size=5),
        data_type=st.sampled_from(list(pb.DataType.values())),
        dims=st.lists(st.integers(-1, 9), max_size=3),
    ),
    max_size=3,
)
steps: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        model_name=st.sampled_from(list(NAMES)),
        input_map=st.dictionaries(strings(max_size=5), strings(max_size=5), max_size=2),
        output_map=st.dictionaries(strings(max_size=5), strings(max_size=5), max_size=2),
    ),
    max_size=3,
)
messages = st.builds(
    pb.ModelConfig,
    name=strings(max_size=8),
    backend=strings(max_size=8),
    input=tensors.map(lambda many: [pb.ModelInput(**fields) for fields in many]),
    output=tensors.map(lambda many: [pb.ModelOutput(**fields) for fields in many]),
    cc_model_filenames=st.dictionaries(strings(max_size=5), strings(max_size=5), max_size=2),
    ensemble_scheduling=steps.map(
        lambda many: pb.ModelEnsembling(step=[pb.ModelEnsembling.Step(**fields) for fields in many])
    ),
)


@given(message=messages, one_line=st.booleans(), utf8=st.booleans(), angles=st.booleans())
def test_renamed_property(
    message: pb.ModelConfig, one_line: bool, utf8: bool, angles: bool
) -> None:
    """For any message, in any form that protobuf prints, renaming the text renames the message."""
    text = text_format.MessageToString(
        message, as_one_line=one_line, as_utf8=utf8, pointy_brackets=angles
    )
    after, before = renamed_message(text)
    assert after == before


@given(message=messages)
def test_what_is_read(message: pb.ModelConfig) -> None:
    """Inputs, outputs and steps are read as they are declared."""
    config = parse_model_config(text_format.MessageToString(message), PATH)
    assert [*config.inputs] == list(dict.fromkeys(tensor.name for tensor in message.input))
    assert [step.model_name for step in config.steps] == [
        step.model_name for step in message.ensemble_scheduling.step
    ]
    for tensor in message.output:
        if [other.name for other in message.output].count(tensor.name) == 1:
            assert config.outputs[tensor.name].dims == tuple(tensor.dims)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('name: "a"\ninput {', 2),
        ('name: "a"\n\n}', 3),
        ("name: 5", 1),
        ('name: "a"\nname: "b"', 2),
        ("max_batch_size: 1\nmax_batch_size: x", 2),
        ('name: "a', 1),
        ("\ninput { data_type: TYPE_NEW }", 2),
    ],
)
def test_unreadable(text: str, line: int) -> None:
    """A config that does not parse is refused with the file and the line."""
    with pytest.raises(ConfigUnreadable, match=rf"^m/config\.pbtxt:{line}: ") as refusal:
        parse_model_config(text, PATH)
    assert refusal.value.line == line


def test_nested_too_deeply() -> None:
    """Nesting without end is refused, known fields and unknown ones."""
    for field in ("ensemble_scheduling {", "future {"):
        with pytest.raises(ConfigUnreadable):
            parse_model_config(field * 20_000, PATH)


def test_newer_data_type() -> None:
    """A data type that only a newer Triton knows is told apart from all others."""
    config = parse_model_config('input { name: "i" data_type: 99 }', PATH)
    assert config.inputs["i"].data_type == "data type 99"


def test_whole_shape() -> None:
    """With a maximum batch size, a dimension of any size stands before the declared ones."""
    text = 'max_batch_size: {} input {{ name: "i" dims: [4] }}'
    for size, shape in ((0, (4,)), (8, (-1, 4))):
        config = parse_model_config(text.format(size), PATH)
        assert config.make_full_dims(config.inputs["i"]) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: 'm'\nmax_batchsize: 3", 'line 2: no field named "max_batchsize"; did you mean m'),
        ("input { datatype: TYPE_FP32 }", 'line 1: no field named "datatype"; did you mean data_'),
        ("input { nothing_like_it: 3 }", 'line 1: no field named "nothing_like_it"'),
        (
            "name: 'm'\ninstance_groups [ { count: 1 } ]",
            'line 2: no field named "instance_groups"; did you mean instance_group?',
        ),
        ("future [ { a [ { b: [1, 2] } ] } ]", 'line 1: no field named "future"'),
    ],
)
def test_misspelt_fields(text: str, said: str) -> None:
    """The nearest name of the message that it stands in."""
    found = parse_model_config(text, PATH).unknown_field
    assert found.startswith(said)
    assert ("did you mean" in found) is ("did you mean" in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instance_group [ { kind: KIND_GPUS } ]", r"KIND_GPUS \(there are KIND_AUTO, KIND_GPU,"),
        ("input { data_type: TYPE_FLOAT32 }", r"TYPE_FLOAT32; did you mean TYPE_FP32\?"),
        ("input { data_type: DOUBLE }", r"DOUBLE \(there are TYPE_INVALID, TYPE_BOOL,"),
        (
            "name: 'm'\n backend: \u201cpython\u201d",
            r"pbtxt:2: .* '\\u201c' \(left double quotation mark\) outside of quotes and comments",
        ),
        ("name: 'm'\n\nbackend:\u00a0'python'", r"pbtxt:3: .*\(no-break space\) outside of quotes"),
        (
            "name: 'm' # \u201c\n\0",
            r"pbtxt:2: .* '\\x00' \(a control character\) outside of quotes",
        ),
        ("input [ { dims: 'a' } ]\nfuture: 1", r"pbtxt:1: 'input \[ \{ dims: 'a' \} \]': Couldn't"),
    ],
)
def test_what_is_no_config(text: str, said: str) -> None:
    """The line as it was written, what is wrong in it, and what may have been meant."""
    with pytest.raises(ConfigUnreadable, match=said):
        parse_model_config(text, PATH)


def test_text_of_any_script() -> None:
    """It may stand in strings and comments."""
    text = "name: 'mod\u00e8le' # \u00e0 voir\n\tbackend: \"python\"\r\n"
    assert parse_model_config(text, PATH).name == "mod\u00e8le"


@pytest.mark.parametrize(
    ("word", "backend"),
    [
        ("python", "python"),
        ("Python", "python"),
        ("pytorch", "pytorch"),
        ("pytorch_libtorch", "pytorch"),
        ("torchscript", "pytorch"),
        ("onnx", "onnxruntime"),
        ("tensorflow2", "tensorflow"),
        ("tensorrt_llm", "tensorrtllm"),
        ("lightgbm", "fil"),
        ("custom", ""),
        ("", ""),
    ],
)
def test_which_backend_is_meant(word: str, backend: str) -> None:
    assert guess_backend(word) == backend


@pytest.mark.parametrize(
    "written",
    ["", "model_version: 0", "model_version: -0", "model_version : # 7\n 0x0, # model_version: 3"],
)
@pytest.mark.parametrize("form", ["step {{ {0} }} step < {1} >", "step [ {{ {0} }}, {{ {1} }} ]"])
def test_a_step_without_a_version(written: str, form: str) -> None:
    """It is of the latest one; all else of the text stays as it was."""
    first = f'model_name: "a" {written}\n input_map {{ key: "model_version" value: "}} 0" }}'
    steps = form.format(first, 'model_name: "b" model_version: 3')
    text = f"# a comment\nensemble_scheduling {{ {steps} }}"
    config = parse_model_config(text, PATH)
    for read in (config.message, text_format.Parse(config.text, pb.ModelConfig())):
        assert [step.model_version for step in read.ensemble_scheduling.step] == [-1, 3]
        assert read.ensemble_scheduling.step[0].input_map["model_version"] == "} 0"
    assert config.text.startswith("# a comment\n")
    assert parse_model_config(config.text, PATH).text == config.text


KEPT = 'name: "m" # instance_group { }\nfuture { instance_group { kind: "x" } } '
_CPU = pb.ModelInstanceGroup.KIND_CPU


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("", [(0, "")]),
        ("instance_group { }", [(0, "")]),
        ("instance_group{}", [(0, "")]),
        ('instance_group: { count: 2 name: "}" }, ', [(2, "}")]),
        ("instance_group < kind: KIND_GPU gpus: [ 0, 1 ] count: 3 >;", [(3, "")]),
        ("instance_group [ { count: 2 }, { kind: KIND_CPU count: 1 } ] ", [(2, ""), (1, "")]),
        ("instance_group: [\n{ gpus: 1 gpus: 2 } # ]\n]", [(0, "")]),
        ('instance_group { count: 4 }\nbackend: "python"\ninstance_group { }', [(4, ""), (0, "")]),
        ("instance_group [ ]", [(0, "")]),
    ],
)
@pytest.mark.parametrize("behind", ["", 'platform: "p"', "\n# the end"])
def test_put_on_cpu(groups: str, expected: list[tuple[int, str]], behind: str) -> None:
    """Each group has its count and name, and no GPUs; what is no group stays as it was written."""
    text = put_on_cpu(f"{KEPT}{groups}{behind}")
    config = parse_model_config(text, PATH).message
    found = [(group.count, group.name) for group in config.instance_group]
    assert found == expected
    assert {(group.kind, *group.gpus) for group in config.instance_group} == {(_CPU,)}
    assert KEPT.strip() in text
    assert text.rstrip().endswith(behind)
    assert config.name == "m"
    assert config.backend == ("python" if "python" in groups else "")
    assert config.platform == ("p" if "platform" in behind else "")
