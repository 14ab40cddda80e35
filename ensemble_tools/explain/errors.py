"""What a picture refuses. Each message is one sentence."""

from __future__ import annotations

import sys

from ensemble_tools.errors import EnsembleToolsError


class NotDrawable(EnsembleToolsError):
    """More nodes than anyone could read."""

    def __init__(self, nodes: int, most: int) -> None:
        super().__init__(
            f"the picture would have {nodes} nodes, and at most {most} can be drawn; "
            "use --format text or --format json"
        )


class NoDrawingLibrary(EnsembleToolsError):
    """Pillow measures and draws; where nothing is drawn, as in the server's image, it is not."""

    def __init__(self) -> None:
        super().__init__(
            "pictures are drawn with Pillow, and this Python has none; install it "
            f"({sys.executable} -m pip install pillow), or use --format text, json or mermaid"
        )
