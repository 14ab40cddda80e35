"""Selections and names, which change no value: those of merlin.dag and of NVTabular."""

from __future__ import annotations

from ensemble_tools.archive.nvtabular_release import TAGGING
from ensemble_tools.workflows.frames import Frame
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.rules import OperatorCall, Rule, Unnamed, nvtabular


def pass_on(call: OperatorCall) -> Frame:
    """The columns that it is given."""
    return dict(call.frame)


def select(call: OperatorCall) -> Frame:
    """The selected columns."""
    return {name: call.frame[name] for name in call.names}


def subtract(call: OperatorCall) -> Frame:
    """The columns that its own selector names, or else the selected ones."""
    names = call.node.operator.selector or call.names
    return {name: call.passed_on(name) for name in names}


def rename(call: OperatorCall) -> Frame:
    """A function of the user's is not called: what it made of the names is in the schema."""
    function, postfix, name = (call.parameter(field) for field in ("f", "postfix", "name"))
    if function is not None:
        renamed = [column.name for column in call.node.output]
        if len(renamed) != len(call.names):
            raise call.refuse(call.names, "it gives two columns one name")
    elif isinstance(postfix, str) and postfix:
        renamed = [f"{column}{postfix}" for column in call.names]
    elif isinstance(name, str) and name and len(call.names) == 1:
        renamed = [name]
    else:
        raise Unknown("it has neither a function, nor a postfix, nor one name")
    if len(set(renamed)) != len(renamed):
        raise call.refuse(call.names, "it gives two columns one name")
    return dict(zip(renamed, map(call.passed_on, call.names), strict=True))


RULES = (
    Rule(
        (
            *nvtabular("add_metadata", *TAGGING),
            *(f"merlin.dag.ops.add_metadata.{name}" for name in TAGGING),
            *nvtabular("value_counts", "ValueCount"),
        ),
        pass_on,
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(
        (
            "merlin.dag.ops.selection.SelectionOp",
            "merlin.dag.ops.concat_columns.ConcatColumns",
            "merlin.dag.ops.subset_columns.SubsetColumns",
            *nvtabular("drop_low_cardinality", "DropLowCardinality"),
        ),
        select,
    ),
    Rule(("merlin.dag.ops.subtraction.SubtractionOp",), subtract),
    Rule((*nvtabular("rename", "Rename"), "merlin.dag.ops.rename.Rename"), rename),
)
