"""A workflow as NVTabular itself runs it: importing this takes seconds, and some 300 MB."""

import json

import nvtabular
from compiled_workflow.unpickling import walk_nodes
from merlin.dag import DataFormats
from merlin.dag.ops.subgraph import Subgraph
from merlin.systems.workflow.base import WorkflowRunner


class NVTabularWorkflow:
    """The workflow, which answers whole requests, and runs single operators."""

    def __init__(self, directory, arguments):
        self._workflow = load_workflow(directory)
        self._runner = WorkflowRunner(
            self._workflow,
            {},
            json.loads(arguments["model_config"]),
            arguments["model_instance_kind"],
        )
        output = self._workflow.graph.output_node
        #: By their paths.
        self.nodes = dict(walk_nodes(output, _upstream, _inner_output))

    def operator_of(self, path):
        """A node's operator, and what it makes of a frame of pandas; None where it takes none."""
        node = self.nodes[path]
        if not node.op.supported_formats & DataFormats.PANDAS_DATAFRAME:
            return node.op, None
        return node.op, lambda frame: node.op.transform(self.selection_of(node), frame)

    @staticmethod
    def selection_of(node):
        """The columns that its operator is applied to."""
        return node.input_columns.resolve(node.input_schema)

    def answer(self, columns, tensors):
        """The workflow's answer. columns: the request's, with the tensors of each."""
        return self._runner.run_workflow(
            {name: _column(parts, tensors) for name, parts in columns.items()}
        )


def _upstream(node):
    return node.parents_with_dependencies


def _inner_output(node):
    return node.op.graph.output_node if type(node.op) is Subgraph else None


def load_workflow(directory):
    """The workflow; the reader of graph.json is ours, since NVTabular 23.08 has none."""
    if not (directory / "graph.json").exists():
        return nvtabular.Workflow.load(str(directory))
    from compiled_workflow.graph_json import load

    return load(directory)


def _column(parts, tensors):
    arrays = tuple(convert(tensors[name]) for name in parts)
    return arrays if len(arrays) == 2 else arrays[0]


def convert(array):
    """An array as merlin.systems.triton._convert_tensor makes it of a tensor."""
    array = array[:, 0] if array.ndim == 2 else array
    return array.astype("str") if array.dtype.kind in "OSU" else array
