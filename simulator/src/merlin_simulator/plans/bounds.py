"""The most that a plan reckons with: what is beyond is a slip of the pen, or a file of somebody
who means no good, and would take the memory or the days of who reads it.
"""

from __future__ import annotations

#: Of PLAN.toml, and of JSON and /metrics of others; the longest seen are far below.
MOST_PLAN_BYTES, MOST_FILE_BYTES = 100_000, 8_000_000
#: Of one line of a CSV file, and of all lines: a trace of 10 million takes 1 GB.
MOST_LINE_CHARACTERS, MOST_LINES = 100_000, 10_000_000
#: Thirty years; a PiB.
MOST_SECONDS, MOST_BYTES = 1e9, 2**50
#: Of a host of today.
MOST_CORES = 1_000
#: SageMaker's own quotas of an endpoint are in the tens.
MOST_INSTANCES = 1_000
MOST_MODELS = 100_000
#: Each is kept with its day: up to 60 KB.
MOST_CANDIDATES = 10_000
#: Of requests that are gone through one by one: up to 0.1 ms for each that misses, three hours.
MOST_WITHOUT_CACHE = 100_000_000
MOST_RPS = 1e6
#: A series by the second, of twelve days.
MOST_PERIODS = 1_000_000
#: Below it a number above 0 is meant to be none.
LEAST = 1e-6
