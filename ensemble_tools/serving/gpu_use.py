"""Which models may use a GPU. On a machine with GPUs no process that may is forked (decision 35).

A model needs none if it is a program of ours whose config asks for no GPU: a generated step without
Merlin's graph, and a compiled workflow, also with functions in pandas, if these name and import no
modules but Python's and NVTabular's.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import PurePosixPath

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.inert_pickle import NotInert
from ensemble_tools.archive.model_config import put_on_cpu
from ensemble_tools.archive.named_functions import find_imports, find_named
from ensemble_tools.archive.saved_workflow import find_workflow_file, read_objects
from ensemble_tools.archive.source_model import GRAPH_FILE, WORKFLOW, SourceModel
from ensemble_tools.serving.needed_modules import PYTHONS, WITH_NVTABULAR
from ensemble_tools.serving.serving_plan import PublishedModel
from ensemble_tools.workflows.program import PANDAS

#: What lies beside a generated step that runs Merlin's graph.
GRAPH_LINK = f"1/{PurePosixPath(GRAPH_FILE).parts[0]}"
#: Of what NVTabular brings, libraries that use a GPU. Merlin goes by CUDA_VISIBLE_DEVICES.
_WITH_GPU = {"cudf", "cupy", "numba"}
#: Of Python's own, modules that may bring in any other.
_LOADERS = {"ctypes", "imp", "importlib", "pickle", "pkgutil", "pydoc", "runpy"}
_WITHOUT_GPU = {*sys.stdlib_module_names, *PYTHONS, *WITH_NVTABULAR} - _WITH_GPU - _LOADERS
#: Of Merlin, what imports PyTorch or TensorFlow; `merlin` alone may be any part of it.
_MERLINS_MODELS = (
    *("merlin.models", "merlin.dataloader", "merlin.loader"),
    *("nvtabular.framework_utils", "nvtabular.loader"),
)
_ON_CPU = (pb.ModelInstanceGroup.KIND_AUTO, pb.ModelInstanceGroup.KIND_CPU)


def mark_gpu_use(model: PublishedModel, source: SourceModel | None) -> PublishedModel:
    """The model for a machine with GPUs: if it needs none, it has its instances on the CPU.

    source: what the archive has of it. Blocking; raises as read_objects does, but for NotInert.
    """
    if _may_use_gpu(model, source):
        return replace(model, may_use_gpu=True)
    if model.compiled is None or model.config_text is None:
        return model
    return replace(model, config_text=put_on_cpu(model.config_text))


def _may_use_gpu(model: PublishedModel, source: SourceModel | None) -> bool:
    if model.generated:
        return GRAPH_LINK in dict(model.links) or _asks_for_gpu(model)
    if model.compiled is None or source is None:
        return True
    if model.is_compiled_whole:
        return False
    in_pandas = model.compiled.program.interpreter == PANDAS
    return not in_pandas or _asks_for_gpu(model) or _names_other_modules(source)


def _asks_for_gpu(model: PublishedModel) -> bool:
    return any(group.kind not in _ON_CPU for group in model.config.instance_group)


def _names_other_modules(source: SourceModel) -> bool:
    """Whether its functions name or import a module that is not known to use no GPU."""
    for version in source.versions:
        directory = source.find_version_directory(version)
        try:
            objects = read_objects(find_workflow_file(directory / WORKFLOW))
        except NotInert:
            return True
        named = (function.module for function in find_named(objects))
        if any(_is_other(module) for module in {*named, *find_imports(objects)}):
            return True
    return False


def _is_other(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in _WITHOUT_GPU or module == "merlin" or module.startswith(_MERLINS_MODELS)
