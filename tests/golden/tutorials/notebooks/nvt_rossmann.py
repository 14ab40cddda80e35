"""NVTabular, examples/tabular-data-rossmann (up to 2022): 02 (ETL), sales of shops."""

from __future__ import annotations

from typing import Any

import numpy as np
import nvtabular as nvt
import pandas as pd

MODEL = ""
#: How many values each has.
NUMBERS = {
    "Store": 30,
    "DayOfWeek": 7,
    "Year": 3,
    "Month": 12,
    "Day": 31,
    "CompetitionMonthsOpen": 25,
    "Promo2Weeks": 26,
    "CompetitionOpenSinceYear": 20,
    "Promo2SinceYear": 7,
    "Week": 52,
    "Promo_fw": 6,
    "Promo_bw": 6,
    "StateHoliday_fw": 3,
    "StateHoliday_bw": 3,
    "SchoolHoliday_fw": 8,
    "SchoolHoliday_bw": 8,
}
TEXTS = {
    "StoreType": "abcd",
    "Assortment": "abc",
    "PromoInterval": ["Jan,Apr,Jul,Oct", "Feb,May,Aug,Nov", "Mar,Jun,Sept,Dec"],
    "State": ["BE", "BY", "HE", "NW", "SN"],
    "Events": ["Fog", "Rain", "Rain-Snow", "Snow"],
}
WEATHER = [
    "Max_TemperatureC",
    "Mean_TemperatureC",
    "Min_TemperatureC",
    "Max_Humidity",
    "Mean_Humidity",
    "Min_Humidity",
    "Max_Wind_SpeedKm_h",
    "Mean_Wind_SpeedKm_h",
    "trend",
    "trend_DE",
    "AfterStateHoliday",
    "BeforeStateHoliday",
]
MISSING = ["CompetitionDistance", "CloudCover"]
FLAGS = ["Promo", "SchoolHoliday"]


def events() -> pd.DataFrame:
    return made(np.random.default_rng(161), 200)


def rows() -> pd.DataFrame:
    """With a shop and a state that were never seen."""
    asked = made(np.random.default_rng(162), 6)
    asked.loc[1, "Store"], asked.loc[4, "State"] = 999, "XX"
    return asked


def made(generator: np.random.Generator, count: int) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: generator.integers(1, size + 1, count) for name, size in NUMBERS.items()
    }
    for name, texts in TEXTS.items():
        columns[name] = generator.choice([*texts], count)
    columns["StateHoliday"] = generator.random(count) < 0.1
    for name in WEATHER:
        columns[name] = generator.integers(-5, 90, count)
    for name in MISSING:
        values = generator.gamma(2.0, 9.0, count).round(1)
        columns[name] = np.where(generator.random(count) < 0.2, np.nan, values)
    for name in FLAGS:
        columns[name] = generator.integers(0, 2, count)
    columns["Sales"] = generator.integers(0, 9000, count)
    return pd.DataFrame(columns)


def graph() -> Any:
    categories = [*NUMBERS, "StateHoliday", *TEXTS] >> nvt.ops.Categorify()
    numbers = [*MISSING, *WEATHER, *FLAGS] >> nvt.ops.FillMissing() >> nvt.ops.Normalize()
    sales = ["Sales"] >> nvt.ops.LogOp()
    return categories + numbers + sales
