"""NVTabular, examples/advanced-ops-outbrain (up to 2022): 02 (ETL), which advert is clicked."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd
import scipy.sparse
from merlin.dag import ColumnSelector
from nvtabular.ops.column_similarity import ColumnSimilarity

MODEL = ""
#: In milliseconds; the data's timestamps begin with it.
TIMESTAMP_DELTA = 1_465_876_799_998
DOCUMENTS = 30
IDS = {
    "ad_id": 20,
    "document_id": DOCUMENTS,
    "platform": 3,
    "document_id_promo": DOCUMENTS,
    "campaign_id": 9,
    "advertiser_id": 7,
    "source_id": 8,
    "publisher_id": 5,
    "source_id_promo": 8,
    "publisher_id_promo": 5,
}
PLACES = np.array(["US>CA>807", "US>NY>501", "US>TX", "GB>H9", "DE", "CA>ON", ""])


def events() -> pd.DataFrame:
    return made(np.random.default_rng(181), 300)


def rows() -> pd.DataFrame:
    """An advert and a place that were never seen, and dates that are not known."""
    asked = made(np.random.default_rng(182), 8)
    asked.loc[2, "ad_id"], asked.loc[3, "geo_location"] = 999, "FR>A8"
    return asked


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: generator.integers(0, size, count) for name, size in IDS.items()
    }
    columns["geo_location"] = generator.choice(PLACES, count)
    columns["timestamp"] = generator.integers(0, 15 * 86_400_000, count)
    for name, unknown in (("publish_time", 0.1), ("publish_time_promo", 0.4)):
        days = generator.integers(0, 5000, count)
        dates = np.datetime64("2003-01-01") + days.astype("timedelta64[D]")
        texts = np.char.add(dates.astype(str), " 12:30:00")
        columns[name] = np.where(generator.random(count) < unknown, "", texts)
    columns["clicked"] = generator.integers(0, 2, count)
    return pd.DataFrame(columns)


def confidence(seed: int, columns: int) -> Any:
    """Of each document how sure somebody is that it has a category, a topic or an entity."""
    generator = np.random.default_rng(seed)
    found = generator.random((DOCUMENTS, columns)) < 0.4
    return scipy.sparse.coo_matrix(found * generator.random((DOCUMENTS, columns)).round(2))


class DaysSincePublished(nvt.ops.Operator):  # type: ignore[misc]  # nvtabular has no types
    """For how many days a document has been there: an operator of the notebook's own."""

    def transform(self, col_selector: ColumnSelector, df: pd.DataFrame) -> pd.DataFrame:
        for name in col_selector.names:
            column = df[name]
            column.loc[column == ""] = None
            column = column.astype("datetime64[ns]")
            now = (df["timestamp"] + TIMESTAMP_DELTA).astype("datetime64[ms]")
            days = (now - column).dt.days
            df[name + "_since_published"] = days * (days >= 0) * (days <= 10 * 365)
        return df

    def column_mapping(self, col_selector: ColumnSelector) -> dict[str, list[str]]:
        return {name + "_since_published": [name] for name in col_selector.names}

    @property
    def dependencies(self) -> list[str]:
        return ["timestamp"]

    @property
    def output_dtype(self) -> type:
        return np.float64


def similarity(matrix: Any, postfix: str) -> Any:
    operator = ColumnSimilarity(matrix, metric="tfidf", on_device=False)
    return [["document_id", "document_id_promo"]] >> operator >> nvt.ops.Rename(postfix=postfix)


def graph() -> Any:
    place = nvt.ColumnGroup(["geo_location"])
    country = (
        place
        >> nvt.ops.LambdaOp(lambda column: column.str.slice(0, 2))
        >> nvt.ops.Rename(postfix="_country")
    )
    state = (
        place
        >> nvt.ops.LambdaOp(lambda column: column.str.slice(0, 5))
        >> nvt.ops.Rename(postfix="_state")
    )
    ids = nvt.ColumnGroup([*IDS])
    categories = place + country + state + ids >> nvt.ops.Categorify()
    encoded = ids >> nvt.ops.TargetEncoding("clicked", kfold=5, p_smooth=20)
    dates = (
        ["publish_time", "publish_time_promo"]
        >> DaysSincePublished()
        >> nvt.ops.FillMedian()
        >> nvt.ops.LogOp()
    )
    alike = (
        similarity(confidence(183, 6), "_categories")
        + similarity(confidence(184, 9), "_topics")
        + similarity(confidence(185, 12), "_entities")
    )
    return dates + categories + encoded + "clicked" + alike
