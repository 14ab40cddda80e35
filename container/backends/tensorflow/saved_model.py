"""The tensorflow backend for machines without NVIDIA's image: SavedModels, run as graphs.

A Python-based backend: tritonserver runs this class once for each instance of each model whose
config says `backend: "tensorflow"`. It follows the rules of triton-inference-server/
tensorflow_backend (src/tensorflow.cc, src/tensorflow_utils.cc, mirror/tensorflow_backend_tf.cc) and
refuses what that refuses. As there the SavedModel is a graph in a session: its signature says which
tensors go in and come out, and no Python of the model's author is needed. Each request runs by
itself, so its numbers do not depend on its neighbours in a batch.

Runs in the models' Python, not in the server's: tensorflow, numpy and Triton's own module only.

The config's names are the signature's keys. Every input of the signature must be in the config;
of the outputs any. Dims are the signature's: an input's may be narrower, an output's may not.
"""

import json
import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../shared"))
import stand_in
from stand_in import Refused, find_file, first_line, kind_of, list_dims

# TensorFlow tells of its builds and devices in lines that are no errors.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SAVED_MODEL, GRAPH_DEF = "tensorflow_savedmodel", "tensorflow_graphdef"
DEFAULT_DIRECTORY = "model.savedmodel"
DEFAULT_TAG, DEFAULT_SIGNATURE = "serve", "serving_default"
# Signatures that are no predictions (tensorflow/cc/saved_model/constants.h).
OWN_SIGNATURES = ("__saved_model_init_op", "__saved_model_train_op")

# Stands above every error of a graph that runs.
HEADING = "Graph execution error:"

# The types that NVIDIA's backend takes, by the names that TensorFlow has for them; no BF16.
TRITON_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "string": "TYPE_STRING",
}


class TritonPythonModel(stand_in.StandIn):
    """One instance of one SavedModel."""

    def initialize(self, args):
        """Loads the SavedModel and checks the config against its signature. Raises Refused."""
        self.name = args["model_name"]
        config = json.loads(args["model_config"])
        refuse_unsupported(config, self.name)
        parameters = SavedModelParameters(config, self.name)
        path = find_file(args, config, DEFAULT_DIRECTORY)
        tensorflow = library(self.name)
        graph = tensorflow.Graph()
        self.session = tensorflow.compat.v1.Session(
            graph=graph, config=parameters.session_config(tensorflow, args)
        )
        with graph.as_default(), graph.device(device_of(args)):
            loaded = load(tensorflow, self.session, parameters.tag, path, self.name)
        signature = parameters.choose(dict(loaded.signature_def))
        batched = int(config.get("max_batch_size", 0)) > 0
        inputs = ends(tensorflow, signature.inputs, "input", self.name)
        outputs = ends(tensorflow, signature.outputs, "output", self.name)
        check_names(config["input"], inputs, "input", self.name)
        if len(config["input"]) != len(inputs):
            missing = sorted(set(inputs) - {io["name"] for io in config["input"]})
            raise Refused(
                f"unable to load model '{self.name}', configuration expects "
                f"{len(config['input'])} inputs, model provides {len(inputs)}; add "
                f"{', '.join(missing)}"
            )
        check_names(config["output"], outputs, "output", self.name)
        for io in config["input"]:
            inputs[io["name"]].check(io, batched, exact=False, model=self.name)
        for io in config["output"]:
            outputs[io["name"]].check(io, batched, exact=True, model=self.name)
        self.feeds = {io["name"]: inputs[io["name"]].tensor for io in config["input"]}
        self.fetches = {io["name"]: outputs[io["name"]].tensor for io in config["output"]}

    def compute(self, request):
        """The outputs that are asked for."""
        arguments = {
            tensor: self.input(request, name).as_numpy() for name, tensor in self.feeds.items()
        }
        requested = request.requested_output_names()  # a set, of another order each time
        fetches = {name: it for name, it in self.fetches.items() if name in requested}
        answers = self.session.run(fetches, arguments)
        return [pb_utils.Tensor(name, as_array(value)) for name, value in answers.items()]

    def describe(self, failed):
        """In TensorFlow's words."""
        return first_line(failed, HEADING)

    def finalize(self):
        """Gives the session's memory back."""
        self.session.close()
        self.session = None


class SavedModelParameters(stand_in.ModelParameters):
    """The config's `parameters` that NVIDIA's backend knows."""

    def __init__(self, config, model):
        super().__init__(config, model)
        self.tag = self.texts.get("TF_GRAPH_TAG") or DEFAULT_TAG
        if "TF_INIT_OPS_FILE" in self.texts:
            raise Refused(
                f"parameter TF_INIT_OPS_FILE of model '{model}' is for graphs, which the Python "
                "stand-in for TensorFlow does not serve; use NVIDIA's image"
            )

    def session_config(self, tensorflow, args):
        """Threads, and operators on another device than asked where they exist only there.

        Of a GPU's memory what the model needs, as NVIDIA's backend: TensorFlow would take all that
        is free, whoever else is to use it; and of no other GPU than the instance's, since a session
        makes a context on each that it sees.
        """
        return tensorflow.compat.v1.ConfigProto(
            device_count={"GPU": 0} if kind_of(args) == "CPU" else {},
            gpu_options=tensorflow.compat.v1.GPUOptions(
                allow_growth=True,
                visible_device_list=args["model_instance_device_id"]
                if kind_of(args) == "GPU"
                else "",
            ),
            intra_op_parallelism_threads=self.count("TF_NUM_INTRA_THREADS"),
            inter_op_parallelism_threads=self.count("TF_NUM_INTER_THREADS"),
            allow_soft_placement=True,
        )

    def count(self, key):
        """A number of threads; 0 lets TensorFlow choose."""
        return self.read(key, 0, read_count, "a non-negative number")

    def choose(self, signatures):
        """The signature named, or the default one, or without either name any that predicts."""
        name = self.texts.get("TF_SIGNATURE_DEF")
        if (name or DEFAULT_SIGNATURE) in signatures:
            return signatures[name or DEFAULT_SIGNATURE]
        others = sorted(set(signatures) - set(OWN_SIGNATURES))
        if name or not others:
            raise Refused(
                f"unable to load model '{self.model}', expected '{name or DEFAULT_SIGNATURE}' "
                f"signature; the SavedModel has {', '.join(others) or 'none'}: name one in the "
                "parameter TF_SIGNATURE_DEF"
            )
        pb_utils.Logger.log_warn(
            f"model '{self.model}' has no signature '{DEFAULT_SIGNATURE}': using '{others[0]}'"
        )
        return signatures[others[0]]


class SignatureTensor:
    """An input or output of a signature: its tensor in the graph, its type and its shape.

    The shape is None where the SavedModel does not say it; a scalar's counts as such too.
    """

    def __init__(self, name, direction, tensor, data_type, shape):
        self.name, self.direction, self.tensor = name, direction, tensor
        self.data_type, self.shape = data_type, shape

    def check(self, io, batched, exact, model):
        """Compares with the config. Raises Refused."""
        dims = list_dims(io)
        if self.shape:
            self.check_dims([-1, *dims] if batched else dims, batched, exact, model)
        if io["data_type"] != self.data_type:
            raise Refused(
                f"unable to load model '{model}', configuration expects datatype "
                f"{io['data_type']} for {self.direction} '{self.name}', model provides "
                f"{self.data_type}"
            )

    def check_dims(self, dims, batched, exact, model):
        """Of equal rank, and equal where the model's are fixed; outputs' equal everywhere."""
        tensor = f"model '{model}', tensor '{self.name}': "
        if batched and self.shape[0] != -1:
            raise Refused(
                f"{tensor}for the model to support batching the first dimension of its shape must "
                f"be -1, but it is {self.shape}; set max_batch_size: 0"
            )
        fits = len(dims) == len(self.shape) and all(
            ours == its or (its == -1 and not exact)
            for ours, its in zip(dims, self.shape)  # noqa: B905 - of one length
        )
        if not fits:
            raise Refused(
                f"{tensor}the model expects {len(self.shape)} dimensions (shape {self.shape}) but "
                f"the model configuration specifies {len(dims)} dimensions (shape {dims}"
                f"{', max_batch_size included' if batched else ''})"
            )


def ends(tensorflow, infos, direction, model):
    """The signature's inputs or outputs by their keys."""
    tensors = {}
    for name, info in infos.items():
        data_type = TRITON_TYPES.get(tensorflow.as_dtype(info.dtype).name)
        if data_type is None or not info.name:
            raise Refused(
                f"unable to process {direction} '{name}' for '{model}', unsupported datatype "
                f"'{tensorflow.as_dtype(info.dtype).name}' or a tensor that is not dense"
            )
        shape = [int(dim.size) for dim in info.tensor_shape.dim]
        tensors[name] = SignatureTensor(name, direction, info.name, data_type, shape or None)
    return tensors


def check_names(ios, known, direction, model):
    """Refuses an input or output that the signature does not have."""
    for io in ios:
        if io["name"] not in known:
            raise Refused(
                f"unexpected inference {direction} '{io['name']}' in the configuration of model "
                f"'{model}', allowed {direction}s are: {', '.join(sorted(known))}"
            )


def refuse_unsupported(config, model):
    """Refuse what NVIDIA's backend refuses, and what it serves and this stand-in does not."""
    platform = config.get("platform")
    if platform == GRAPH_DEF:
        raise Refused(
            f"model '{model}' is a {GRAPH_DEF}, which the Python stand-in for TensorFlow does not "
            f"serve; save it as a SavedModel or use NVIDIA's image"
        )
    if platform != SAVED_MODEL:
        raise Refused(
            f"platform '{platform}' is not supported for TensorFlow model '{model}'; expected "
            f"{SAVED_MODEL}"
        )
    stand_in.refuse_unsupported(config, model, "TensorFlow")


def library(model):
    """TensorFlow, if the models' environment has it; importing it takes seconds."""
    try:
        import tensorflow
    except ImportError as cause:
        raise Refused(
            f"model '{model}' needs tensorflow, which the models' Python does not have ({cause}): "
            "this tritonserver has no backend tensorflow of its own (as Triton's images from 25.03 "
            "on, and Merlin's for PyTorch), and the container's runs such models there; install it "
            "there or set "
            "SERVE_BACKEND_PYTHON to an interpreter that has it"
        ) from cause
    tensorflow.get_logger().setLevel("ERROR")
    return tensorflow


def device_of(args):
    """The instance's device: the GPU that its session sees; None lets TensorFlow decide."""
    return {"MODEL": None, "GPU": "/gpu:0"}.get(kind_of(args), "/cpu:0")


def load(tensorflow, session, tag, path, model):
    """The SavedModel's graph with this tag, its variables restored in the session."""
    try:
        return tensorflow.compat.v1.saved_model.load(session, [tag], path)
    except Exception as cause:
        raise Refused(
            f"unable to load model '{model}' from '{path}', expected a SavedModel with the tag "
            f"'{tag}': {first_line(cause, HEADING)}"
        ) from cause


def read_count(word):
    """A number of threads. Raises ValueError."""
    if not word.strip().isdigit():
        raise ValueError
    return int(word)


def as_array(value):
    """A fetched value as Triton takes it; strings are bytes in an array of objects."""
    return np.asarray(value, dtype=np.object_) if isinstance(value, bytes) else np.asarray(value)
