"""What a program says where a package is not installed, as with a Python outside of .venv.

Imported before all else by those programs, so it imports next to nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in __init__.py
if TYPE_CHECKING:
    from types import TracebackType

#: Packages of this project, which are there or broken.
_OURS = {"container", "ensemble_tools", "serve", "verification"}


def tell_missing_packages(program: str, extra: str) -> None:
    """From here on a package that is not installed ends the program with a sentence, and code 1.

    extra: the one of pyproject.toml that brings it.
    """

    def tell(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        name = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if name.partition(".")[0] in {"", *_OURS}:
            sys.__excepthook__(kind, error, at)
            return
        print(
            f"{program}: the Python package {name!r} is not installed for {sys.executable}; in a "
            "checkout `make setup` installs it for .venv/bin/python, elsewhere pip install "
            f"'.[{extra}]'",
            file=sys.stderr,
        )

    sys.excepthook = tell
