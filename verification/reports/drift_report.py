"""The drift of some models as text for people, and as JSON for programs. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_tools.serving.features import ModelFeatures, write_features
from verification.drift.measures import PSI_BOUNDS, SHIFT_BOUNDS, ColumnDrift, Severity
from verification.reports.text_report import clean, format_table

HEAD = (
    "column",
    "values",
    "unseen %",
    "null %",
    "outside %",
    "PSI",
    "mean shift",
    "spread",
    "drift",
)
#: From here on a number has an exponent.
_LARGE = 1e6
_MEASURES = (
    "unseen",
    "nulls",
    "outside",
    "psi",
    "psi_by_chance",
    "shift",
    "shift_by_chance",
    "spread",
)


@dataclass(frozen=True)
class ModelDrift:
    """One model; its columns stand worst first."""

    features: ModelFeatures
    columns: tuple[ColumnDrift, ...]

    @property
    def title(self) -> str:
        """The archive's name, and how the platform's begins where that is another."""
        target, name = self.features.target_model, self.features.model_name
        if target in ("", name):
            return clean(name)
        return clean(f"{target} ({name[:8] + '…' if len(name) > 12 else name})")

    @property
    def drifting(self) -> tuple[ColumnDrift, ...]:
        """The columns that are moderate or large."""
        return tuple(column for column in self.columns if column.severity)

    @property
    def rank(self) -> tuple[float, ...]:
        """That of its worst column."""
        return self.columns[0].rank if self.columns else (-1.0,)


def measure_drift(models: Iterable[ModelFeatures]) -> list[ModelDrift]:
    """The worst model first, and so its columns."""
    measured = []
    for model in models:
        columns = [
            ColumnDrift(workflow, counts)
            for workflow, of_workflow in model.workflows.items()
            for counts in of_workflow
        ]
        columns.sort(key=lambda column: column.rank, reverse=True)
        measured.append(ModelDrift(model, tuple(columns)))
    return sorted(measured, key=lambda model: model.rank, reverse=True)


def write_drift_lines(models: Sequence[ModelDrift]) -> Iterator[str]:
    """A table of all, if there are several, with the worst column of each; then one of each."""
    if not models:
        yield "no model is loaded"
    if len(models) > 1:
        yield from format_table(*list_models(models))
    for model in models:
        if len(models) > 1:
            yield ""
        yield f"{model.title}: {describe(model)}"
        if shown := model.columns if len(models) == 1 else model.drifting:
            yield from format_table(HEAD, list_columns(model, shown))


def describe(model: ModelDrift) -> str:
    """How many rows came, and how many columns drift; or why that cannot be said."""
    if not model.columns:
        return f"no counts: {clean(model.features.why_none)}"
    rows = max(column.counts.rows_seen for column in model.columns)
    if not any(column.counts.values for column in model.columns):
        return f"{rows} rows came, and no values to measure; columns: {len(model.columns)}"
    large = sum(column.severity is Severity.LARGE for column in model.columns)
    return (
        f"{rows} rows came; columns: {len(model.columns)}, of which drift {len(model.drifting)}, "
        f"{large} of them much"
    )


def list_models(models: Sequence[ModelDrift]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table of all models."""
    rows = [
        [model.title, *(_list_cells(model, model.columns[0]) if model.columns else "-" * len(HEAD))]
        for model in models
    ]
    return ["model", "worst column", *HEAD[1:]], rows


def list_columns(model: ModelDrift, columns: Iterable[ColumnDrift]) -> list[list[str]]:
    """The rows of a model's table."""
    return [_list_cells(model, column) for column in columns]


def build_drift_json(models: Sequence[ModelDrift]) -> bytes:
    """The document that was read, with the measures in it; it can be read again."""
    drift = [{"drift": _build_drift(model)} for model in models]
    return write_features(*(model.features for model in models), more=drift)


def name_column(model: ModelDrift, column: ColumnDrift) -> str:
    """Its name, with that of its workflow where the model has several."""
    name = column.counts.column
    return clean(name if len(model.features.workflows) == 1 else f"{column.workflow}: {name}")


def _build_drift(model: ModelDrift) -> list[dict[str, Any]]:
    return [
        {
            "workflow": column.workflow,
            "column": column.counts.column,
            **{name: getattr(column, name) for name in _MEASURES},
            "severity": None if column.severity is None else column.severity.name.lower(),
        }
        for column in model.columns
    ]


def _list_cells(model: ModelDrift, column: ColumnDrift) -> list[str]:
    counts = column.counts
    sampled = counts.counted < counts.values
    looked_at = f" ({100 * counts.counted / counts.values:.0f} % looked at)" if sampled else ""
    return [
        name_column(model, column),
        f"{counts.values}{looked_at}",
        _percent(column.unseen),
        _percent(column.nulls),
        _percent(column.outside),
        _beside_chance(column.psi, column.psi_by_chance, PSI_BOUNDS, ".3f"),
        _beside_chance(column.shift, column.shift_by_chance, SHIFT_BOUNDS, "+.2f"),
        "-" if column.spread is None else _format(column.spread, ".2f"),
        _describe_severity(column),
    ]


def _describe_severity(column: ColumnDrift) -> str:
    if not column.counts.values:
        return "no values"
    return "-" if column.severity is None else column.severity.name.lower()


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def _beside_chance(
    value: float | None, chance: float | None, bounds: tuple[float, float], form: str
) -> str:
    """Marked where it would be drift, and chance alone may have made it."""
    if value is None:
        return "-"
    is_chance = bounds[0] <= abs(value) <= (chance or 0.0)
    return f"{_format(value, form)}{' ?' if is_chance else ''}"


def _format(value: float, form: str) -> str:
    """Without the hundred digits that a large number has before its point."""
    return f"{value:{form if abs(value) < _LARGE else form.replace('f', 'g')}}"
