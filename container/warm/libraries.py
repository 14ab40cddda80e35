"""The libraries that warm interpreters import, and who asks for them. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """A library that a warm interpreter imports."""

    #: As stubs and SERVE_PRELOAD call it.
    name: str
    #: The modules that are imported, in this order.
    modules: tuple[str, ...]

    def is_lacking(self, missing: Collection[str]) -> bool:
        """Whether nothing is left of it without these modules, or what is named like it is not."""
        return self.name in missing or {*self.modules} - {*missing} <= {"numpy"}


_ALL = (
    Library("torch", ("numpy", "torch")),
    Library("tensorflow", ("numpy", "tensorflow")),
    Library("forests", ("numpy", "xgboost", "lightgbm", "treelite")),
    # For exports with Merlin's QueryFeast; what else a multi-stage recommender needs is beside it.
    Library("feast", ("numpy", "feast", "torch", "faiss")),
    # For compiled workflows with functions in pandas, which need no NVTabular.
    Library("pandas", ("numpy", "pandas", "cloudpickle")),
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
