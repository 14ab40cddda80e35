"""NVTabular workflows compiled to numpy: graph and category tables in, tables and a program out.

The compiler runs the graph once with columns that have no values, as merlin-core's LocalExecutor
would run it with a request, and writes down what each operator does to arrays. What it does not
know for certain it does not compile. `runtime` is published beside each compiled model; `tables`
reads the category files, and begins as a program of its own without the rest of the house: this
file imports nothing for that reason.
"""
