"""Operators whose work is code that is not read: all of them are kept."""

from __future__ import annotations

from ensemble_tools.workflows.rules import KeptColumns, Rule, Unnamed, nvtabular

#: What users call an operator that calls a function with columns.
FUNCTION = "LambdaOp"

RULES = (
    Rule(
        ("merlin.dag.ops.udf.UDF", *nvtabular("lambdaop", "LambdaOp")),
        kept=KeptColumns.ALONE,
        why_not="it calls a function of yours",
        unnamed=Unnamed.SEEN,
        label=FUNCTION,
    ),
    Rule(
        nvtabular("column_similarity", "ColumnSimilarity"),
        kept=KeptColumns.BESIDE_INPUT,
        why_not="numba compiles its sums",
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(
        nvtabular("filter", "Filter"),
        kept=KeptColumns.SOME_ROWS,
        why_not="a function of yours decides which rows there are",
        unnamed=Unnamed.SEEN,
    ),
)
