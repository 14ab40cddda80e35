"""Random NVTabular workflows, fitted and saved, with requests and what NVTabular answers.

Run it with the models' environment:
    .venv-merlin/bin/python -m tests.workflows.generator --seeds A:B --out DIR [--operators A,B]...
It writes DIR/case_<seed>/ for each seed from A up to B, B not among them (exchange.py says what is
in it), and prints its path. With --graph-json it writes DIR/json_<seed>/ as well, the same but for
the workflow, which is saved as graph.json, without a pickle. What NVTabular cannot fit, save or
describe is thrown away, and another is drawn from the same seed. With several lists of operators,
each seed has the next one; what is no operator in a list is one of VARIANTS, HOSTILE_NAMES,
SUBGRAPH or LISTS_OF_FUNCTIONS, and all of its cases have it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.workflows.original import answer  # first: it sets the environment

# isort: split

import numpy as np
import nvtabular
from google.protobuf import text_format
from merlin.dag import ColumnSelector, Node
from merlin.dag.ops.subgraph import Subgraph
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag.runtimes.triton.ops.workflow import _generate_nvtabular_config
from tritonclient.grpc import model_config_pb2

from tests.workflows.columns import (
    FLAVORS,
    MALFORMED,
    RARE_FLAVORS,
    STRING,
    Column,
    Flavor,
    frame,
    malformed,
    random_column,
    request,
)
from tests.workflows.exchange import (
    ANSWERS,
    CONFIG,
    DESCRIPTION,
    HOSTILE_NAMES,
    INPUTS,
    LISTS_OF_FUNCTIONS,
    NO_PICKLE,
    REQUESTS,
    SUBGRAPH,
    VARIANTS,
    WORKFLOW,
    Answer,
    Tensors,
    read_requests,
    write_answers,
    write_requests,
)
from tests.workflows.graph_json import write_graph_json
from tests.workflows.names import ORDINARY, hostile_names
from tests.workflows.operators import OPERATORS, Branch, Context, Kind, applied

BATCHES = (1, 1, 2, 5, 5, 64)
MOST_TRIES = 1000
#: They change the number of rows: what they make seldom goes with other columns.
OTHER_ROWS = {"Dropna", "Filter", "Groupby"}


@dataclass
class Case:
    """What was made of a seed."""

    directory: Path
    tries: int
    features: Counter[str]
    answers: list[Answer]


def random_case(
    seed: int,
    directory: Path,
    operators: Sequence[str] = (),
    rejected: Counter[str] | None = None,
    graph_json: bool = False,
) -> Case:
    """Writes the seed's case into the directory. rejected: counts why drafts were thrown away.

    graph_json: only workflows that can be saved so; NO_PICKLE has what is saved then.
    """
    for attempt in range(MOST_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        random = Random(f"{seed}/{attempt}")
        np.random.seed(random.randrange(2**32))
        staging = directory / "staging"
        staging.mkdir()
        try:
            features, answers = _draft(directory, staging, random, operators, graph_json)
        except Exception as failed:
            if rejected is not None:
                rejected[f"{type(failed).__name__}: {failed}"[:100]] += 1
            continue
        finally:
            os.chdir("/")
            shutil.rmtree(staging)
        if any(not isinstance(one, str) for one in answers) or random.random() < 0.1:
            return Case(directory, attempt + 1, +features, answers)
        if rejected is not None:
            rejected[f"all answers are errors: {answers[0]}"[:100]] += 1
    raise RuntimeError(f"seed {seed}: no workflow in {MOST_TRIES} drafts")


def _draft(
    directory: Path, staging: Path, random: Random, operators: Sequence[str], graph_json: bool
) -> tuple[Counter[str], list[Answer]]:
    os.chdir(staging)  # some operators write where they are
    asked = [name for name in operators if name in OPERATORS]
    weights = {name: OPERATORS[name][1] for name in asked or OPERATORS}
    weights.setdefault("Rename", 1)
    asked_for = HOSTILE_NAMES in operators
    hostile = asked_for or random.random() < 0.25
    columns = _columns(random, hostile, alike=asked_for)
    by_name = {column.name: column for column in columns}
    outside = directory / "outside"
    context = Context(random, staging, by_name, outside, hostile, asked_for, graph_json)
    context.subgraphs = SUBGRAPH in operators or not operators
    context.features[HOSTILE_NAMES] += hostile
    branch = _graph(columns, weights, context, alone=bool(OTHER_ROWS & {*operators}))
    if asked and not any(context.features[name] for name in asked):
        raise ValueError("none of the operators that were asked for")
    if not all(context.features[name] for name in operators if name not in OPERATORS):
        raise ValueError("not all that was asked for")
    rows = random.randint(20, 60)
    data = frame(columns, rows, random)
    dataset = _dataset(data, columns, context)
    workflow = nvtabular.Workflow(branch.node)
    workflow.fit(dataset)
    notes = [f"{rows} rows"]
    if random.random() < 0.25:
        workflow.transform(dataset).compute()
        notes.append("transformed the rows before it was saved")
    if random.random() < 0.1:
        workflow.save(str(staging / "saved"))
        workflow = nvtabular.Workflow.load(str(staging / "saved"))
        notes.append("was saved, loaded and saved again")
    if random.random() < 0.12 and len(columns) > 2:
        removed = [random.choice(columns).name]
        workflow = workflow.remove_inputs(removed)
        context.features["remove_inputs"] += 1
        notes.append(f"remove_inputs({removed})")
    workflow.save(str(directory / WORKFLOW))
    if graph_json:
        (directory / NO_PICKLE).mkdir()
        write_graph_json(workflow, directory / NO_PICKLE)
    os.chdir("/")  # where tritonserver is, nothing of that is found
    _generate_nvtabular_config(workflow, "workflow", str(directory), max_batch_size=0)
    inputs = declared_inputs(directory / CONFIG)
    (directory / INPUTS).write_text(json.dumps(inputs, indent=1))
    # ColumnSimilarity looks beyond its matrix for ids that it does not have, and may crash.
    flavors: Sequence[Flavor] = FLAVORS[:2] if context.features["ColumnSimilarity"] else FLAVORS
    if context.features["JoinExternal of lists"]:
        # NVTabular fails on a request in which a row has no list.
        flavors = FLAVORS[:3]
    requests, described = _requests(columns, inputs, flavors, random)
    write_requests(directory / REQUESTS, requests)
    answers = answer(directory / WORKFLOW, requests)
    write_answers(directory / ANSWERS, answers)
    for how, one in zip(described, answers, strict=True):
        failed = one if isinstance(one, str) else ""
        notes.append(f"request: {how}" + (f" -> {failed[:300]}" if failed else ""))
    lines = [*map(str, columns), "", branch.words, "", *notes, ""]
    text = "\n".join(lines).replace(str(directory), "CASE")
    (directory / DESCRIPTION).write_text(text)
    return context.features, answers


def _without_pickle(case: Path) -> Path:
    """The same case with the workflow as graph.json; the other one is left without that.

    Its answers are those of NVTabular's operators made of graph.json, whose numbers are Python's
    floats: where NormalizeMinMax was fitted to narrow integers, a pickle's overflow as those do.
    """
    other = case.parent / f"json_{case.name.rpartition('_')[2]}"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(case, other, ignore=lambda *_: [WORKFLOW, NO_PICKLE])
    (case / NO_PICKLE).rename(other / WORKFLOW)
    requests = read_requests(other / REQUESTS)
    write_answers(other / ANSWERS, answer(other / WORKFLOW, requests))
    return other


def _columns(random: Random, hostile: bool, alike: bool) -> list[Column]:
    """alike: most whose name is another's with an ending are of its kind."""
    count = random.choice([1, 2, 3, 3, 4, 5, 6, 7])
    names = hostile_names(count, random) if hostile else random.sample(ORDINARY, count)
    columns = [random_column(name, random) for name in names]
    if alike and random.random() < 0.7:
        columns = [_alike(column, columns, random) for column in columns]
    if random.random() < 0.04:
        place = random.randrange(len(columns))
        if not columns[place].ragged:
            columns[place] = replace(columns[place], width=random.randint(1, 3))
    return columns


def _alike(column: Column, columns: Sequence[Column], random: Random) -> Column:
    for other in columns:
        if _bears(column, other):
            made: Column = random_column(
                column.name, random, dtype=other.dtype, ragged=other.ragged
            )
            return made
    return column


def _bears(column: Column, other: Column) -> bool:
    return column.name != other.name and column.name.startswith(other.name)


def _dataset(data: Any, columns: Sequence[Column], context: Context) -> Any:
    options: dict[str, Any] = {}
    if any(column.width for column in columns):
        options["schema"] = Schema([_schema(column) for column in columns])
        context.features["fixed lists"] += 1
    elif context.chance(0.1):
        path = context.staging / "rows.parquet"
        data.to_parquet(path)
        context.features["fitted on parquet"] += 1
        return nvtabular.Dataset(str(path), engine="parquet")
    if context.chance(0.15):
        options["npartitions"] = 2
    return nvtabular.Dataset(data, **options)


def _schema(column: Column) -> ColumnSchema:
    dims: tuple[Any, ...] = (None,)
    if column.width:
        dims = (None, column.width)
    elif column.ragged:
        dims = (None, None)
    dtype = "str" if column.dtype == STRING else column.dtype
    return ColumnSchema(column.name, dtype=dtype, dims=dims)


def _graph(
    columns: Sequence[Column], weights: Mapping[str, int], context: Context, alone: bool
) -> Branch:
    """Several chains of operators joined, and at times more operators after that.

    alone: mostly one chain.
    """
    random = context.random
    branches = []
    for _ in range(1 if alone and context.chance(0.8) else random.choice([1, 1, 2, 2, 3, 4])):
        branch = _chain(
            _root(columns, context), weights, context, random.choice([1, 1, 2, 2, 3, 4])
        )
        branches.append(_part(branch, context) if random.random() < 0.06 else branch)
    joined = branches[0]
    for branch in branches[1:]:
        joined = _joined(joined, branch, context)
    if random.random() < 0.25 and len(joined.names) > 1:
        joined = _selected(joined, context)
    if random.random() < 0.05:
        joined = _part(joined, context)
    if random.random() < 0.3:
        joined = _chain(joined, weights, context, random.choice([1, 1, 2]))
    return _without_strings(joined, context)


def _part(branch: Branch, context: Context) -> Branch:
    """The branch as a graph of its own in the graph."""
    context.features[SUBGRAPH] += 1
    subgraph = Subgraph(f"part{context.fresh()}", Node.construct_from(branch.node))
    return Branch(Node.construct_from(subgraph), branch.kinds, f"Subgraph({branch.words})")


def _inside(branch: Branch, weights: Mapping[str, int], context: Context) -> Branch:
    """With operators more that are a graph of their own, at times with another one in it."""
    names = context.random.sample(branch.names, context.random.randint(1, len(branch.names)))
    kinds = {name: branch.kinds[name] for name in names}
    start = Branch(ColumnSelector(names), kinds, repr(names), root=True)
    inner = _chain(start, weights, context, context.random.choice([1, 2, 2, 3]))
    context.features[SUBGRAPH] += 1
    subgraph = Subgraph(f"part{context.fresh()}", Node.construct_from(inner.node))
    return branch.then(subgraph, f"Subgraph({inner.words})", inner.kinds)


def _root(columns: Sequence[Column], context: Context) -> Branch:
    """Some input columns, mostly of one kind."""
    random = context.random
    pairs = [(a, b) for a in columns for b in columns if _bears(b, a)] if context.pairs else []
    style = random.random()
    if pairs and context.chance(0.4):
        chosen = list(random.choice(pairs))
    elif style < 0.5:
        first = random.choice(columns)
        alike = [
            column
            for column in columns
            if column.ragged == first.ragged and (column.dtype == STRING) == (first.dtype == STRING)
        ]
        chosen = random.sample(alike, random.randint(1, min(3, len(alike))))
    elif style < 0.7:
        scalars = [column for column in columns if not column.ragged] or list(columns)
        chosen = random.sample(scalars, random.randint(1, len(scalars)))
    else:
        chosen = random.sample(list(columns), random.randint(1, len(columns)))
    kinds = {column.name: Kind(column.dtype, column.ragged) for column in chosen}
    names = list(kinds)
    return Branch(ColumnSelector(names), kinds, repr(names), root=True)


def _chain(branch: Branch, weights: Mapping[str, int], context: Context, length: int) -> Branch:
    for step in range(length):
        if context.subgraphs and context.chance(0.2):
            branch = _inside(branch, weights, context)
            continue
        if not branch.root and context.chance(0.6 if _mixed(branch) else 0.05):
            return _split(branch, weights, context, length - step)
        if context.chance(0.08) and len(branch.names) > 1 and not branch.root:
            branch = _selected(branch, context)
        branch = applied(branch, weights, context) or branch
    return branch


def _mixed(branch: Branch) -> bool:
    """Whether it has lists and others, which few operators take together."""
    return len({kind.ragged for kind in branch.kinds.values()}) > 1


def _split(branch: Branch, weights: Mapping[str, int], context: Context, length: int) -> Branch:
    """Two chains that begin at one node."""
    names = [name for name, kind in branch.kinds.items() if kind.ragged]
    if not _mixed(branch):
        names = context.random.sample(branch.names, context.random.randint(1, len(branch.names)))
    rest = [name for name in branch.names if name not in names] or branch.names
    context.features["split"] += 1
    left = _chain(_only(branch, names, context), weights, context, length)
    right = _chain(_only(branch, rest, context), weights, context, length)
    return _joined(left, right, context)


def _selected(branch: Branch, context: Context) -> Branch:
    """Some of the columns: by [], or by taking others away."""
    random = context.random
    if branch.root:
        return branch
    kept = random.sample(branch.names, random.randint(1, len(branch.names)))
    return _only(branch, kept, context)


def _only(branch: Branch, kept: Sequence[str], context: Context) -> Branch:
    random = context.random
    kinds = {name: branch.kinds[name] for name in kept}
    away = [name for name in branch.names if name not in kept]
    if random.random() < 0.25 and away:
        context.features["-"] += 1
        kinds = {name: kind for name, kind in branch.kinds.items() if name in kinds}
        # Names taken away come out instead of the others, in this version: only a node can be.
        return Branch(branch.node - branch.node[away], kinds, f"({branch.words} - itself[{away}])")
    context.features["[]"] += 1
    return Branch(branch.node[list(kept)], kinds, f"({branch.words})[{list(kept)}]")


def _joined(left: Branch, right: Branch, context: Context) -> Branch:
    random = context.random
    if set(left.names) & set(right.names) and random.random() < (0.5 if context.hostile else 0.85):
        number = context.fresh()
        kinds = {f"{name}_{number}": kind for name, kind in right.kinds.items()}
        postfix = f"_{number}"
        right = right.then(nvtabular.ops.Rename(postfix=postfix), f"Rename({postfix!r})", kinds)
    context.features["+"] += 1
    words = f"({left.words})\n  + ({right.words})"
    return Branch(left.node + right.node, left.kinds | right.kinds, words)


def _without_strings(branch: Branch, context: Context) -> Branch:
    """Few workflows give strings out."""
    texts = [name for name, kind in branch.kinds.items() if kind.dtype == STRING]
    kept = [name for name in branch.names if name not in texts]
    if not texts or not kept or branch.root or context.chance(0.3):
        context.features["strings out"] += bool(texts)
        return branch
    return _only(branch, kept, context)


def declared_inputs(config: Path) -> list[dict[str, Any]]:
    """The tensors that a config.pbtxt declares, as INPUTS has them."""
    parsed = text_format.Parse(config.read_text(), model_config_pb2.ModelConfig())
    return [
        {
            "name": one.name,
            "data_type": model_config_pb2.DataType.Name(one.data_type),
            "dims": list(one.dims),
        }
        for one in parsed.input
    ]


def _requests(
    columns: Sequence[Column],
    inputs: Sequence[dict[str, Any]],
    flavors: Sequence[Flavor],
    random: Random,
) -> tuple[list[Tensors], list[str]]:
    requests, described = [], []
    for _ in range(random.randint(5, 8)):
        rows = random.choice(BATCHES)
        flavor = random.choice(flavors)
        if random.random() < 0.08:
            flavor = random.choice(RARE_FLAVORS)
        if random.random() < 0.06:
            rows = 0
        made = request(columns, inputs, rows, flavor, random)
        words = f"{rows} rows, {flavor.name}"
        if random.random() < 0.1 and flavors is FLAVORS:
            kind = random.choice(MALFORMED)
            wrong = malformed(made, kind, random)
            if wrong is not None:
                made, words = wrong, f"{words}, {kind}"
        requests.append(made)
        described.append(words)
    requests.append(request(columns, inputs, 0, random.choice(flavors), random))
    described.append("no rows")
    return requests, described


def main(arguments: Sequence[str]) -> int:
    """Makes cases."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # NVTabular keeps names in sets: the order of columns depends on it.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.workflows.generator", *arguments])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1:51", help="A:B, from A up to B")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--operators", action="append", default=[], help="only these, with commas between them"
    )
    parser.add_argument("--graph-json", action="store_true", help="in both formats")
    parser.add_argument("--statistics", action="store_true", help="at the end, on stderr")
    options = parser.parse_args(arguments)
    lists = [[name for name in one.split(",") if name] for one in options.operators] or [[]]
    known = {*OPERATORS, *VARIANTS, HOSTILE_NAMES, SUBGRAPH, LISTS_OF_FUNCTIONS}
    unknown = [name for operators in lists for name in operators if name not in known]
    if unknown:
        parser.error(f"no such operators: {', '.join(unknown)}; there are {', '.join(known)}")
    first, _, end = options.seeds.partition(":")
    started = time.monotonic()
    features: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    made = tries = served = asked = 0
    out = options.out.resolve()
    for seed in range(int(first), int(end or int(first) + 1)):
        try:
            place, operators = out / f"case_{seed}", lists[seed % len(lists)]
            case = random_case(seed, place, operators, rejected, options.graph_json)
        except RuntimeError as failed:
            print(failed, file=sys.stderr)
            continue
        features.update(set(case.features))
        made, tries, asked = made + 1, tries + case.tries, asked + len(case.answers)
        served += sum(not isinstance(one, str) for one in case.answers)
        print(case.directory, flush=True)
        if options.graph_json:
            print(_without_pickle(case.directory), flush=True)
    if options.statistics:
        elapsed = time.monotonic() - started
        print(
            f"{made} cases in {elapsed:.1f} s of {tries} drafts; {served} of {asked} requests "
            "answered",
            file=sys.stderr,
        )
        for counter in (features, rejected):
            for name, count in counter.most_common(60):
                print(f"  {count:5}  {name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
