"""A workflow of which a part is compiled, as a Triton model: numpy, and NVTabular for the rest.

NVTabular runs the operators that are not compiled, and answers every request whole that the program
does not, unless it is refused by design: one that it refuses, or for which an operator makes other
types than its schema says.
"""

import functools
import json
from pathlib import Path

import numpy as np
import nvtabular
import triton_python_backend_utils as pb_utils
from compiled_workflow.columns import LeftToNVTabular, RefusedByDesign, RequestError
from compiled_workflow.failures import OperatorFailed, failed_node, log_failure
from compiled_workflow.pandas_frames import ERRORS, run_function, run_node
from compiled_workflow.program import LoadedProgram
from merlin.dag import DataFormats
from merlin.dag.ops.udf import UDF
from merlin.systems.workflow.base import WorkflowRunner


class TritonPythonModel:
    """Answers what NVTabular would."""

    def initialize(self, args):
        version = Path(__file__).parent
        self._original = Original(version / "workflow", args)
        self._program = LoadedProgram(version / "tables", self._original.node)
        self._original.columns = self._program.columns
        self._tensors = self._program.tensors

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            tensors = {
                name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in self._tensors
            }
            try:
                answer = self._program.run(tensors)
            except RefusedByDesign as refusal:
                raise Refused(str(refusal)) from refusal
            except RequestError as refusal:
                answer = self._answer_whole(tensors, refusal)
            return pb_utils.InferenceResponse(
                [pb_utils.Tensor(name, np.ascontiguousarray(a)) for name, a in answer.items()]
            )
        except Refused as error:
            return pb_utils.InferenceResponse(error=callers_fault(error))
        except OperatorFailed as failure:
            log_failure(failure.__cause__)
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(failure)))
        except Exception as error:
            message = f"NVTabular: {type(error).__name__}: {error}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))

    def _answer_whole(self, tensors, refusal):
        """NVTabular's answer.

        Where it fails too, the program's sentence is the better one for what is wrong with the
        request; for what a function makes of a good one it is the operator's.
        """
        try:
            return self._original.answer(tensors)
        except Exception as error:
            message = f"{refusal} (NVTabular: {type(error).__name__}: {error})"
            node = failed_node(error) if isinstance(refusal, LeftToNVTabular) else None
            if node is not None:
                raise OperatorFailed(*self._original.describe(node), error) from error
            raise Refused(message) from error


class Refused(Exception):
    """A request that neither the program nor NVTabular answers."""


def callers_fault(error):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(str(error), *([] if code is None else [code]))


class Original:
    """The workflow itself."""

    def __init__(self, directory, args):
        self._workflow = load_workflow(directory)
        self._runner = WorkflowRunner(
            self._workflow, {}, json.loads(args["model_config"]), args["model_instance_kind"]
        )
        ERRORS.take()
        self._nodes = post_order(self._workflow.graph.output_node)
        self.columns = {}
        self._kept = {}

    def node(self, kept):
        """What runs one node on the columns that it reads, as merlin-core's executor does."""
        node = self._nodes[kept.node]
        self._kept[id(node)] = kept
        if not node.op.supported_formats & DataFormats.PANDAS_DATAFRAME:
            return _leave_whole
        if type(node.op) is UDF and node.op._param_count == 1 and kept.columns == kept.inputs:
            return functools.partial(run_function, kept, node.op.f)
        selection = node.input_columns.resolve(node.input_schema)
        transform = functools.partial(node.op.transform, selection)
        return functools.partial(run_node, kept, transform)

    def describe(self, node):
        """The operator and the columns of a node, as people know them."""
        kept = self._kept.get(id(node))
        if kept is None:
            return type(node.op).__name__, node.input_columns.resolve(node.input_schema).names
        return kept.operator, kept.applied_to

    def answer(self, tensors):
        """What the workflow answers."""
        columns = {name: self._column(name, tensors) for name in self.columns}
        with ERRORS:
            return self._runner.run_workflow(columns)

    def _column(self, name, tensors):
        arrays = tuple(convert(tensors[tensor]) for tensor in self.columns[name])
        return arrays if len(arrays) == 2 else arrays[0]


def _leave_whole(*_):
    raise LeftToNVTabular("an operator takes no frames of pandas")


def load_workflow(directory):
    """The workflow; the reader of graph.json is ours, since NVTabular 23.08 has none."""
    if not (directory / "graph.json").exists():
        return nvtabular.Workflow.load(str(directory))
    from compiled_workflow.graph_json import load

    return load(directory)


def convert(array):
    """merlin.systems.triton._convert_tensor."""
    array = array[:, 0] if array.ndim == 2 else array
    return array.astype("str") if array.dtype.kind in "OSU" else array


def post_order(output):
    """The nodes as the compiler numbers them: each after those that it needs, by its first use."""
    done, stack = [], [(output, iter(output.parents_with_dependencies))]
    seen = set()
    while stack:
        node, upstream = stack[-1]
        following = next((parent for parent in upstream if id(parent) not in seen), None)
        if following is None:
            stack.pop()
            seen.add(id(node))
            done.append(node)
        else:
            stack.append((following, iter(following.parents_with_dependencies)))
    return done
