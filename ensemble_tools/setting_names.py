"""The container's settings that messages about an archive send people to, by their names."""

from __future__ import annotations

REWRITE, AUTO_COMPLETE, PICKLES = "SERVE_REWRITE", "SERVE_AUTO_COMPLETE", "SERVE_PICKLES"
#: What serves a graph that no ensemble can express.
EXECUTOR_REMEDY = f"{REWRITE}=auto serves the executor itself"
