"""The page that reports share."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from merlin_simulator.measuring.page import render

_OWN = """\
{% extends "measuring/page.html" %}
{% from "measuring/parts.html" import facts, numbers, plots, tiles %}
{% set title = name %}
{% block style %}{% include "own.css" %}{% endblock %}
{% block body %}
{{ facts([("CPU", name)]) }}{{ numbers(("", "p50"), [(name, 0.25 | seconds)]) }}
{{ tiles([(name, "short"), ("long", "0123456789")]) }}{{ plots(figures) }}
{{ none | seconds }} {{ none | size }} {{ 0.5 | share }} {{ 12345 | thousands }}
{% endblock %}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a template of its own, and rules for it."""
    (tmp_path / "own.html").write_text(_OWN)
    (tmp_path / "own.css").write_text("p { color: red }")
    return tmp_path


def test_all_that_is_put_in_is_escaped(folder: Path) -> None:
    """But plots, which are ours."""
    figure = {"title": "<t>", "svg": "<svg/>", "caption": "<c>"}
    page = render("own.html", folder, name="<b>", figures=[figure])
    assert "<b>" not in page
    assert "<title>&lt;b&gt;</title>" in page
    assert '<th scope="row">CPU</th><td>&lt;b&gt;</td>' in page
    assert '<th scope="row">&lt;b&gt;</th><td class="number">250 ms</td>' in page
    assert "<h3>&lt;t&gt;</h3><svg/><figcaption>&lt;c&gt;</figcaption>" in page
    assert '<div class="long"><dt>long</dt>' in page
    assert "– – 50 % 12,345" in page


def test_a_reports_own_rules_stand_after_the_common_ones(folder: Path) -> None:
    """So that they prevail."""
    page = render("own.html", folder, name="a", figures=[])
    assert 0 < page.index("--s1:") < page.index("p { color: red }") < page.index("</style>")


def test_a_value_that_is_not_there_is_no_blank(folder: Path) -> None:
    """A page without it would say something else."""
    with pytest.raises(UndefinedError, match="figures"):
        render("own.html", folder, name="a")
