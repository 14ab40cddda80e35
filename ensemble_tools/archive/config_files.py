"""Which files and backends a config names: none may lie outside of its model. No I/O.

tritonserver joins such a name to the model's directory and opens what comes out. Before 26.02 it
reads a file of labels named ../../other/model/secret, and tells it to whoever asks for a
classification (CVE-2026-24147; seen on 2.36 and 2.51). Its Python backend starts a model's process
through a shell, with the path of the model's file and of its environment as they are: what a shell
reads in them is run, or keeps the process from starting, for which tritonserver waits for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ensemble_tools.archive.model_config import ENVIRONMENT, MODEL_DIRECTORY, ModelConfig
from ensemble_tools.errors import NamesOutside

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+=,:@%/-]+")


def check_names(path: Path, config: ModelConfig) -> None:
    """Raise NamesOutside for a file that leaves the model, and for a backend that is a path.

    Also for a name that a shell would not read as one.

    path: the config's own, for the message.
    """
    for field, name, expected in _find_unfit(config):
        raise NamesOutside(path, field, name, expected)


def _find_unfit(config: ModelConfig) -> Iterator[tuple[str, str, str]]:
    """(field, what it names, what is expected)."""
    for field, name in _list_files(config):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            yield field, name, "a file inside the model's directory"
    for field, name in _find_shell_words(config):
        if not _PLAIN_PATH.fullmatch(name):
            expected = "letters, digits and the characters _ . - + = , : @ % / alone; rename it"
            yield field, name, expected
    for field, name in (
        ("backend", str(config.message.backend)),
        ("runtime", str(config.message.runtime)),
    ):
        if "/" in name:
            yield field, name, "a name without a slash"


def _find_shell_words(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """(field, what it names), for what stands in the command of a Python model's process."""
    message = config.message
    if message.default_model_filename:
        yield "default_model_filename", str(message.default_model_filename)
    if config.environment:
        path = config.environment.removeprefix(MODEL_DIRECTORY)
        yield f"parameters[{ENVIRONMENT!r}]", path or "/"


def _list_files(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """(field, what it names), for fields that Triton opens as files."""
    message = config.message
    yield "default_model_filename", str(message.default_model_filename)
    for capability, name in message.cc_model_filenames.items():
        yield f"cc_model_filenames[{capability!r}]", str(name)
    for output in message.output:
        yield f"output[{output.name!r}].label_filename", str(output.label_filename)
    for warmup in message.model_warmup:
        for name, warmup_input in warmup.inputs.items():
            yield (
                f"model_warmup.inputs[{name!r}].input_data_file",
                str(warmup_input.input_data_file),
            )
    for state in message.sequence_batching.state:
        for initial in state.initial_state:
            field = f"sequence_batching.state[{state.input_name!r}].initial_state.data_file"
            yield field, str(initial.data_file)
