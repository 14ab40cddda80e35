"""`explain`: the text, and the same picture in every format."""

from __future__ import annotations

import json
import re
import shutil
import struct
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools import Compile
from ensemble_tools import __main__ as command
from ensemble_tools.commands.explain import render_plans
from ensemble_tools.explain.graphviz import draw
from ensemble_tools.explain.json_writer import document
from ensemble_tools.explain.mermaid import mermaid
from ensemble_tools.explain.picture import (
    Box,
    CarriedTensor,
    DrawnTensor,
    Edge,
    Picture,
    Reason,
    Side,
)
from ensemble_tools.serving.opened_archive import read_archive
from ensemble_tools.workflows.program import Kept
from tests.support.category_files import with_a_category_twice
from tests.support.examples import examples

ROOT = Path(__file__).parents[4]
EXPORTS = sorted(path.parent for path in (ROOT / "examples/merlin").glob("*/repository"))
DENSE = ROOT / "examples/merlin/dense/repository"
TWO = ROOT / "examples/merlin/two_workflows/repository"
NO_PICKLE = ROOT / "tests/golden/graph_json/lambda/repository"
SECOND = "1_transformworkflowtriton"
SVG = "{http://www.w3.org/2000/svg}"

#: Lines of a Mermaid flowchart as mermaid.py writes them: nothing in a label can end it.
_LABEL = r'"(?:[A-Za-z0-9 _.,:()/-]|#\d+;|<br/>)*"'
_MERMAID = re.compile(
    "|".join(
        (
            r"flowchart LR",
            r" +direction TB",
            r" +end",
            rf" +subgraph side\d\[{_LABEL}\]",
            rf" +n\d+\[{_LABEL}\]:::kind_\w+",
            rf" +n\d+\(\[{_LABEL}\]\)",
            rf" +n\d+ -->(\|{_LABEL}\|)? n\d+",
            rf" +n\d+ -\.->\|{_LABEL}\| n\d+",
            r" +n\d+ -\.- n\d+",
            rf" +refused\[{_LABEL}\]",
            r" +classDef kind_\w+ [\w#:,]+",
        )
    )
)


def test_text_golden(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says archive, graph and plan, as written down beside this test."""
    monkeypatch.chdir(ROOT)
    assert command.main(["explain", "examples/merlin/two_workflows/repository"]) == command.SERVED
    golden = Path(__file__).with_name("explain_two_workflows.txt")
    assert capsys.readouterr().out == golden.read_text()


def test_text_names_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A column that a workflow computes and nobody reads is named."""
    command.main(["explain", str(DENSE)])
    sentence = "left out: visits_log of model.0_transformworkflowtriton: nobody reads it\n"
    assert sentence in capsys.readouterr().out


def breaking(root: Path, how: str) -> Path:
    """The export with two workflows; the category file of the second is not what it was."""
    export = root / "export"
    shutil.copytree(TWO, export)
    of_second = export / f"{SECOND}/1/workflow/categories/unique.item_id.parquet"
    if how == "missing":
        of_second.unlink()
    elif how == "twice":
        with_a_category_twice(of_second)
    elif how == "cut off":
        of_second.write_bytes(of_second.read_bytes()[:100])
    else:
        of_first = export / "0_transformworkflowtriton/1/workflow/categories/unique.user_id.parquet"
        shutil.copy(of_first, of_second)
    return export


def test_category_file_is_unusable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a workflow is said not to be compiled, with the file; the other one is compiled."""
    archive, reason = breaking(tmp_path, "twice"), "has a category twice"
    assert command.main(["explain", str(archive)]) == command.SERVED
    text = capsys.readouterr().out
    compiled_lines = [line.strip() for line in text.splitlines() if "compiled: " in line]
    assert compiled_lines[0] == "compiled: numpy  (1 Categorify, 1 Normalize)"
    assert compiled_lines[1].startswith("not compiled: the category file unique.item_id.parquet ")
    assert reason in compiled_lines[1]
    assert len(compiled_lines) == 2
    command.main(["explain", str(archive), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert any(SECOND in note and reason in note for note in found["notes"])
    workflows = [node["workflow"] for node in found["triton"]["nodes"] if node["workflow"]]
    assert workflows[0] == {
        "compiled": True,
        "operators": {"Categorify": 1, "Normalize": 1},
        "reason": None,
        "kept": [],
        "recognised": "NVTabular 23.08 by its label (23.08.00) and by what it holds",
        "pickle": True,
    }
    assert (workflows[1]["compiled"], workflows[1]["operators"]) == (False, {})
    assert reason in workflows[1]["reason"]
    assert len(workflows) == 2


@pytest.mark.parametrize(
    ("how", "reason"),
    [("cut off", "cannot be read"), ("foreign", "has no column 'item_id'; export it again")],
)
def test_category_file_is_broken(
    how: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NVTabular would fail at each request: the archive is refused, with the file."""
    assert command.main(["explain", str(breaking(tmp_path, how))]) == command.REFUSED
    printed = capsys.readouterr().out
    assert "unique.item_id.parquet: " in printed
    assert reason in printed


def test_category_file_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NVTabular could not load the workflow either: the archive is refused, with the file."""
    assert command.main(["explain", str(breaking(tmp_path, "missing"))]) == command.REFUSED
    assert "unique.item_id.parquet" in capsys.readouterr().out


def test_workflow_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow step whose model.py was changed is not compiled: what it adds would be lost."""
    shutil.copytree(TWO, tmp_path / "export")
    with (tmp_path / "export" / SECOND / "1/model.py").open("a") as file:
        file.write("print('mine')\n")
    assert command.main(["explain", str(tmp_path / "export")]) == command.SERVED
    sentence = "not compiled: 1/model.py is not the one that merlin-systems exports\n"
    assert sentence in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mermaid", "svg", "png"])
def test_boxes_say_what_is_compiled(form: str, tmp_path: Path) -> None:
    """A step's box is marked; the reason stands in the box (Mermaid) or below the picture."""
    drawn = tmp_path / "picture"
    arguments = ["explain", str(breaking(tmp_path, "twice")), "--format", form, "-o", str(drawn)]
    assert command.main(arguments) == command.SERVED
    if form == "mermaid":
        boxes = [line for line in drawn.read_text().splitlines() if "kind_step" in line]
        assert "<br/>compiled: numpy<br/>" in boxes[0]
        assert "<br/>not compiled: the category file unique.item_id.parquet has a" in boxes[1]
        assert "compiled" not in boxes[2]
    elif form == "svg":
        texts = [element.text or "" for element in ElementTree.parse(drawn).iter(f"{SVG}text")]
        assert [text for text in texts if text.endswith("compiled: numpy")] == ["compiled: numpy"]
        assert "not compiled" in texts
        assert any(text.startswith(f"Note: {SECOND} is not compiled, NVTabular") for text in texts)
        assert any("(1 Categorify, 1 Normalize)" in text for text in texts)
    else:
        command.main([*arguments[:-1], str(tmp_path / "off"), "--compile", "off"])
        assert drawn.read_bytes() != (tmp_path / "off").read_bytes()


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "svg"])
def test_compiled_in_part(form: str, tmp_path: Path) -> None:
    """What NVTabular runs of a compiled workflow is named, with the reason."""
    archive = read_archive(TWO, "model", workflows=Compile.AUTO)
    assert archive.plan is not None
    first, *others = archive.plan.models
    assert first.compiled is not None
    reason = "LambdaOp of 'age': its function is Python"
    program = replace(first.compiled.program, kept=(Kept("LambdaOp", ("age",), reason),))
    first = replace(first, compiled=replace(first.compiled, program=program))
    archive = replace(archive, plan=replace(archive.plan, models=(first, *others)))
    written = render_plans(archive, "model", form).decode()
    if form == "json":
        nodes = json.loads(written)["triton"]["nodes"]
        workflows = [node["workflow"] for node in nodes if node["workflow"]]
        assert [workflow["kept"] for workflow in workflows] == [[reason], []]
        assert all(workflow["compiled"] for workflow in workflows)
        return
    assert written.count("compiled in part") == (2 if form == "svg" else 1)
    assert "LambdaOp of " in written


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "svg"])
def test_a_workflow_without_a_pickle(form: str) -> None:
    """It is said to have none, compiled in part or not at all."""
    archive = read_archive(NO_PICKLE, "model", workflows=Compile.AUTO)
    written = render_plans(archive, "model", form).decode()
    if form == "json":
        nodes = json.loads(written)["triton"]["nodes"]
        assert [node["workflow"]["pickle"] for node in nodes if node["workflow"]] == [False]
        return
    said = "workflow: graph.json, no pickle\n" if form == "text" else "compiled in part: numpy, no"
    assert said in written
    assert archive.plan is not None
    models = tuple(
        replace(model, compiled=None, not_compiled="no") if model.json_workflow_path else model
        for model in archive.plan.models
    )
    archive = replace(archive, plan=replace(archive.plan, models=models))
    written = render_plans(archive, "model", form).decode()
    said = "; NVTabular reads it from its commit 08e0633 on" if form == "text" else "compiled, no p"
    assert said in written


def test_compile_off(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is compiled, and nothing is said about it."""
    assert command.main(["explain", str(TWO), "--compile", "off"]) == command.SERVED
    assert "compiled" not in capsys.readouterr().out


def test_nothing_is_left_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are written to be tried, and thrown away."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert command.main(["explain", str(TWO)]) == command.SERVED
    assert "compiled: numpy" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def refused_archive(root: Path) -> Path:
    (root / "m").mkdir()
    (root / "m/config.pbtxt").write_text('backend: "python"')
    return root


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "svg", "png"])
def test_refusal(form: str, tmp_path: Path) -> None:
    """An archive that cannot be served is explained in every format; the exit code is 1."""
    root = refused_archive(tmp_path)
    output = tmp_path / "out"
    arguments = ["explain", str(root), "--format", form, "-o", str(output)]
    assert command.main(arguments) == command.REFUSED
    if form == "text":
        assert "served as    nothing\nrefused: " in output.read_text()
    elif form == "json":
        found = json.loads(output.read_text())
        assert (found["served_as"], found["triton"]) == (None, None)
        assert "m/config.pbtxt" in found["refusal"] or str(root) in found["refusal"]
    else:
        assert output.stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.svg", b"<?xml "),
        ("a.png", b"\x89PNG"),
        ("a.json", b"{"),
        ("a.mmd", b"flowchart"),
        ("a.txt", b"archive"),
    ],
)
def test_format_by_name(name: str, begins: bytes, tmp_path: Path) -> None:
    """Without --format the file's name says which one is meant; an older file is replaced."""
    (tmp_path / name).write_text("older")
    assert command.main(["explain", str(DENSE), "-o", str(tmp_path / name)]) == command.SERVED
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow
@pytest.mark.parametrize("export", EXPORTS, ids=lambda path: path.name)
def test_pictures_of_exports(export: Path, tmp_path: Path) -> None:
    """Every committed export has its picture: SVG that parses, PNG with twice CSS's pixels."""
    repository = str(export / "repository")
    for name in ("a.svg", "a.png"):
        assert command.main(["explain", repository, "-o", str(tmp_path / name)]) == command.SERVED
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    points = [float(root.attrib[name].removesuffix("pt")) for name in ("width", "height")]
    for pixels, length in zip(_png_size((tmp_path / "a.png").read_bytes()), points, strict=True):
        assert abs(pixels - length / 72 * 192) <= 4


def _png_size(image: bytes) -> tuple[int, int]:
    assert image.startswith(b"\x89PNG\r\n")
    assert image.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", image[16:24])
    return width, height


def test_svg_needs_nothing_else(tmp_path: Path) -> None:
    """One file: nothing is fetched, nothing runs."""
    command.main(["explain", str(DENSE), "-o", str(tmp_path / "a.svg")])
    text = (tmp_path / "a.svg").read_text()
    assert re.findall(r"(?:href|src)\s*[=:]\s*[\"'(]?(?!url\(data:)\S+", text) == []
    assert "<script" not in text


def test_json_is_the_documented_schema(tmp_path: Path) -> None:
    """Every key that docs/explain-format.md names is there, and no other."""
    command.main(["explain", str(DENSE), "-o", str(tmp_path / "a.json")])
    found = json.loads((tmp_path / "a.json").read_text())
    documented = (ROOT / "docs/explain-format.md").read_text()
    keys = {*found, *found["merlin"]["nodes"][0], *found["merlin"]["edges"][0]}
    keys |= {*found["request"][0], *found["merlin"]["edges"][0]["tensors"][0]}
    keys |= {*found["triton"]["nodes"][1]["workflow"]}
    undocumented = [key for key in keys if f"`{key}`" not in documented]
    assert [key for key in undocumented if f'"{key}"' not in documented] == []
    assert found["served_as"] == "pure ensemble"
    assert [column["name"] for column in found["answer"]] == ["click"]


def test_json_edges_of_the_dense_export(tmp_path: Path) -> None:
    """Who feeds whom, with which columns: both sides of the same export."""
    command.main(["explain", str(DENSE), "-o", str(tmp_path / "a.json")])
    found = json.loads((tmp_path / "a.json").read_text())
    edges = {
        (edge["source"], edge["target"]): sorted(
            tensor["target_name"] for tensor in edge["tensors"]
        )
        for side in ("merlin", "triton")
        for edge in found[side]["edges"]
    }
    read = ["age", "item_id", "price", "user_id"]
    assert edges["merlin.1", "merlin.2"] == read
    steps = ("0.model.0_transformworkflowtriton", "1.model.1_predictpytorchtriton")
    assert edges[f"triton.step.{steps[0]}", f"triton.step.{steps[1]}"] == read
    assert edges["merlin.request", "merlin.0"] == sorted([*read, "visits"])
    assert {"merlin": "merlin.2", "triton": "triton.step.1.model.1_predictpytorchtriton"} in found[
        "correspondences"
    ]


# --- names come from archives -------------------------------------------------------------------

names = st.text(min_size=1, max_size=12) | st.sampled_from(
    ['"];x-->y', "<script>", "&amp;", "]]>", "\x00\x1b[31m", "a" * 300, "\u202eabc", "]", '"]:::k']
)


@st.composite
def pictures(chosen: st.DrawFn) -> Picture:
    """Two boxes on each side, every word of them from outside."""
    name = st.builds(str, names)
    tensor = st.builds(
        DrawnTensor, name, st.none() | name, st.none() | st.just((-1, 4)), st.booleans()
    )

    def side(whose: str) -> Side:
        nodes = tuple(
            Box(
                f"{whose}.{number}",
                kind,
                chosen(name),
                chosen(name),
                chosen(name),
                tuple(chosen(st.lists(tensor, max_size=9))),
            )
            for number, kind in enumerate(("request", "call", "answer"))
        )
        flow = CarriedTensor(chosen(name), chosen(name), chosen(name), chosen(name))
        edges = (
            Edge(nodes[0].id, nodes[1].id, (flow,)),
            Edge(nodes[1].id, nodes[2].id, (), calls=chosen(st.booleans())),
        )
        return Side(chosen(name), nodes, edges)

    return Picture(
        archive=chosen(name),
        model_name=chosen(name),
        form=chosen(st.none() | name),
        entry=None,
        merlin=side("merlin"),
        triton=side("triton"),
        correspondences=(("merlin.1", "triton.1"),),
        reasons=(Reason(chosen(name), ("merlin.1",)), Reason(chosen(name))),
        notes=(chosen(name),),
        refusal=chosen(st.none() | name),
    )


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(pictures())
def test_svg_of_any_names(picture: Picture) -> None:
    """Whatever the names are, the SVG is well-formed and has elements of ours alone."""
    root = ElementTree.fromstring(draw(picture, "svg"))
    ours = {"svg", "g", "title", "path", "polygon", "polyline", "ellipse", "text"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= ours
    for element in root.iter(f"{SVG}text"):
        assert all(char.isprintable() or char == "\xa0" for char in element.text or "")


@settings(max_examples=examples(60))
@given(pictures())
def test_mermaid_of_any_names(picture: Picture) -> None:
    """Whatever the names are, each line is one of the statements that we write."""
    for line in mermaid(picture).splitlines():
        assert _MERMAID.fullmatch(line), line


@settings(max_examples=examples(30))
@given(pictures())
def test_json_of_any_names(picture: Picture) -> None:
    """Whatever the names are, they come back unchanged."""
    found = json.loads(json.dumps(document(picture)))
    assert found["model_name"] == picture.model_name
    assert picture.merlin is not None
    assert [node["title"] for node in found["merlin"]["nodes"]] == [
        node.title for node in picture.merlin.nodes
    ]


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(pictures())
def test_png_of_any_names(picture: Picture) -> None:
    """Whatever the names are, the PNG is whole."""
    assert min(_png_size(draw(picture, "png"))) > 100


def test_the_largest_png(tmp_path: Path) -> None:
    """However many models stand beside each other, a PNG has at most 40 inches at 192 dpi."""
    names = [f"{number} {'x' * 40}" for number in range(40)]
    nodes = tuple(Box(f"triton.{name}", "model", name, name) for name in names)
    shown = Picture("a", "m", None, None, triton=Side("What Triton serves", nodes))
    assert 7000 < max(_png_size(draw(shown, "png"))) <= 7700


def test_terminal_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No name of an archive sends control characters to the terminal."""
    root = tmp_path / "archive"
    directory = root / "m\x1b[31m"
    (directory / "1").mkdir(parents=True)
    (directory / "1/model.py").touch()
    (directory / "config.pbtxt").write_text(
        'backend: "python" input { name: "a\\033[2J" data_type: TYPE_FP32 dims: 1 } '
        'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
    )
    assert command.main(["explain", str(root)]) == command.SERVED
    printed = capsys.readouterr().out
    assert "a\\x1b[2J" in printed
    assert "\x1b" not in printed


def test_unknown_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture of a kind that is not made is refused, and not written as text."""
    with pytest.raises(SystemExit) as ended:
        command.main(["explain", str(DENSE), "-o", str(tmp_path / "picture.jpg")])
    assert ended.value.code == command.MISUSED
    assert "picture.jpg: no format goes by this ending; use " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_a_field_that_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is noted, and all else is shown."""
    (tmp_path / "net/1").mkdir(parents=True)
    (tmp_path / "net/1/model.py").touch()
    tensor = '{ name: "x" data_type: TYPE_FP32 dims: 1 }'
    (tmp_path / "net/config.pbtxt").write_text(
        f'backend: "python" input {tensor} output {tensor} instance_groups [ {{ count: 1 }} ]'
    )
    for form in ("text", "json"):
        code = command.main(["explain", str(tmp_path), "--format", form])
        assert code == command.SERVED
        assert "did you mean instance_group?" in capsys.readouterr().out
