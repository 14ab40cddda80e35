"""Checks a delivered model for what Triton must find in it, before Triton is asked. No I/O.

tritonserver's own messages for these speak of its internals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ensemble_tools.archive.backend_names import FILE_BACKENDS, guess_backend, is_platform
from ensemble_tools.archive.completion import SAVED_MODEL
from ensemble_tools.archive.config_files import check_names
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.model_file import FOREST_FILES
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.errors import (
    ConfigIncomplete,
    DemandRefused,
    PayloadBroken,
    PayloadMissing,
    quoted,
    shortened,
)
from ensemble_tools.serving.ensemble_tensors import check_ensemble
from ensemble_tools.serving.workflow_checks import check_workflow
from ensemble_tools.setting_names import AUTO_COMPLETE

#: Backend -> what it loads from a version directory (26.05), unless default_model_filename is set.
#: A backend that is not here judges by itself what lies in its model: vllm, tensorrtllm, others.
_PAYLOADS = {
    **{
        backend: tuple(name for name, of in FILE_BACKENDS.items() if of == backend)
        for backend in ("python", "onnxruntime", "tensorrt", "tensorflow", "openvino")
    },
    "dali": ("model.dali", "dali.py"),
    "fil": tuple(FOREST_FILES.values()),
}
#: The platforms of pytorch; one that is not here is for the image's backend to judge.
_PYTORCH = {
    "": ("model.pt", "model.pt2", "model.py"),
    "pytorch_libtorch": ("model.pt", "model.py"),
    "libtorch": ("model.pt", "model.py"),
    "torch_aoti": ("model.pt2",),
}
#: What is read in the place of a default_model_filename that is not there.
_FALLBACKS = {"dali": ("dali.py",), "pytorch": ("model.py",)}
#: Ends of names that are known: none of them is what a backend reads under another name. A newer
#: backend may read what ends otherwise.
_KNOWN_ENDS = (
    *(".py", ".pt", ".pt2", ".pth", ".onnx", ".plan", ".engine", ".graphdef", ".pb"),
    *(".savedmodel/", ".xml", ".dali", ".json", ".ubj", ".xgb", ".model", ".txt", ".tl"),
    *(".md", ".csv"),
)
#: What is meant for a version, and is none to Triton.
_NUMBERED = re.compile(r"[-+]?\d+|v(?:ersion)?[-_ ]?\d+", re.IGNORECASE)
#: What a file may unpack to: this much, or so many times its size.
_UNPACKED_BYTES, _UNPACKED_RATIO = 2**30, 64
_DECLARE = "declare it: Triton does not complete the config of an ensemble"
_EXPORT = (
    "export the model again, or declare it: the ensemble in the executor's place is made of what "
    f"configs say, whatever {AUTO_COMPLETE} is"
)


@dataclass(frozen=True)
class Rules:
    """The rules that models are held against."""

    #: Inputs and outputs must be declared, as without auto-completion.
    strict: bool
    #: The models belong to an executor's graph, where strictness is a must: the edges of its
    #: ensemble are checked before any backend could be asked.
    under_executor: bool = False

    @property
    def is_strict(self) -> bool:
        """Whether configs must be whole."""
        return self.strict or self.under_executor


def check_servable(models: Iterable[SourceModel], rules: Rules) -> None:
    """Raise ConfigIncomplete, PayloadMissing, PayloadBroken or EnsembleInvalid for a model that
    cannot answer, NamesOutside for one that names what is not its own.
    """
    for model in models:
        _check_model(model, rules)
        check_ensemble(model)


def _check_model(model: SourceModel, rules: Rules) -> None:
    if model.config is not None:
        check_names(model.config_path, model.config)
        for field, found, expected in _find_mistakes(model.config):
            raise DemandRefused(model.config_path, field, found, expected)
    elif rules.is_strict or not _may_be_completed(model):
        _check_saved_model(model)
        _check_files(model)
    for field, remedy in _find_lacks(model, rules):
        raise ConfigIncomplete(model.config_path, field, remedy)
    if not model.is_ensemble:
        _check_files(model)
        _check_constants(model)
    if model.workflow is not None:
        check_workflow(model, model.workflow)


def _check_files(model: SourceModel) -> None:
    _check_payload(model, model.config)
    _check_packed(model)


def _may_be_completed(model: SourceModel) -> bool:
    """Whether the backend may know what the config lacks, where configs are not strict."""
    return model.advice is None or model.advice.completes


def _advise_writing(model: SourceModel, rules: Rules) -> str:
    if model.misnamed_config:
        return f"rename {shortened(model.misnamed_config)} to it"
    if rules.under_executor:
        return _EXPORT
    if not model.backend and model.advice is None:
        return f"write a config.pbtxt that names the backend: {_describe_untold(model)}"
    what = f"write a config.pbtxt{_describe_advice(model)}"
    if not _may_be_completed(model):
        return what
    return f"{what}, or set {AUTO_COMPLETE}=true to let Triton make one"


def _describe_untold(model: SourceModel) -> str:
    """Says that no file tells the backend."""
    files = model.payload.get(model.served_version or max(model.versions, default=0), frozenset())
    return f"nothing that is there tells it (found {', '.join(sorted(files)[:10]) or 'no file'})"


def _describe_advice(model: SourceModel) -> str:
    if model.advice is None:
        return ""
    return f": `{model.advice.text}`, {model.advice.unknown}"


def _check_saved_model(model: SourceModel) -> None:
    """Raise PayloadMissing for a version that is a SavedModel itself, as TF Serving has it."""
    version = model.served_version
    if version is not None and SAVED_MODEL in model.payload[version]:
        directory = model.find_version_directory(version)
        raise PayloadMissing(
            directory,
            f"it is a SavedModel itself ({SAVED_MODEL}); expected it one directory deeper: put "
            f"what is in {version}/ into {version}/model.savedmodel/",
        )


def _advise(model: SourceModel, rules: Rules) -> str:
    """The remedy for a field that is missing."""
    if rules.under_executor:
        return _EXPORT
    if model.is_ensemble:  # an ensemble is never completed
        return _DECLARE
    if not model.backend and model.advice is None:
        return f"add it, and `backend`: {_describe_untold(model)}"
    add = f"add{_describe_advice(model) or ' it'}"
    if not _may_be_completed(model):
        return add
    return f"{add}, or set {AUTO_COMPLETE}=true to let Triton ask the backend for it"


def _find_lacks(model: SourceModel, rules: Rules) -> Iterator[tuple[str, str]]:
    """(field that the config lacks, what to do about it); no field for a config that is lacking."""
    config = model.config
    if model.is_ensemble and config is not None and not config.steps:
        yield "ensemble_scheduling.step", "name at least one step"
    if not (model.is_ensemble or rules.is_strict) and _may_be_completed(model):
        return
    if config is None:
        yield "", _advise_writing(model, rules)
        return
    remedy = _advise(model, rules)
    if config.unknown_field:
        remedy = f"{remedy} (and see {config.unknown_field})"
    for field, tensors in (("input", config.inputs), ("output", config.outputs)):
        if not tensors:
            yield field, remedy
        for name, tensor in tensors.items():
            if not name:
                yield f"{field}.name", "name every tensor"
            if tensor.data_type == "TYPE_INVALID":
                yield f"{field}[{name!r}].data_type", remedy


def _find_mistakes(config: ModelConfig) -> Iterator[tuple[str, str, str]]:
    """(field, what was found, what is expected), where tritonserver's log alone would say it."""
    platform = config.platform
    if not config.backend and platform and not is_platform(platform):
        likely = guess_backend(platform)  # none: a newer Triton may know it
        if likely:
            found = f"is {quoted(platform)}, which is no platform of Triton's"
            yield "platform", found, f'expected `backend: "{likely}"` in its place'
    seen: set[str] = set()
    for number, tensor in enumerate(config.message.input):
        if tensor.name in seen:
            found = f"is {quoted(tensor.name)} a second time"
            expected = "expected each input once: tritonserver would refuse every request"
            yield f"input[{number}].name", found, expected
        seen.add(tensor.name)


def _check_payload(model: SourceModel, config: ModelConfig | None) -> None:
    if not model.versions:
        numbered = [f"{shortened(name)}/" for name in model.entries if _NUMBERED.fullmatch(name)]
        there = f" (found {', '.join(numbered[:10])})" if numbered else ""
        raise PayloadMissing(
            model.directory,
            f"no version directory in it{there}; expected one that holds what is to be loaded, "
            "such as 1/: a number from 1 on, without a zero in front",
        )
    version = _find_served_version(model, config)
    files = model.payload[version]
    directory = model.find_version_directory(version)
    expected = _find_expected_payload(model, config)
    if "model.pt/" in files and "model.pt" in expected and "model.pt2" not in files:
        raise PayloadMissing(
            directory / "model.pt",
            "it is a directory, as merlin saves a model that was not traced; expected the file "
            "that torch.jit.save writes: trace the model (torch.jit.trace) before it is exported",
        )
    if _lacks_payload(model.backend, files, expected):
        names = " or ".join(expected) or "the model's files"
        shown = ", ".join(sorted(files)[:10]) or "nothing"
        raise PayloadMissing(directory, f"expected {names} in it, found {shown}")
    read = files.intersection(expected)
    known = model.backend in _PAYLOADS or model.backend == "pytorch"
    if known and read and read <= model.hollow.keys():
        name = min(read)
        remedy = "put the model's file there, with all that belongs to it, and pack it again"
        raise PayloadBroken(directory / name, model.hollow[name], remedy)


def _lacks_payload(backend: str, files: frozenset[str], expected: tuple[str, ...]) -> bool:
    """Whether what the backend loads is certainly not there.

    The python backend is known. What an image's own backend reads, that backend alone knows, and a
    newer one may read more: of such a one a version is refused where it holds nothing, or only what
    is known to be something else.
    """
    if not expected:
        return not files and not backend
    if files.intersection(expected):
        return False
    return backend == "python" or all(name.endswith(_KNOWN_ENDS) for name in files)


def _check_packed(model: SourceModel) -> None:
    """Raise PayloadBroken for a file that is no whole zip archive, which torch would not load, and
    for one that stands for many times its size: torch takes it all.
    """
    for path, size, unpacked in model.packed:
        if not unpacked:
            found = f"has {size} bytes that are no whole zip archive" if size else "is empty"
            raise PayloadBroken(path, found, "expected what torch.jit.save wrote: save it again")
        if unpacked > max(_UNPACKED_BYTES, size * _UNPACKED_RATIO):
            found = f"has {size} bytes that unpack to {unpacked}"
            raise PayloadBroken(
                path, found, "save it with torch.jit.save, which compresses nothing"
            )


def _check_constants(model: SourceModel) -> None:
    """Raise PayloadBroken for a graph whose constants are many times what is stored: TensorFlow
    makes them at a request.
    """
    for path, size, unpacked in model.constants:
        if unpacked > max(_UNPACKED_BYTES, size * _UNPACKED_RATIO):
            raise PayloadBroken(
                path,
                f"has constants of {unpacked} bytes, and {size} bytes are stored with it",
                "expected what a model of that size has; save it again",
            )


def _find_served_version(model: SourceModel, config: ModelConfig | None) -> int:
    """The version that answers; raises PayloadMissing when the policy names one that is not there.

    Triton writes a line about it and serves the others, so another model than meant may answer.
    """
    specific = config.specific_versions if config else None
    missing = sorted(set(specific or ()) - set(model.versions))
    if missing or model.served_version is None:
        named = ", ".join(str(version) for version in missing[:10]) or "no version"
        there = ", ".join(str(version) for version in model.versions[:10])
        raise PayloadMissing(
            model.config_path,
            f"its version_policy names {named}, and the version directories are {there}; add "
            "what is missing, or change the policy",
        )
    return model.served_version


def _find_expected_payload(model: SourceModel, config: ModelConfig | None) -> tuple[str, ...]:
    """Names of which one has to be in the version; none where only the backend knows them."""
    backend = model.backend
    if config is not None and (config.message.cc_model_filenames or config.message.runtime):
        return ()
    platform = config.platform if config else ""
    expected = _PYTORCH.get(platform, ()) if backend == "pytorch" else _PAYLOADS.get(backend, ())
    if expected and (name := model.named_file):
        return (name, f"{name}/", *_FALLBACKS.get(backend, ()))
    return expected
