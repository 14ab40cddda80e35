"""What a picture refuses. Each message is one sentence."""

from __future__ import annotations

from ensemble_tools.errors import EnsembleToolsError


class NoGraphviz(EnsembleToolsError):
    """Pictures are for people's machines: where nothing is drawn, as in an image, it is not."""

    def __init__(self) -> None:
        super().__init__(
            "pictures are drawn by Graphviz, and there is no `dot` on the PATH; install it "
            "(apt-get install graphviz), or use --format text, json or mermaid"
        )


class GraphvizFailed(EnsembleToolsError):
    """It is there and draws nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Graphviz's `dot`: {message}; use --format text, json or mermaid")
