"""A workflow of which a part is compiled, as a Triton model: numpy, and pandas for the rest.

Operators that are not compiled run on frames of pandas. NVTabular is imported where one of them, or
code of the user's, needs it, and for requests that only the whole workflow answers: those for which
an operator makes something else than its schema says, and those without rows. What the program
refuses for other reasons, NVTabular refuses, too.
"""

import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

# NVTabular answers some requests. It brings pandas and cloudpickle, so its absence is told first.
if importlib.util.find_spec("nvtabular") is None:
    raise ModuleNotFoundError("No module named 'nvtabular'", name="nvtabular")

from compiled_workflow.columns import LeftToNVTabular, RequestError, TableChanged
from compiled_workflow.failures import OperatorFailed, describe_error, failed_node, log_failure
from compiled_workflow.pandas_frames import ERRORS, run_function, run_node
from compiled_workflow.pandas_operators import NeedsNVTabular, Operator, apply, imported_packages
from compiled_workflow.program import LoadedProgram

#: NVTabular's class, or what stands for it.
UDF = ("merlin.dag.ops.udf", "UDF")


class TritonPythonModel:
    """Answers what NVTabular would."""

    def initialize(self, args):
        version = Path(__file__).parent
        self._kept_operators = KeptOperators(version / "workflow", args)
        self._program = LoadedProgram(version / "tables", self._kept_operators.find_runner)
        self._kept_operators.columns = self._program.columns

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def finalize(self):
        self._program.close()

    def _answer(self, request):
        try:
            tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            try:
                answer = self._program.run(tensors)
            except LeftToNVTabular as refusal:
                answer = self._answer_whole(tensors, refusal)
            except RequestError as refusal:
                raise Refused(str(refusal)) from refusal
            return pb_utils.InferenceResponse(
                [pb_utils.Tensor(name, np.ascontiguousarray(a)) for name, a in answer.items()]
            )
        except Refused as error:
            return pb_utils.InferenceResponse(error=callers_fault(error))
        except OperatorFailed as failure:
            log_failure(failure.__cause__)
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(failure)))
        except Exception as error:
            message = f"NVTabular: {describe_error(error)}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))

    def _answer_whole(self, tensors, refusal):
        """NVTabular's answer.

        Where it fails too, the program's sentence is the better one for what is wrong with the
        request; for what a function makes of a good one it is the operator's.
        """
        try:
            return self._kept_operators.answer(tensors, refusal)
        except Exception as error:
            message = f"{refusal} (NVTabular: {describe_error(error)})"
            node = failed_node(error) if isinstance(refusal, LeftToNVTabular) else None
            if node is not None:
                raise OperatorFailed(*self._kept_operators.describe(node), error) from error
            raise Refused(message) from error


class Refused(Exception):
    """A request that neither the program nor NVTabular answers."""


def callers_fault(error):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(str(error), *([] if code is None else [code]))


class KeptOperators:
    """The workflow's kept operators: those of pandas_operators.py, or NVTabular's own.

    NVTabular's take the place of the others when something needs them.
    """

    def __init__(self, directory, args):
        self._directory, self._args = directory, args
        self._kept = {}
        self._runners = {}
        self._nvtabular = None
        #: Said once of a table: NVTabular answers from then on.
        self._changed = None
        self.columns = {}
        self._imported_before = imported_packages()
        NeedsNVTabular.last = ""
        try:
            self._operators = load_operators(directory)  # by the paths of their nodes
        except NeedsNVTabular:
            pass
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Code of the user's that runs while it is unpickled; NVTabular's classes may suit it.
            NeedsNVTabular.last = f"{type(error).__name__} while it is unpickled: {error}"
        if NeedsNVTabular.last:
            self._import_nvtabular(NeedsNVTabular.last)
        ERRORS.take()

    def find_runner(self, kept):
        """What runs the node on the columns that it reads, as merlin-core's executor does."""
        self._kept[kept.node] = kept
        # A placeholder may not be touched, as isinstance does.
        if self._nvtabular is None and not issubclass(type(self._operators[kept.node]), Operator):
            self._import_nvtabular(f"{kept.operator} runs with its code")
        else:
            self._runners[kept.node] = self._runner_of(kept)
        return functools.partial(self._run, kept)

    def describe(self, node):
        """The operator and the columns of a node of NVTabular's, as people know them."""
        paths = [path for path, other in self._nvtabular.nodes.items() if other is node]
        kept = next((self._kept[path] for path in paths if path in self._kept), None)
        if kept is None:
            return type(node.op).__name__, self._nvtabular.selection_of(node).names
        return kept.operator, kept.applied_to

    def answer(self, tensors, why):
        """The workflow's answer."""
        if self._nvtabular is None:
            self._import_nvtabular(why)
        with ERRORS:
            return self._nvtabular.answer(self.columns, tensors)

    def _run(self, kept, *columns):
        if self._changed is not None:
            raise self._changed
        if self._nvtabular is not None:
            return self._run_watched(kept, columns)
        NeedsNVTabular.last = ""
        try:
            return self._run_watched(kept, columns)
        finally:  # whatever the function has caught, or has made of it
            if imported_packages() != self._imported_before:
                raise LeftToNVTabular("a function has imported NVTabular")
            if NeedsNVTabular.last:
                raise LeftToNVTabular(NeedsNVTabular.last)

    def _run_watched(self, kept, columns):
        try:
            return self._runners[kept.node](*columns)
        except TableChanged as changed:
            self._changed = changed
            raise

    def _runner_of(self, kept):
        """The function that runs it: for a function of a column alone there is no frame."""
        if self._nvtabular is not None:
            operator, transform = self._nvtabular.operator_of(kept.node)
        else:
            operator = self._operators[kept.node]
            transform = functools.partial(apply, operator, kept.selection)
        if transform is None:
            return _leave_whole
        known = type(operator).__module__, type(operator).__qualname__
        if known == UDF and operator._param_count == 1 and kept.columns == kept.inputs:
            return functools.partial(run_function, kept, operator.f)
        return functools.partial(run_node, kept, transform)

    def _import_nvtabular(self, why):
        from compiled_workflow.nvtabular_workflow import NVTabularWorkflow

        print(f"NVTabular is imported: {why}", file=sys.stderr, flush=True)
        self._nvtabular = NVTabularWorkflow(self._directory, self._args)
        self._operators = {}
        self._runners = {path: self._runner_of(kept) for path, kept in self._kept.items()}


def _leave_whole(*_):
    raise LeftToNVTabular("an operator takes no frames of pandas")


def load_operators(directory):
    """The operators by the paths of their nodes; raises NeedsNVTabular."""
    if (directory / "graph.json").exists():
        from compiled_workflow.graph_json import load_operators
    else:
        from compiled_workflow.unpickling import load_operators
    return load_operators(directory)
