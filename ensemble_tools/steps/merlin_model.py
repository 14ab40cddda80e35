"""Runs the inline operators of a Merlin graph: operators that have no model of their own.

Generated. The graph is the export's own (`ensemble/`), run by Merlin's own executor in this model's
process. The Triton models that the graph calls are steps of the ensemble around this one: what they
answered comes in as this model's inputs, and what they are to be asked goes out as its outputs.
"""

import traceback
from pathlib import Path

import triton_python_backend_utils as pb_utils
from merlin.dag import postorder_iter_nodes
from merlin.dag.executors import LocalExecutor
from merlin.systems.dag import Ensemble
from merlin.systems.dag.runtimes.triton import TritonExecutorRuntime
from merlin.systems.dag.runtimes.triton.ops.operator import TritonOperator
from merlin.systems.triton.conversions import tensor_names, tensor_table_to_triton_response
from merlin.table import TensorTable


class ModelCalled(BaseException):
    """The graph has come to a call whose answer is not here: what it asks is what is wanted."""

    def __init__(self, operator, inputs):
        self.operator, self.inputs = operator, inputs


class Calling:
    """Which of the graph's own calls is being made; answers: model -> what it answered."""

    def __init__(self):
        self.operator, self.answers = None, {}

    def watch(self, operator):
        """Know when the operator, one that calls a model, is at work."""
        transform = operator.transform

        def watched(*arguments, **named):
            self.operator = operator
            try:
                return transform(*arguments, **named)
            finally:
                self.operator = None

        operator.transform = watched


class _OfEither(type):
    """isinstance(x, pb_utils.InferenceRequest) stays true of real requests; Merlin asks that."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.real)


def call_class(real, calling):
    """The class in the place of pb_utils.InferenceRequest: answers what is there, or raises."""

    class AnsweredCall(metaclass=_OfEither):
        def __init__(self, model_name, requested_output_names, inputs, **_):
            self.model_name, self.inputs = model_name, inputs

        def exec(self):
            if calling.operator is None:
                raise RuntimeError(
                    f"an operator of the graph calls the model {self.model_name!r} by itself; "
                    "SERVE_REWRITE=executor serves such graphs"
                )
            if self.model_name in calling.answers:
                return calling.answers[self.model_name]
            raise ModelCalled(calling.operator, self.inputs)

    AnsweredCall.real = real
    return AnsweredCall


class TritonPythonModel:
    """One run of the graph for each reader of it: a model to be called, or the answer."""

    def initialize(self, args):
        version = Path(args["model_repository"], str(args["model_version"]))
        self.ensemble = Ensemble.load(str(version / "ensemble"))
        output = self.ensemble.graph.output_node
        for node in list(postorder_iter_nodes(output, flatten_subgraphs=True)):
            node.op.load_artifacts(str(version / "ensemble"))
        self.calling = Calling()
        for node in postorder_iter_nodes(output, flatten_subgraphs=True):
            if isinstance(node.op, TritonOperator):
                self.calling.watch(node.op)
        pb_utils.InferenceRequest = call_class(pb_utils.InferenceRequest, self.calling)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        for model, outputs in CALLS.items():
            outputs_sent = [pb_utils.Tensor(name, tensors[own]) for name, own in outputs.items()]
            self.calling.answers[model] = pb_utils.InferenceResponse(outputs_sent)
        try:
            inputs = {reader: self.fed(path, tensors) for reader, (path, _) in READERS.items()}
        except Exception:  # in the words of Merlin's executor: its traceback
            message = traceback.format_exc().encode("utf-8", "backslashreplace").decode()
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))
        finally:
            self.calling.answers.clear()
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor(own, inputs[reader][name])
                for reader, (_, outputs) in READERS.items()
                for name, own in outputs.items()
            ]
        )

    def fed(self, path, tensors):
        """The arrays by tensor name that feed the reader with this path in the graph."""
        names = tensor_names(self.ensemble.input_schema)
        table = TensorTable({name: tensors[name] for name in names})
        if not path:
            outputs = self.ensemble.transform(table, runtime=TritonExecutorRuntime())
            response = tensor_table_to_triton_response(outputs, self.ensemble.output_schema)
            return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
        graph = self.ensemble.graph
        for number in path[:-1]:  # through the Subgraph operators around the reader
            node = in_post_order(graph)[number]
            table = reaching(node, table)
            graph = node.op.graph
        try:
            LocalExecutor()._execute_node(in_post_order(graph)[path[-1]], table)
        except ModelCalled as asked:
            if asked.operator is in_post_order(graph)[path[-1]].op:
                return {tensor.name(): tensor.as_numpy() for tensor in asked.inputs}
        raise RuntimeError(f"the graph's operator at {path} did not come to call its model")


def reaching(node, table):
    """The columns that reach a node (LocalExecutor._execute_node up to the operator itself)."""
    executor = LocalExecutor()
    upstream = executor._run_upstream_transforms(node, table)
    upstream = executor._append_addl_root_columns(node, table, upstream)
    return executor._merge_upstream_columns(executor._standardize_formats(node, upstream))


def in_post_order(graph):
    """The graph's nodes, each after its parents and dependencies and once, as READERS counts."""
    done = []

    def visit(node):
        for upstream in node.parents_with_dependencies:
            if not any(upstream is other for other in done):
                visit(upstream)
        done.append(node)

    visit(graph.output_node)
    return done


# --- what this model does

CALLS = {}
READERS = {}
