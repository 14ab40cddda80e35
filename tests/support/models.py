"""Small models for tests: Python models of a few lines, and ensembles of them.

Every model has an input IN and an output OUT, FP32 vectors of any length, besides what it says
itself. They load in some tens of milliseconds, since strict mode needs no second start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_HEAD = """
import json, os, signal, subprocess, time
import numpy as np
import triton_python_backend_utils as pb_utils


def respond(request, out, **others):
    tensors = [pb_utils.Tensor("OUT", np.asarray(out, dtype=np.float32))]
    tensors += [pb_utils.Tensor(name, value) for name, value in others.items()]
    return pb_utils.InferenceResponse(tensors)


class Each:
    def initialize(self, args):
        self.name = args["model_name"]
        config = json.loads(args["model_config"])
        self.words = {k: v["string_value"] for k, v in config.get("parameters", {}).items()}

    def mark(self):
        if "marker" in self.words:
            with open(self.words["marker"], "a") as file:
                file.write("started\\n")

    def execute(self, requests):
        return [
            self.answer(request, pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
            for request in requests
        ]

"""

#: Answers with IN[0] MiB of zeros.
LARGE = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, np.zeros(int(values[0]) << 18))
"""

#: Answers what it was given.
IDENTITY = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, values)
"""

#: Adds the parameter `addend`.
ADDER = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, values + float(self.words["addend"]))
"""

#: Says its own name, as it is told it, in a second output, WHO.
NAMED = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, values, WHO=np.array([self.name.encode()], dtype=np.object_))
"""

#: Raises, with the values in the message.
RAISING = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        raise ValueError("these values are not welcome: %s" % values.tolist())
"""

#: Sleeps for as many seconds as the first value says; notes the start in the file `marker`.
SLOW = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        self.mark()
        time.sleep(float(values[0]))
        return respond(request, values)
"""

#: Notes in the file `marker` how many requests each of its batches has; answers none before the
#: file `go` exists.
BATCHING = """
class TritonPythonModel(Each):
    def execute(self, requests):
        with open(self.words["marker"], "a") as file:
            file.write("%d\\n" % len(requests))
        while not os.path.exists(self.words["go"]):
            time.sleep(0.01)
        return super().execute(requests)

    def answer(self, request, values):
        return respond(request, values)
"""

#: Kills its own process at each request.
KILLING = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        os.kill(os.getpid(), signal.SIGKILL)
"""

#: Kills tritonserver when the first value is 13, else answers what it was given.
ASSASSIN = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        if values[0] == 13:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return respond(request, values)
"""

#: Starts processes while it is loaded, in sessions of their own, and forks itself; notes their ids
#: in the file `marker`, one a line.
PARENT = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        words = ["sh", "-c", "sleep 1000 & echo $!; wait"]
        shell = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        forked = os.fork()
        if not forked:
            os.setsid()
            time.sleep(1000)
        with open(self.words["marker"], "w") as file:
            file.write("%d\\n%s%d\\n" % (shell.pid, shell.stdout.readline().decode(), forked))

    def answer(self, request, values):
        return respond(request, values)
"""

#: Takes `mib` of memory, in MiB, while it is loaded.
HUNGRY = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        with open("/proc/self/oom_score_adj", "w") as first:
            first.write("1000")  # the kernel is to choose this process, and no neighbour
        self.kept = [bytearray(b"x" * 1048576) for _ in range(int(self.words["mib"]))]

    def answer(self, request, values):
        return respond(request, values)
"""

#: Takes 100 MB more at each request.
GREEDY = """
class TritonPythonModel(Each):
    kept = []

    def answer(self, request, values):
        self.kept.append(np.ones(13 << 20))
        return respond(request, values)
"""

#: Never answers; notes in the file `marker`, if there is to be one, that it is asked.
FOREVER = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        self.mark()
        time.sleep(3600)
"""

#: Kills its own process while it is loaded.
STILLBORN = """
class TritonPythonModel(Each):
    def initialize(self, args):
        os.kill(os.getpid(), signal.SIGKILL)
"""

#: Takes `seconds` to initialize, or until the file `go` exists; notes the start in `marker`.
LATE = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        self.mark()
        time.sleep(float(self.words["seconds"]))
        while self.words.get("go") and not os.path.exists(self.words["go"]):
            time.sleep(0.01)

    def answer(self, request, values):
        return respond(request, values)
"""

#: Raises in initialize.
UNWILLING = """
def weights():
    raise FileNotFoundError("no weights in /nowhere/weights.bin")


class TritonPythonModel(Each):
    def initialize(self, args):
        weights()
"""

#: Answers with the request's parameters, as JSON, in a second output, SEEN.
PARAMETERS = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        seen = request.parameters()
        seen = (seen if isinstance(seen, str) else json.dumps(seen)).encode()
        return respond(request, values, SEEN=np.array([seen], dtype=np.object_))
"""

#: Has no config for its tensors: tells them when it is asked (auto-completion).
COMPLETING = """
class TritonPythonModel(Each):
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(0)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def answer(self, request, values):
        return respond(request, values)
"""

#: Text in, its words out, one answer each when it is decoupled, else all in one.
SPEAKING = """
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)

    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
            text = text.reshape(-1)[0].decode()
            if not self.decoupled:
                responses.append(self.said(text))
                continue
            sender = request.get_response_sender()
            for word in text.split():
                sender.send(self.said(word))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None if self.decoupled else responses

    def said(self, text):
        array = np.array([text.encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", array)])
"""

#: Text in, its words out, 50 ms for each, once the file `go` exists; notes in the file `marker` how
#: many words it said of each request. A decoupled one ends with its caller, one that is not says
#: all at once.
DAWDLING = """
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self.marker = config["parameters"]["marker"]["string_value"]
        self.go = config["parameters"]["go"]["string_value"]

    def execute(self, requests):
        while not os.path.exists(self.go):
            time.sleep(0.01)
        answers = [self.answer(request) for request in requests]
        return None if self.decoupled else answers

    def answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
        words = text.reshape(-1)[0].decode().split()
        sender = request.get_response_sender() if self.decoupled else None
        said = 0
        for word in words:
            if self.decoupled and sender.is_cancelled():
                break
            time.sleep(0.05)
            said += 1
            if self.decoupled:
                sender.send(self.response(word))
        with open(self.marker, "a") as file:
            file.write("%d\\n" % said)
        if not self.decoupled:
            return self.response(" ".join(words))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, text):
        array = np.array([text.encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", array)])
"""

_VECTORS = """
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""


@dataclass(frozen=True)
class PythonModel:
    """One model directory to be written. more: further lines of its config.pbtxt."""

    source: str
    more: str = ""
    parameters: Mapping[str, object] | None = None
    tensors: str = _VECTORS
    backend: str = "python"

    @property
    def config(self) -> str:
        """Its config.pbtxt."""
        parameters = "".join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
            for key, value in (self.parameters or {}).items()
        )
        group = "instance_group { kind: KIND_CPU count: 1 }\n"
        return f'backend: "{self.backend}"\n{self.tensors}{group}{parameters}{self.more}'

    def write(self, directory: Path) -> None:
        """The directory, with one version."""
        (directory / "1").mkdir(parents=True)
        (directory / "1/model.py").write_text(_HEAD + self.source)
        (directory / "config.pbtxt").write_text(self.config)


@dataclass(frozen=True)
class Chain:
    """An ensemble that sends IN through the steps, one after another, to OUT."""

    steps: tuple[str, ...]

    @property
    def config(self) -> str:
        """Its config.pbtxt."""
        tensors = ["IN", *(f"t{number}" for number in range(1, len(self.steps))), "OUT"]
        rows = [
            f'step {{ model_name: "{step}" model_version: -1\n'
            f'  input_map {{ key: "IN" value: "{given}" }}\n'
            f'  output_map {{ key: "OUT" value: "{made}" }} }}\n'
            for step, given, made in zip(self.steps, tensors, tensors[1:], strict=False)
        ]
        return f'platform: "ensemble"\n{_VECTORS}ensemble_scheduling {{\n{"".join(rows)}}}\n'

    def write(self, directory: Path) -> None:
        """The directory, with the empty version directory that Triton wants."""
        (directory / "1").mkdir(parents=True)
        (directory / "config.pbtxt").write_text(self.config)


@dataclass(frozen=True)
class Fork:
    """An ensemble whose steps run side by side: each is sent IN, and answers OUT0, OUT1, …"""

    steps: tuple[str, ...]
    batches: bool = False

    @property
    def config(self) -> str:
        """Its config.pbtxt."""
        numbers = range(len(self.steps))
        vector = "data_type: TYPE_FP32 dims: [-1]"
        outputs = "".join(f'output {{ name: "OUT{number}" {vector} }}\n' for number in numbers)
        rows = "".join(
            f'step {{ model_name: "{step}" model_version: -1\n'
            f'  input_map {{ key: "IN" value: "IN" }}\n'
            f'  output_map {{ key: "OUT" value: "OUT{number}" }} }}\n'
            for number, step in enumerate(self.steps)
        )
        batches = "max_batch_size: 8\n" if self.batches else ""
        tensors = f'{batches}input {{ name: "IN" {vector} }}\n{outputs}'
        return f'platform: "ensemble"\n{tensors}ensemble_scheduling {{\n{rows}}}\n'

    def write(self, directory: Path) -> None:
        """The directory, with the empty version directory that Triton wants."""
        (directory / "1").mkdir(parents=True)
        (directory / "config.pbtxt").write_text(self.config)


Writable = PythonModel | Chain | Fork

identity = PythonModel(IDENTITY)
named = PythonModel(NAMED, 'output { name: "WHO" data_type: TYPE_STRING dims: [1] }\n')
raising = PythonModel(RAISING)
killing = PythonModel(KILLING)
unwilling = PythonModel(UNWILLING)
assassin = PythonModel(ASSASSIN)
stillborn = PythonModel(STILLBORN)
parameters = PythonModel(PARAMETERS, 'output { name: "SEEN" data_type: TYPE_STRING dims: [1] }\n')
_TEXTS = """
input { name: "text_input" data_type: TYPE_STRING dims: [1] }
output { name: "text_output" data_type: TYPE_STRING dims: [1] }
"""
large = PythonModel(LARGE)
speaking = PythonModel(SPEAKING, tensors=_TEXTS)
streaming = PythonModel(SPEAKING, "model_transaction_policy { decoupled: true }\n", tensors=_TEXTS)


def dawdling(marker: Path, go: Path, decoupled: bool) -> PythonModel:
    """Says a word in 50 ms, none before the file go is there; the marker file has a line for each
    request that has ended.
    """
    more = "model_transaction_policy { decoupled: true }\n" if decoupled else ""
    return PythonModel(DAWDLING, more, {"marker": marker, "go": go}, tensors=_TEXTS)


def adder(addend: float) -> PythonModel:
    """OUT = IN + addend."""
    return PythonModel(ADDER, parameters={"addend": addend})


def hanging(marker: Path) -> PythonModel:
    """Never answers; the marker file exists once it is asked."""
    return PythonModel(FOREVER, parameters={"marker": marker})


def slow(marker: Path) -> PythonModel:
    """Sleeps for IN[0] seconds; the marker file exists once it has begun."""
    return PythonModel(SLOW, parameters={"marker": marker})


def batching(marker: Path, go: Path) -> PythonModel:
    """In batches of up to eight, from when `go` exists; notes their sizes in the file `marker`."""
    more = "max_batch_size: 8\ndynamic_batching {}\n"
    return PythonModel(BATCHING, more, {"marker": marker, "go": go})


def parent(marker: Path) -> PythonModel:
    """Starts three processes in sessions of their own; the marker file then holds their ids."""
    return PythonModel(PARENT, parameters={"marker": marker})


def late(seconds: float, marker: Path) -> PythonModel:
    """Takes so long to load; the marker file exists once it has begun."""
    return PythonModel(LATE, parameters={"seconds": seconds, "marker": marker})


def held(go: Path, marker: Path) -> PythonModel:
    """Loads until the file `go` exists; the marker file exists once it has begun."""
    return PythonModel(LATE, parameters={"seconds": 0, "go": go, "marker": marker})


def hungry(mib: int) -> PythonModel:
    """Takes so much memory while it is loaded."""
    return PythonModel(HUNGRY, parameters={"mib": mib})


def write_archive(directory: Path, models: Mapping[str, Writable]) -> Path:
    """Model directories side by side, as they lie in an extracted archive."""
    for name, model in models.items():
        model.write(directory / name)
    return directory


def sums(directory: Path, addends: Iterable[float]) -> Path:
    """An ensemble `sum` over the steps add0, add1, ...; the step names are always the same."""
    steps = {f"add{number}": adder(addend) for number, addend in enumerate(addends)}
    return write_archive(directory, {**steps, "sum": Chain(tuple(steps))})


#: Answers its inputs, whatever they are; says in words what it was given when these are `raise`.
ANY = """
class TritonPythonModel(Each):
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        tensors = []
        for tensor in request.inputs():
            array = tensor.as_numpy()
            if array.dtype == np.object_ and array.size and array.flat[0].startswith(b"raise"):
                raise ValueError(array.flat[0].decode())
            tensors.append(pb_utils.Tensor(tensor.name().replace("IN", "OUT", 1), array))
        return pb_utils.InferenceResponse(tensors)
"""
TYPES_OF_ANY = ("FP32", "FP16", "STRING", "BOOL", "INT64")


def anything() -> PythonModel:
    """A model that answers its inputs, which are of these types."""
    inputs = "".join(
        f'input {{ name: "{"IN_" + kind}" data_type: TYPE_{kind} dims: [-1] optional: true }}\n'
        for kind in TYPES_OF_ANY
    )
    outputs = "".join(
        f'output {{ name: "{"OUT_" + kind}" data_type: TYPE_{kind} dims: [-1] }}\n'
        for kind in TYPES_OF_ANY
    )
    return PythonModel(ANY, tensors=inputs + outputs)
