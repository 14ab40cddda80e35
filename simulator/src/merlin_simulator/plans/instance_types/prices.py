"""Prices of an hour of each instance type, from a file of the user's: none are known here."""

from __future__ import annotations

import math
from pathlib import Path

from merlin_simulator.plans.csv_files import read_rows
from merlin_simulator.plans.errors import UnusableFile, shown

#: Of an hour, in whatever currency.
_MOST_PRICE = 1e9
_COLUMNS = ("instance_type", "price_an_hour")


def read_prices(path: Path) -> dict[str, float]:
    """By instance type, in the file's currency. Raises UnusableFile."""
    prices: dict[str, float] = {}
    for row in read_rows(path, _COLUMNS):
        text = row.values[1]
        try:
            price = float(text)
        except ValueError:
            price = math.nan
        if not 0 <= price <= _MOST_PRICE:
            raise UnusableFile(
                path,
                f"found {shown(text)}, expected the price of an hour",
                row.line,
                row.columns[1],
            )
        prices[row.values[0]] = price
    if not prices:
        raise UnusableFile(path, f"found no rows, expected some of {','.join(_COLUMNS)}")
    return prices
