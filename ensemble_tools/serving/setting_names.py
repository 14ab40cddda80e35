"""What people are told to set: the settings' names are known to who serves, not to this library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SettingNames:
    """rewrite: of the setting that Rewrite is the value of. auto_complete: of the one by which
    Triton completes configs. pickles: of the one that says whether anybody may unpickle.
    """

    rewrite: str = "rewrite"
    auto_complete: str = "auto_complete"
    pickles: str = "pickles"

    @property
    def executor_remedy(self) -> str:
        """What serves a graph that no ensemble can express."""
        return f"{self.rewrite}=auto serves the executor itself"
