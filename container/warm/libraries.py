"""The libraries that warm interpreters import, and who asks for them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Library:
    """A library that a warm interpreter imports."""

    #: As stubs and SERVE_PRELOAD call it.
    name: str
    #: The modules that are imported, in this order.
    modules: tuple[str, ...]
    #: Those that are imported on a machine with GPUs, for models that need none; no modules where
    #: such a machine has no interpreter of it.
    beside_gpus: tuple[str, ...] = ()
    #: Whether its models may run workflows that are compiled whole: their runtime is imported, too.
    runs_workflows: bool = False

    def is_lacking(self, missing: Collection[str]) -> bool:
        """Whether nothing is left of it without these modules, or what is named like it is not."""
        return self.name in missing or {*self.modules} - {*missing} <= {"numpy"}


_PANDAS = ("numpy", "pandas", "cloudpickle")
_ALL = (
    Library("torch", ("numpy", "torch"), runs_workflows=True),
    Library("tensorflow", ("numpy", "tensorflow"), runs_workflows=True),
    Library("forests", ("numpy", "xgboost", "lightgbm", "treelite"), runs_workflows=True),
    # For exports with Merlin's QueryFeast; what else a multi-stage recommender needs is beside it.
    Library("feast", ("numpy", "feast", "torch", "faiss"), ("numpy", "feast", "faiss")),
    # For compiled workflows with functions in pandas, which need no NVTabular.
    Library("pandas", _PANDAS, _PANDAS),
    # For those whose predictor runs in the same process.
    Library("torch-pandas", ("numpy", "torch", "pandas", "cloudpickle")),
    Library(
        "nvtabular",
        (
            "numpy",
            "nvtabular",
            "nvtabular.ops",
            "merlin.systems.workflow.base",
            "merlin.systems.dag",
            "merlin.systems.dag.runtimes.triton",
            "merlin.systems.triton",
            "merlin.systems.triton.utils",
            "merlin.systems.triton.conversions",
        ),
    ),
)
#: By name.
LIBRARIES = {library.name: library for library in _ALL}


def choose_libraries(gpus: int) -> Mapping[str, Library]:
    """Those of which there are interpreters on a machine with so many GPUs, by name."""
    if not gpus:
        return LIBRARIES
    beside = (library for library in _ALL if library.beside_gpus)
    return {library.name: replace(library, modules=library.beside_gpus) for library in beside}


def describe_useless(preload: Iterable[str], libraries: Collection[str]) -> str:
    """What of SERVE_PRELOAD has no interpreter, and why, in a sentence; empty for none.

    libraries: those of which there are interpreters.
    """
    useless = ", ".join(name for name in preload if name not in libraries)
    if not useless:
        return ""
    if not libraries:
        return (
            "SERVE_PRELOAD is set and SERVE_WARM is off: there is nothing to preload into; set "
            "SERVE_WARM=auto"
        )
    return (
        f"SERVE_PRELOAD names {useless}, and there are GPUs: models of that import it themselves; "
        f"name none but {', '.join(libraries)}"
    )
