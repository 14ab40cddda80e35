"""What pip would install from a lock, told without pip."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.locks import Pin, read_lock

ROOT = Path(__file__).parents[3]
ONE, OTHER = "1" * 64, "2" * 64
LOCK = f"""\
# Not a package.
Old.Name==1.0 ; python_full_version < '3.11' \\
    --hash=sha256:{ONE}
new_name==2.0+cpu ; python_full_version >= '3.11' \\
    --hash=sha256:{ONE} \\
    --hash=sha256:{OTHER}
of-windows==3.0 ; sys_platform == 'win32' \\
    --hash=sha256:{ONE}
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "lock.txt"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ("3.10", [Pin("old-name", "1.0", (ONE,))]),
        ("3.11", [Pin("new-name", "2.0+cpu", (ONE, OTHER))]),
        ("3.12", [Pin("new-name", "2.0+cpu", (ONE, OTHER))]),
    ],
)
def test_what_is_for_that_python(python: str, expected: list[Pin], tmp_path: Path) -> None:
    """Markers are those of Linux and of the Python that is asked for, whatever runs this."""
    assert list(read_lock(write(tmp_path, LOCK), python)) == expected


@pytest.mark.parametrize(
    "line", [f"a>=1 --hash=sha256:{ONE}", "a==1", f"a==1.* --hash=sha256:{ONE}"]
)
def test_a_line_that_pins_nothing(line: str, tmp_path: Path) -> None:
    """It is no lock: the line is named."""
    path = write(tmp_path, line + "\n")
    with pytest.raises(
        ValueError, match=r"lock\.txt: found .*, expected NAME==VERSION with --hash"
    ):
        list(read_lock(path, "3.11"))


def test_every_lock_can_be_read() -> None:
    """None of requirements/ has another form."""
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    assert len(locks) > 10
    for path in locks:
        names = [pin.name for pin in read_lock(path, "3.11")]
        assert names
        assert len(names) == len({*names}), path
