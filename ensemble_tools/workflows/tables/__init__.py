"""Category files -> sorted arrays that are mapped into memory. Reads parquet, so it needs pyarrow.

Blocking, and tens of megabytes of libraries: a server runs it in a process of its own, which is
`python -m workflows.tables` in the directory of the package. It is begun with each load, so it
imports nothing but its neighbours: they are named relatively.
"""

from __future__ import annotations

from .errors import TableBroken, TableUnusable
from .job import job_text, read_answer
from .writing import write_tables

__all__ = ["TableBroken", "TableUnusable", "job_text", "read_answer", "write_tables"]
