"""The command: what it prints and writes, what it refuses, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensemble_tools.serving.features import (
    ModelFeatures,
    write_features,
)
from tests.unit.verification.drift.fake_container import fake_container
from tests.unit.verification.drift.made_counts import make_ids, make_model
from verification.drift_command import FAILED, TOLD, main

SHOP = make_model(make_ids(came=(100, 300), fitted=(300, 100)))
NONE = ModelFeatures("00bb", "none.tar.gz", why_none="the archive has no NVTabular workflow")


@pytest.fixture
def counts(tmp_path: Path) -> str:
    """A file with both."""
    path = tmp_path / "counts.json"
    path.write_bytes(write_features(SHOP, NONE))
    return str(path)


def test_a_container(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table, JSON that the command reads again with the same result, and a page."""
    written, page = tmp_path / "drift.json", tmp_path / "drift.html"
    with fake_container(SHOP, NONE) as container:
        code = main([container.url, "--json", str(written), "--html", str(page)])
    table = capsys.readouterr().out
    assert code == TOLD
    assert "shop (3fb1): 400 rows came; columns: 1, of which drift 1, 1 of them much" in table
    assert json.loads(written.read_bytes())["models"][0]["drift"][0]["severity"] == "large"
    assert "<svg" in page.read_text()
    assert main([str(written)]) == TOLD
    assert capsys.readouterr().out == table


def test_since(counts: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What came before does not hide what comes now."""
    later = tmp_path / "later.json"
    later.write_bytes(write_features(make_model(make_ids(came=(100, 900), fitted=(300, 100)))))
    assert main([str(later), "--since", counts]) == TOLD
    assert "shop (3fb1): 600 rows came" in capsys.readouterr().out


def test_since_what_came_since(
    counts: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Looks are not chained: such a count lacks what the first look had, which would come again."""
    since = str(tmp_path / "since.json")
    assert main([counts, "--since", counts, "--json", since]) == TOLD
    assert main([since]) == TOLD
    capsys.readouterr()
    for arguments in ([counts, "--since", since], [since, "--since", counts]):
        assert main(arguments) == FAILED
        refusal = capsys.readouterr().err
        assert refusal.startswith(f"error: {since}: these are the counts of what came after")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{counts}", "other"], "{counts}: no model is called 'other'; expected one of shop, none"),
        (
            ["{counts}", "none.tar.gz"],
            "{counts}: none.tar.gz has no counts: the archive has no NVTabular workflow",
        ),
        (["{counts}.json"], "{counts}.json: it cannot be read (No such file or directory)"),
        (["{counts}", "--since", "/"], "/: it cannot be read (Is a directory)"),
        (["{counts}", "--html", "/"], "/: found a directory, expected a file to write"),
    ],
)
def test_refusals(
    arguments: list[str], sentence: str, counts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence on stderr, and nothing on stdout."""
    assert main([it.format(counts=counts) for it in arguments]) == FAILED
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {sentence.format(counts=counts)}")
    assert told.err.count("\n") == 1
