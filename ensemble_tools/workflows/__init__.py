"""NVTabular workflows compiled to numpy: graph and category tables in, tables and a program out.

The compiler runs the graph once with columns that have no values, as merlin-core's LocalExecutor
would run it with a request, and writes down what each operator does to arrays. What it does not
know for certain it does not compile. `runtime` is published beside each compiled model; `tables`
reads the category files, and begins as a process of its own without the rest of the package: this
file imports nothing for that reason.

Theory of a kept operator: it is not compiled, and runs in pandas in the middle of the program.

While the archive is planned:
1. `operators/` has a Rule (`rules.py`) for each class: how it is compiled, and as what it may be
   kept (`KeptColumns`). `compiler.py` walks the graph. If a rule cannot compile an operator, the
   compiler takes back the steps of that rule and emits a KeptNode (`runtime/kept.py`) with the
   columns that the schema foresees. Behind it stands a TakeArray for each column that numpy has a
   plain type for: compiled steps read arrays, kept operators read pandas' series.
2. If the operator may not be kept either, the workflow is not compiled: NVTabular runs all of it.
3. `unnamed_columns.py` follows, along the same walk, columns that an operator may put out though
   its schema does not name them.
4. `kept_steps.py` ends the walk, since only then all readers are known. It drops each TakeArray
   that nobody reads, tells each KeptNode what others read of its input and which unnamed columns it
   may put out, and lets arrays hold whole numbers or floats where no step depends on it.
5. `Program.interpreter` (`program.py`) says whether the model's process begins with pandas alone,
   for the classes of RUN_WITHOUT_NVTABULAR (`runtime/kept.py`) and for those that the pickle has by
   value, or with NVTabular.

When tritonserver loads the model, whose model.py is `partly_compiled_model.py`:
6. KeptOperators (there) reads the operators by `runtime/unpickling.py`, or `graph_json_model.py`:
   they are made of the classes in `runtime/pandas_operators.py`, and of placeholders for all others
   of NVTabular's. If that needs NVTabular, `nvtabular_workflow_model.py` loads the whole workflow.
7. LoadedProgram (`runtime/program.py`) reads program.json and asks KeptOperators for the runner of
   each KeptNode. If the node's operator is a placeholder, NVTabular is imported now.

At a request:
8. `runtime/pandas_frames.py` makes the operator's frame, calls it, and checks its columns, its
   rows, and what it changed in place. TakeArray checks the types.
9. If a check fails, or the operator touches a placeholder, the runner raises LeftToNVTabular:
   NVTabular answers the whole request, and its operators are the kept ones from then on. After a
   TableChanged it answers all later requests, too. An exception of the operator's own becomes
   OperatorFailed, which `runtime/failures.py` puts in words.
"""
