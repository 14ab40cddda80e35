"""Operators whose work is code that is not read: none of them is compiled."""

from __future__ import annotations

from ensemble_tools.workflows.rules import KeptColumns, Rule, nvtabular

RULES = (
    Rule(
        ("merlin.dag.ops.udf.UDF", *nvtabular("lambdaop", "LambdaOp")),
        kept=KeptColumns.ALONE,
        why_not="it calls a function of yours",
        label="LambdaOp",
    ),
    Rule(
        nvtabular("column_similarity", "ColumnSimilarity"),
        kept=KeptColumns.BESIDE_INPUT,
        why_not="numba compiles its sums",
    ),
    Rule(nvtabular("filter", "Filter"), why_not="a function of yours decides which rows there are"),
)
