"""What files a config may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_tools.archive.config_files import check_names
from ensemble_tools.archive.model_config import parse_model_config
from ensemble_tools.errors import NamesOutside

#: One line of a config for each field, with the name left out.
FIELDS = {
    "default_model_filename": 'default_model_filename: "%s"',
    "cc_model_filenames['7.5']": 'cc_model_filenames { key: "7.5" value: "%s" }',
    "output['OUT'].label_filename": 'output { name: "OUT" label_filename: "%s" }',
    "model_warmup.inputs['IN'].input_data_file": (
        'model_warmup { inputs { key: "IN" value { input_data_file: "%s" } } }'
    ),
    "sequence_batching.state['S'].initial_state.data_file": (
        'sequence_batching { state { input_name: "S" initial_state { data_file: "%s" } } }'
    ),
}
PATH = Path("/a/m/config.pbtxt")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "..", "/etc/passwd", "./../x", "a/..", "//x", "1/../x"]
)
def test_files_outside(field: str, name: str) -> None:
    """No name leads upwards or begins at the root; the field and the name are told."""
    with pytest.raises(NamesOutside, match="inside the model's directory") as caught:
        check_names(PATH, parse_model_config(FIELDS[field] % name, PATH))
    assert str(PATH) in str(caught.value)
    assert field in str(caught.value)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", ["labels.txt", "a/b.txt", "..a", "a..b", "...", ""])
def test_files_inside(field: str, name: str) -> None:
    """What lies in the model is its own."""
    check_names(PATH, parse_model_config(FIELDS[field] % name, PATH))


@pytest.mark.parametrize("field", ["backend", "runtime"])
def test_backends(field: str) -> None:
    """They are names: a path would have a library of the archive's loaded into tritonserver."""
    check_names(PATH, parse_model_config(f'{field}: "python"', PATH))
    for name in ("../python", "/tmp/x", "a/b"):
        with pytest.raises(NamesOutside, match="without a slash"):
            check_names(PATH, parse_model_config(f'{field}: "{name}"', PATH))


def test_a_long_name_is_shortened() -> None:
    """A message stays a sentence."""
    with pytest.raises(NamesOutside) as caught:
        check_names(PATH, parse_model_config(f'backend: "{"a/" * 5000}"', PATH))
    assert len(str(caught.value)) < 300


#: What stands in the command with which tritonserver starts a Python model's process.
WORDS = {
    "default_model_filename": 'default_model_filename: "%s"',
    "parameters['EXECUTION_ENV_PATH']": (
        'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "%s" } }'
    ),
}


@pytest.mark.parametrize("field", WORDS)
@pytest.mark.parametrize("name", ["my model.py", "$(touch x).py", "a;b", "it's", "a&b", "ü", "`a`"])
def test_names_that_a_shell_would_read(field: str, name: str) -> None:
    """It would run them, or the process would not start."""
    with pytest.raises(NamesOutside, match="letters, digits and the characters") as caught:
        check_names(PATH, parse_model_config(WORDS[field] % name, PATH))
    assert field in str(caught.value)


@pytest.mark.parametrize("field", WORDS)
@pytest.mark.parametrize("name", ["model.py", "model.savedmodel", "a/b-c_d+e=f,g:h@i%j", ""])
def test_plain_names(field: str, name: str) -> None:
    """They are taken."""
    check_names(PATH, parse_model_config(WORDS[field] % name, PATH))


@pytest.mark.parametrize("path", ["/opt/env.tar.gz", "$$TRITON_MODEL_DIRECTORY/env.tar.gz"])
def test_environments(path: str) -> None:
    """Triton's own word for the model's directory is one that no shell sees."""
    field = "parameters['EXECUTION_ENV_PATH']"
    check_names(PATH, parse_model_config(WORDS[field] % path, PATH))
