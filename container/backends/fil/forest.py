"""The fil backend for machines without NVIDIA's image: forests, each by the library that made it.

A Python-based backend: tritonserver runs this class once for each instance of each model whose
config says `backend: "fil"`. It follows the rules of triton-inference-server/fil_backend
(src/shared_state.h, src/model.h, src/tl_model.h) and of rapids-triton below it
(model/shared_state.hpp), and refuses what these refuse; where they would read or write past a
buffer (a wrong number of features or outputs) the model is refused at load. NVIDIA's FIL sums in
FP32 what LightGBM sums in FP64: the last digits of its answers differ.

Runs in the models' Python, not in the server's: numpy, Triton's own module, and the one library
that the model's file needs.

input__0   FP32 [rows, features], NaN for a missing value
output__0  FP32 [rows], or [rows, width] where a row has several numbers, for the first rule that
           fits (the classes' count 1 means: a regressor, or a classifier of two classes)
    1. predict_proba, several classes: the probability of each, [rows, classes]
    2. predict_proba, one: [rows, 2] of a classifier declared so, 1 - p and p; else p, [rows]
    3. output_class, several classes: the number of the likeliest
    4. output_class, one: 1 where p > threshold, else 0
    5. otherwise: what the model itself answers
As in rapids-triton declared dimensions of size 1 vanish from the answer's shape, whatever
max_batch_size is, and a first dimension of -1 is the rows'.
"""

import importlib
import json
import os
import re
import sys

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../shared"))
from stand_in import (
    ModelParameters,
    Refused,
    StandIn,
    find_file,
    first_line,
    kind_of,
    list_dims,
)

INPUT, OUTPUT, FLOAT = "input__0", "output__0", "TYPE_FP32"

# The default of model_type, as in NVIDIA's backend.
LEGACY = "xgboost"
TREELITE = "treelite_checkpoint"
FILES = {
    LEGACY: "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    TREELITE: "checkpoint.tl",
}
# What C++ says where it gets no memory. A forest takes less than this, and so many times its file.
NO_MEMORY, MOST_TAKEN, MOST_TAKEN_RATIO = "bad_alloc", 2**30, 64
# XGBoost's boosters that are forests, and the one objective that treelite has no transform for.
TREE_BOOSTERS = ("gbtree", "dart")
HINGE = "binary:hinge"


class TritonPythonModel(StandIn):
    """One instance of one forest."""

    def initialize(self, args):
        """Loads the forest and checks it against its config. Raises Refused."""
        self.name = args["model_name"]
        config = json.loads(args["model_config"])
        warn_of_gpu(args)
        self.settings = ForestParameters(config, self.name)
        self.forest = load(self.settings, args, config)
        check_features(config, self.forest.features, self.name)
        declared = declared_width(config, self.name)
        self.rule = choose_rule(self.settings, self.forest, declared)
        if self.rule.width != declared:
            raise Refused(
                f"output '{OUTPUT}' of model '{self.name}' has {declared} numbers a row, but "
                f"{self.settings} this forest of {self.forest.classes} class(es) answers "
                f"{self.rule.width}; declare dims: [ {self.rule.width} ] or change the parameters"
            )

    def compute(self, request):
        """FP32 [rows], or [rows, width]."""
        rows = self.rows(request)
        numbers = np.asarray(self.rule.apply(self.forest, rows), dtype=np.float32)
        shape = [len(rows)] if self.rule.width == 1 else [len(rows), self.rule.width]
        return [pb_utils.Tensor(OUTPUT, numbers.reshape(shape))]

    def rows(self, request):
        """FP32 [rows, features]."""
        array = self.input(request, INPUT).as_numpy()
        if array.ndim != 2 or array.shape[1] != self.forest.features:
            raise Refused(
                f"input '{INPUT}' of model '{self.name}' has the shape {list(array.shape)}, "
                f"expected [rows, {self.forest.features}]"
            )
        return array

    def finalize(self):
        """Gives the forest's memory back."""
        self.forest = self.rule = None


class ForestParameters(ModelParameters):
    """The config's `parameters` that change an answer; those that tune a GPU are passed over."""

    def __init__(self, config, model):
        super().__init__(config, model)
        self.model_type = self.texts.get("model_type", LEGACY)
        if self.model_type not in FILES:
            raise Refused(
                f"parameter model_type of model '{model}' is '{self.model_type}', which is not "
                f"recognized as a valid serialization format; expected one of {', '.join(FILES)}"
            )
        self.predict_proba = self.flag("predict_proba", False)
        # Its name from 25.09 on is is_classifier; NVIDIA's backend still reads the older one first.
        older = "output_class" if "output_class" in self.texts else "is_classifier"
        self.output_class = self.flag(older)
        self.threshold = self.number("threshold") if self.output_class else 0.5
        # Below 1 all processors, which is FIL's default. Here every model is a process of its own,
        # and their threads would wait for one another; no number depends on it.
        self.threads = int(self.number("cpu_nthread", 1))

    def __str__(self):
        return f"with predict_proba {self.predict_proba} and output_class {self.output_class}"

    def flag(self, key, default=None):
        """A boolean: true or false, and no other spelling."""
        return bool(self.required(key, default, ("false", "true").index, "'true' or 'false'"))

    def number(self, key, default=None):
        """A number."""
        return self.required(key, default, float, "a number")

    def required(self, key, default, kind, expected):
        """The setting; None as default means that it must be there."""
        value = self.read(key, default, kind, expected)
        if value is None:
            raise Refused(
                f"required parameter {key} of model '{self.model}' is not in its config; "
                "add it under parameters"
            )
        return value


class XGBoost:
    """A forest of XGBoost; what it answers itself is after the objective's transform."""

    def __init__(self, path, settings):
        library = library_of("xgboost", settings)
        content = read(path)
        if xgboost_format(content) != settings.model_type:
            raise Refused(
                f"parameter model_type of model '{settings.model}' is {settings.model_type}, but "
                f"'{path}' is {xgboost_format(content)}; set model_type to that"
            )
        self.library = library
        self.threads = settings.threads
        self.booster = library.Booster()
        # From memory, where the content tells the format; of a file XGBoost asks its name.
        self.booster.load_model(bytearray(content))
        self.booster.set_param({"nthread": settings.threads})
        learner = json.loads(self.booster.save_config())["learner"]
        check_learner(learner, settings.model)
        parameters = learner["learner_model_param"]
        self.objective = learner["objective"]["name"]
        self.features = int(parameters["num_feature"])
        self.classes = max(1, int(parameters["num_class"]))
        # multi:softmax answers a class, multi:softprob a probability of each.
        self.width = 1 if self.objective == "multi:softmax" else self.classes

    def predict(self, rows):
        """[rows] or [rows, classes]."""
        return self.booster.predict(self.data(rows), validate_features=False)

    def probabilities(self, rows):
        """[rows, classes], whatever the objective answers by itself."""
        data = self.data(rows)
        margins = self.booster.predict(data, output_margin=True, validate_features=False)
        shifted = np.exp(margins - margins.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    def data(self, rows):
        """The rows in XGBoost's own form. They have no names, and the forest may have some."""
        return self.library.DMatrix(rows, nthread=self.threads)


class LightGBM:
    """A forest of LightGBM; what it answers itself is after the objective's transform."""

    def __init__(self, path, settings):
        library = library_of("lightgbm", settings)
        content = read(path).replace(b"\r\n", b"\n")  # of a file that passed through Windows
        check_trees(content, path, settings.model)
        self.booster = library.Booster(model_str=content.decode("utf-8"))
        self.threads = settings.threads
        self.features = self.booster.num_feature()
        self.classes = self.width = self.booster.num_model_per_iteration()

    def predict(self, rows):
        """[rows] or [rows, classes]."""
        return self.booster.predict(rows, num_threads=max(0, self.threads))

    probabilities = predict


class Treelite:
    """A forest of any library in treelite's own format, such as scikit-learn's."""

    def __init__(self, path, settings):
        library = library_of("treelite", settings)
        self.model = library.Model.deserialize(str(path))
        self.gtil = library_of("treelite.gtil", settings)
        self.threads = settings.threads
        self.features = self.model.num_feature
        classes = np.ravel(self.model.num_class)
        if classes.size != 1:
            raise Refused(
                f"'{path}' of model '{settings.model}' has {classes.size} targets; multi-target "
                "models are not supported"
            )
        self.classes = self.width = int(classes[0])

    def predict(self, rows):
        """[rows] or [rows, classes]."""
        numbers = self.gtil.predict(self.model, rows, nthread=self.threads)
        return np.reshape(numbers, (len(rows), -1))

    probabilities = predict


class AnswerRule:
    """How a row is answered: so many numbers, made of a forest's own by a function."""

    def __init__(self, width, apply):
        self.width, self.apply = width, apply


def choose_rule(settings, forest, declared):
    """The rules of this module's docstring, numbered as there."""
    several = forest.classes > 1
    if settings.predict_proba and several:  # 1
        return AnswerRule(forest.classes, lambda forest, rows: forest.probabilities(rows))
    if settings.predict_proba and settings.output_class and declared == 2:  # 2
        return AnswerRule(2, both_classes)
    if settings.predict_proba or not settings.output_class:  # 2 and 5
        return AnswerRule(forest.width, lambda forest, rows: forest.predict(rows))
    if several:  # 3
        return AnswerRule(1, lambda forest, rows: forest.probabilities(rows).argmax(axis=1))
    threshold = np.float32(settings.threshold)
    return AnswerRule(1, lambda forest, rows: np.float32(forest.predict(rows)) > threshold)  # 4


def both_classes(forest, rows):
    """[rows, 2]: that a row is of class 0, and of class 1."""
    numbers = np.ravel(forest.predict(rows))
    return np.stack([1.0 - numbers, numbers], axis=1)


def load(settings, args, config):
    """The forest. Raises Refused."""
    default, kind = FILES[settings.model_type], f" of model_type {settings.model_type}"
    path = find_file(args, config, default, os.path.isfile, kind)
    kind = LightGBM if settings.model_type == "lightgbm" else XGBoost
    kind = Treelite if settings.model_type == TREELITE else kind
    try:
        return kind(path, settings)
    except Refused:
        raise
    except Exception as cause:
        raise Refused(
            f"failed to load model '{settings.model}': '{path}' is not a forest of model_type "
            f"{settings.model_type}: {reason_of(cause, path)}"
        ) from cause


def reason_of(cause, path):
    """The error's line. A file may claim to hold anything: that is no lack of the machine's, which
    the platform would meet by unloading the models of others.
    """
    size = os.path.getsize(path)
    if NO_MEMORY in str(cause) and free_memory() > MOST_TAKEN + size * MOST_TAKEN_RATIO:
        return f"it has {size} bytes, and says that it holds more than there is memory for"
    return first_line(cause)


def free_memory():
    """Bytes, as the kernel says."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["MemAvailable"].split()[0]) * 1024


def library_of(name, settings):
    """The module, if the models' environment has it."""
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise Refused(
            f"model '{settings.model}' of model_type {settings.model_type} needs "
            f"{name.partition('.')[0]}, which the models' Python does not have ({cause}); install "
            "it there or set SERVE_BACKEND_PYTHON to an interpreter that has it"
        ) from cause


def read(path):
    """The file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def xgboost_format(content):
    """The model_type that a file of XGBoost is, by its first bytes."""
    if re.match(rb'\s*\{\s*"', content):
        return "xgboost_json"
    return "xgboost_ubj" if content.startswith(b"{") else LEGACY


def check_trees(content, path, model):
    """Refuses LightGBM's text where a tree is not where its header says.

    LightGBM reads trees in several threads, and ends the process where one of them fails.
    """
    sizes = re.search(rb"\ntree_sizes=([0-9 ]*)\n", content)
    start = content.find(b"\nTree=0\n") + 1
    for number, size in enumerate(sizes[1].split() if sizes else ()):
        end = start + int(size)
        if not content.startswith(b"Tree=%d\n" % number, start) or end > len(content):
            raise Refused(
                f"'{path}' of model '{model}' is cut or changed: its tree {number} is not where "
                "tree_sizes says; expected the file as LightGBM's save_model wrote it"
            )
        start = end


def check_learner(learner, model):
    """Refuses what treelite, through which FIL reads XGBoost, cannot hold or transform."""
    booster = learner["gradient_booster"]["name"]
    if booster not in TREE_BOOSTERS:
        raise Refused(
            f"model '{model}' is XGBoost's {booster}, which has no trees; expected one of "
            f"{', '.join(TREE_BOOSTERS)}"
        )
    if learner["objective"]["name"] == HINGE:
        raise Refused(f"objective {HINGE} of model '{model}' is not supported by FIL")
    targets = int(learner["learner_model_param"].get("num_target", 1))
    if targets > 1:
        raise Refused(
            f"model '{model}' has {targets} targets; multi-target models are not supported"
        )


def warn_of_gpu(args):
    """KIND_AUTO becomes KIND_GPU where there is one; on a processor the numbers are the same."""
    if kind_of(args) == "GPU":
        pb_utils.Logger.log_warn(
            f"model '{args['model_name']}' has an instance on a GPU, but the Python stand-in for "
            "FIL runs it on the processor; NVIDIA's image has the FIL that uses the GPU"
        )


def check_features(config, features, model):
    """Refuses an input that is declared with another number of features than the forest has."""
    dims = declared_dims(config, "input", INPUT, model)
    if dims[-1] not in (-1, features):
        raise Refused(
            f"input '{INPUT}' of model '{model}' has {dims[-1]} features a row, but the forest "
            f"was trained on {features}; declare dims: [ {features} ]"
        )


def declared_width(config, model):
    """How many numbers a row of the answer has, by the config."""
    dims = declared_dims(config, "output", OUTPUT, model)
    sizes = dims[1:] if dims[0] == -1 else dims
    if -1 in sizes:
        raise Refused(
            f"output '{OUTPUT}' of model '{model}' has the dims {dims}, but FIL answers a fixed "
            "number of values a row; declare that number"
        )
    return int(np.prod(sizes))


def declared_dims(config, direction, name, model):
    """The dims, a reshape's if there is one, of the one tensor with this name."""
    tensors = config.get(direction, [])
    if [tensor["name"] for tensor in tensors] != [name]:
        names = ", ".join(f"'{tensor['name']}'" for tensor in tensors) or "none"
        raise Refused(
            f"the {direction}s of model '{model}' are {names}, but the Python stand-in for FIL "
            f"knows '{name}' alone"
        )
    (tensor,) = tensors
    if tensor["data_type"] != FLOAT:
        raise Refused(
            f"{direction} '{name}' of model '{model}' is of {tensor['data_type']}, but FIL knows "
            f"{FLOAT} only"
        )
    return list_dims(tensor)
