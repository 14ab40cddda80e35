"""The pytorch backend for machines without NVIDIA's image: TorchScript models, as libtorch serves.

A Python-based backend: tritonserver runs this class once for each instance of each model whose
config says `backend: "pytorch"`. It follows the rules of triton-inference-server/pytorch_backend
(src/pt/model_instance_state.cc) and refuses what that refuses; what that finds out at the first
request is refused at load already where the TorchScript schema tells. Each request runs by itself,
so its numbers do not depend on its neighbours in a batch.

Runs in the models' Python, not in the server's: torch, numpy and Triton's own module only.

Input names mean, for the first rule that fits
    1. forward(Dict[str, Tensor]) alone: the keys
    2. every name is an argument of forward: that argument
    3. every name is NAME__INDEX: the argument with that index
    4. otherwise: arguments in the order of the config
Output names mean the elements NAME__INDEX of the returned tuple, otherwise the order of the config.
"""

import json
import os
import sys

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../shared"))
import stand_in
from stand_in import Refused, find_file, first_line, kind_of, list_dims

DEFAULT_FILE = "model.pt"
# A model that AOT Inductor compiled: machine code, for one release of torch and one kind of CPU.
AOTI = "torch_aoti"

# The types libtorch takes: no unsigned ones above 8 bits, no BF16. Strings are List[str].
TORCH_TYPES = {
    "TYPE_BOOL": torch.bool,
    "TYPE_UINT8": torch.uint8,
    "TYPE_INT8": torch.int8,
    "TYPE_INT16": torch.int16,
    "TYPE_INT32": torch.int32,
    "TYPE_INT64": torch.int64,
    "TYPE_FP16": torch.float16,
    "TYPE_FP32": torch.float32,
    "TYPE_FP64": torch.float64,
}
TRITON_TYPES = {dtype: name for name, dtype in TORCH_TYPES.items()}
STRING = "TYPE_STRING"


class TritonPythonModel(stand_in.StandIn):
    """One instance of one TorchScript model."""

    def initialize(self, args):
        """Loads the model and settles which tensor is which. Raises Refused."""
        self.name = args["model_name"]
        self.config = json.loads(args["model_config"])
        self.parameters = TorchScriptParameters(self.config, self.name)
        self.parameters.apply()
        self.device = device_of(args)
        path = artifact(args, self.config)
        with self.parameters.guard():
            self.module = load(path, self.device, self.name)
        stand_in.refuse_unsupported(self.config, self.name, "libtorch")
        arguments, result = forward_schema(self.module)
        check_types(self.config, self.name)
        self.takes_dict = is_dict_input(arguments)
        self.input_order = plan_inputs(self.config["input"], arguments, self.name)
        self.output_index = plan_outputs(self.config["output"], result, self.name)
        self.output_types = {io["name"]: io["data_type"] for io in self.config["output"]}

    def execute(self, requests):
        """Answers each request by itself; one that fails does not touch the others."""
        responses = super().execute(requests)
        if self.parameters.flag("ENABLE_CACHE_CLEANING", False) and torch.cuda.is_available():
            torch.cuda.empty_cache()
        return responses

    def compute(self, request):
        """The outputs that are asked for."""
        with self.parameters.guard():
            outputs = self.run(request)
            requested = request.requested_output_names()  # a set, of another order each time
            return [self.output(name, outputs) for name in self.output_index if name in requested]

    def describe(self, failed):
        """In libtorch's words."""
        return f"PyTorch execute failure: {failed}"

    def run(self, request):
        """The model's outputs as a list."""
        tensors = {name: self.to_torch(self.input(request, name)) for name in self.input_order}
        result = self.module(tensors) if self.takes_dict else self.module(*tensors.values())
        return as_list(result)

    def to_torch(self, tensor):
        """A request's tensor on the model's device; strings become a list."""
        if not tensor.is_cpu():
            return on_device(torch.from_dlpack(tensor.to_dlpack()), self.device)
        array = tensor.as_numpy()
        if array.dtype == np.object_:
            return [text.decode("utf-8") for text in array.reshape(-1)]
        # torch writes where it likes; shared memory may be read-only
        array = array if array.flags.writeable else array.copy()
        return on_device(torch.from_numpy(array), self.device)

    def output(self, name, outputs):
        """A declared output; its type must be the declared one, as libtorch demands."""
        index = self.output_index[name]
        check_index(name, index, len(outputs))
        value, declared = outputs[index], self.output_types[name]
        if isinstance(value, list):
            provided, array = STRING, np.array([text.encode() for text in value], dtype=np.object_)
        else:
            provided, array = TRITON_TYPES.get(value.dtype, str(value.dtype)), None
        if declared != provided:
            raise Refused(
                f"configuration expects datatype {declared} for output '{name}', "
                f"model provides {provided}"
            )
        if array is None and value.dim() == 0:
            raise Refused(f"output '{name}' is a scalar which is not supported")
        array = value.detach().cpu().contiguous().numpy() if array is None else array
        return pb_utils.Tensor(name, array)

    def finalize(self):
        """Gives the model's memory back."""
        self.module = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class TorchScriptParameters(stand_in.ModelParameters):
    """The config's `parameters` that libtorch knows."""

    def __init__(self, config, model):
        super().__init__(config, model)
        self.inference_mode = self.flag("INFERENCE_MODE", True)
        self.optimized = not self.flag("DISABLE_OPTIMIZED_EXECUTION", False)

    def flag(self, key, default):
        """A boolean in the spellings libtorch reads."""
        words = ("true", "t", "1", "false", "f", "0")
        return self.read(key, default, lambda word: words.index(word.lower()) < 3, "true or false")

    def count(self, key):
        """A whole number; 0 where there is none."""
        return self.read(key, 0, int, "a whole number")

    def apply(self):
        """Sets what holds for the whole process: an instance has its own."""
        torch.backends.cudnn.enabled = not self.flag("DISABLE_CUDNN", False)
        for key, switch in (
            ("ENABLE_JIT_PROFILING", "_jit_set_profiling_mode"),
            ("ENABLE_JIT_EXECUTOR", "_jit_set_profiling_executor"),
            ("ENABLE_TENSOR_FUSER", "_jit_set_texpr_fuser_enabled"),
        ):
            if key in self.texts:
                getattr(torch._C, switch)(self.flag(key, True))
        for key, setter in (
            ("INTRA_OP_THREAD_COUNT", torch.set_num_threads),
            ("INTER_OP_THREAD_COUNT", torch.set_num_interop_threads),
        ):
            if self.count(key) > 0:
                setter(self.count(key))

    def guard(self):
        """A context that must surround every use of the model; a fresh one for each."""
        return Guard(self.inference_mode, self.optimized)


class Guard:
    """Inference mode (or no gradients), and the executor's optimizations on or off."""

    def __init__(self, inference_mode, optimized):
        gradients = torch.inference_mode() if inference_mode else torch.no_grad()
        self.parts = (torch.jit.optimized_execution(optimized), gradients)

    def __enter__(self):
        for part in self.parts:
            part.__enter__()

    def __exit__(self, *raised):
        for part in reversed(self.parts):
            part.__exit__(*raised)


def device_of(args):
    """The instance's device; None lets the model's file decide (KIND_MODEL)."""
    kind = kind_of(args)
    if kind == "MODEL":
        return None
    if kind != "GPU":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Refused(
            f"an instance of model '{args['model_name']}' is of KIND_GPU, but torch "
            f"{torch.__version__} sees no CUDA device; use KIND_CPU or a torch with CUDA"
        )
    return torch.device("cuda", int(args["model_instance_device_id"]))


def on_device(tensor, device):
    """The tensor where the model is; inputs of a KIND_MODEL instance stay where they are."""
    return tensor if device is None else tensor.to(device)


def artifact(args, config):
    """The path of the TorchScript file."""
    if config.get("platform") == AOTI:
        raise Refused(
            f"model '{args['model_name']}' is of the platform {AOTI}, which the Python stand-in "
            "for libtorch does not serve; use NVIDIA's image from 26.03 on, or export TorchScript"
        )
    path = find_file(args, config, DEFAULT_FILE)
    if os.path.isdir(path):
        raise Refused(
            f"'{path}' of model '{args['model_name']}' is a directory, expected a TorchScript "
            "file; trace or script the model and save it with torch.jit.save"
        )
    return path


def load(path, device, model):
    """The TorchScript module in evaluation mode, as it was saved otherwise."""
    try:
        return torch.jit.load(path, map_location=device)
    except Exception as cause:
        raise Refused(
            f"failed to load model '{model}': '{path}' is not TorchScript that torch "
            f"{torch.__version__} reads: {first_line(cause)}"
        ) from cause


def forward_schema(module):
    """The arguments of forward without self, and the type of its one result."""
    schema = module.forward.schema
    arguments = [a for a in schema.arguments if a.type.kind() != "ClassType"]
    return arguments, schema.returns[0].type


def is_dict_input(arguments):
    """Rule 1."""
    return len(arguments) == 1 and arguments[0].type.kind() == "DictType"


def check_types(config, model):
    """Refuses data types that libtorch has no counterpart for, and strings that are no list."""
    batched = 1 if int(config.get("max_batch_size", 0)) > 0 else 0
    for direction in ("input", "output"):
        for io in config[direction]:
            if io["data_type"] not in TORCH_TYPES and io["data_type"] != STRING:
                raise Refused(
                    f"unsupported datatype {io['data_type']} for {direction} '{io['name']}' for "
                    f"model '{model}'; libtorch knows {', '.join(TORCH_TYPES)} and {STRING}"
                )
            rank = len(list_dims(io)) + batched
            if io["data_type"] == STRING and rank > 1:
                raise Refused(
                    f"{direction} '{io['name']}' of model '{model}' is a TYPE_STRING of "
                    f"{rank} dimensions; libtorch takes a list, one dimension"
                )


def plan_inputs(ios, arguments, model):
    """The names in the order in which forward takes them (any order where it takes a dict)."""
    names = [io["name"] for io in ios]
    if is_dict_input(arguments):
        return names
    for argument in arguments:
        if argument.type.kind() not in ("TensorType", "ListType"):
            raise Refused(
                f"argument '{argument.name}' of model '{model}' is of type '{argument.type}'; only "
                "a single input of type Dict(str, Tensor) or inputs of type Tensor are supported"
            )
    if len(arguments) != len(names):
        raise Refused(
            f"unable to load model '{model}', configuration expects {len(names)} inputs, "
            f"model provides {len(arguments)}"
        )
    positions = input_positions(names, [argument.name for argument in arguments])
    if sorted(positions) != list(range(len(names))):
        raise Refused(
            f"the input names of model '{model}' give the places {positions} ({', '.join(names)}); "
            f"expected each of 0 to {len(names) - 1} once"
        )
    return [name for _, name in sorted(zip(positions, names))]  # noqa: B905 - of one length


def input_positions(names, arguments):
    """Rules 2, 3 and 4: for each name, which argument it is."""
    if all(name in arguments for name in names):
        return [arguments.index(name) for name in names]
    return indices(names, "input")


def indices(names, direction):
    """The numbers in NAME__INDEX if every name has one, otherwise the order of the config.

    As in libtorch the number is what follows the first `__`, and no digits mean 0.
    """
    numbers = [name.partition("__")[2] for name in names]
    if all("__" in name and (not n or n.isdigit()) for name, n in zip(names, numbers)):  # noqa: B905
        return [int(number or 0) for number in numbers]
    if len(names) > 1:
        pb_utils.Logger.log_warn(
            f"{direction} names {names} do not all follow the <name>__<index> naming convention: "
            "taking them in the order of the model configuration"
        )
    return list(range(len(names)))


def plan_outputs(ios, result, model):
    """For each output its position among those that forward returns."""
    count = result_count(result, model)
    names = [io["name"] for io in ios]
    positions = dict(zip(names, indices(names, "output")))  # noqa: B905 - of one length
    for name, position in positions.items():
        if count is not None:
            check_index(name, position, count)
    return positions


def result_count(result, model):
    """How many outputs the schema promises; None where only a run tells."""
    kind = result.kind()
    if kind in ("DictType", "IntType", "FloatType", "BoolType", "StringType", "NoneType"):
        raise Refused(
            f"forward of model '{model}' returns '{result}'; the output must be of type Tensor, "
            "List[str] or Tuple of these, not a List / Dictionary of Tensors or a Scalar"
        )
    if kind == "TupleType":
        return len(result.elements())
    return 1 if kind == "TensorType" else None


def check_index(name, index, count):
    """An output must exist."""
    if index >= count:
        raise Refused(
            f"The output {name} in the model configuration refers to an output index which "
            f"doesn't exist. This model has {count} outputs"
        )


def as_list(result):
    """The result of forward as a list of tensors and lists of strings."""
    outputs = list(result) if isinstance(result, tuple) else [result]
    for index, output in enumerate(outputs):
        strings = isinstance(output, list) and all(isinstance(text, str) for text in output)
        if not (strings or isinstance(output, torch.Tensor)):
            raise Refused(
                f"output at index {index} must be of type Tensor or List[str], received "
                f"{type(output).__name__}"
            )
    return outputs
