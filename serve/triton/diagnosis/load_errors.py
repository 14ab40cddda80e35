"""Why a model was not loaded, in words that its archive's owner can act on. No I/O.

tritonserver's words have paths of the serving repository, which nobody outside knows, and remedies
for who runs a tritonserver by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ensemble_tools import LAYOUT_PREFIX, Form, ServingPlan
from ensemble_tools.archive.backend_names import guess_backend
from ensemble_tools.archive.parser_messages import name_unknown_field
from ensemble_tools.archive.source_model import CONFIG_FILE
from ensemble_tools.serving.plan import PublishedModel
from serve.triton.diagnosis.model_errors import make_one_sentence


@dataclass(frozen=True)
class ModelsSide:
    """The Python and the backends that models run with, for messages."""

    python: str = "the Python that runs models"  # which one, and how another one is set
    backends: tuple[str, ...] = ()  # those that there are; none where they are not known
    #: Why tritonserver could not read a model's config, by its Triton name; its log alone says so.
    unread: Callable[[str], str] = lambda _: ""


#: "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: ValueError: boom\n\nAt:"
_REASON = re.compile(
    r"version -?\d+ is at UNAVAILABLE state: (?:[A-Z][a-z]+(?: [a-z]+)?: )?(?P<reason>.+)",
    re.DOTALL,
)
#: A step of several in one process says its name first.
_MODULE_LACKS = re.compile(
    r"(?:ModuleNotFoundError|ImportError): (?:the step [^:]*: )?No module named '(?P<name>[^'.]+)"
)
#: What is installed for a module that is not called like it. `merlin` of PyPI is another project.
_INSTALLED_AS = {
    "merlin": "merlin-systems and nvtabular",
    "nvtabular": "merlin-systems and nvtabular",
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
    "PIL": "Pillow",
    "cv2": "opencv-python-headless",
    "yaml": "PyYAML",
}
_MERLIN = "; or take an image with Merlin, or an export whose workflows are all compiled"
#: A base of the image (BASE_IMAGE of the Dockerfile) that has a backend, and its library in the
#: models' Python; Merlin's images have one framework each (docs/images.md).
_PYTORCH = "nvcr.io/nvidia/merlin/merlin-pytorch:23.12"
_TENSORFLOW = "nvcr.io/nvidia/merlin/merlin-tensorflow:23.12"
_TRITON = "nvcr.io/nvidia/tritonserver:25.02-py3"
_BASES = {
    "pytorch": _PYTORCH,
    "tensorflow": _TENSORFLOW,
    "fil": f"{_PYTORCH} or {_TENSORFLOW} on x86_64",
    "hps": f"{_PYTORCH} or {_TENSORFLOW}",
    **dict.fromkeys(("onnxruntime", "openvino", "dali", "tensorrt"), _TRITON),
    "vllm": "nvcr.io/nvidia/tritonserver:25.02-vllm-python-py3",
    "tensorrtllm": "nvcr.io/nvidia/tritonserver:25.02-trtllm-python-py3",
}
_LIBRARIES = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    **dict.fromkeys(("xgboost", "lightgbm", "treelite"), "fil"),
}
#: What a stand-in says of its library (container/backends).
_STAND_IN_LACKS = re.compile(r"needs (?P<name>\w+), which the models' Python does not have")
#: What NVTabular of before commit 08e0633 says of a workflow that was saved as graph.json.
_NO_PICKLE = re.compile(r"No such file or directory: '[^']*/workflow\.pkl'")
_BACKEND_LACKS = re.compile(
    r"unable to find (?:backend library for backend '(?P<new>[^']*)'"
    r"|'libtriton_(?P<old>\w+)\.so'|'(?P<middle>\w+)/model\.py').*",
    re.DOTALL,
)
#: Python names the file alone: "invalid syntax (model.py, line 1)".
_SYNTAX = re.compile(r"\((?P<file>\w+\.py), line (?P<line>\d+)\)")
#: The python backend, of a process that is gone.
_DIED = re.compile(r"Stub process '[^']*' is not healthy\.?;?")
#: It could not read config.pbtxt; why stands in its log alone.
_UNREAD = "failed to poll from model repository"
_NEWER = "; take it out, or serve it with a tritonserver that has it"
#: A platform that is newer than this tritonserver, or that does not go with the backend.
_NO_PAIR = re.compile(
    r"unexpected 'platform' and 'backend' pair, got: ?(?P<platform>.*), (?P<of>.*)"
)
_PLATFORMS_SINCE = {"torch_aoti": "NVIDIA's images from 26.03 on have it"}
#: What our own code puts in front. The step's name stands in front of this sentence, too, if it is
#: the one that failed.
_REFUSED = re.compile(r"^Refused: ")
_SAID_AGAIN = re.compile(r"^the step [^:]*: (?:failed to load model '[^']*': )?")
_CALLS, _CALLED = "\n\nAt:\n", re.compile(r" +(?P<path>\S+)\((?P<line>\d+)\): ")
_PATH, _PUBLISHED = re.compile(r"[^\s'\":()]+"), "/serving/"
#: A model in a namespace: behind the repository's path.
_IN_NAMESPACE = re.compile(r"(?<![^\s'\":])[^\s'\":]+::(?P<name>[^\s'\":,]+)")
#: What is said of an ensemble that cannot be made: the model's name stands in front of it already.
_SAID_BEFORE = re.compile(r"^load failed for model '[^']*': ")
_NO_VERSION = re.compile(r"whose required version (?P<version>-?\d+) is not loaded\.?")
#: Of a reason so many characters are looked at; a sentence has fewer of them.
_LONGEST_READ = 4096
#: Longer words of a library end here.
_LONGEST = 600


def load_failure_reason(message: str) -> str:
    """The innermost reason in the message of a failed load: for a model that raised, its error.

    The python backend sends the exception first and the frames after it; pb_utils' own exceptions
    carry a formatted traceback instead, whose last line is the exception.
    """
    match = _REASON.search(message)  # the first: what the model said comes behind it
    return make_one_sentence(match["reason"] if match else message)


def find_lacking_module(message: str) -> str:
    """Which module the models' Python has not, by tritonserver's message; empty for another one."""
    lacked = _MODULE_LACKS.search(load_failure_reason(message)[:_LONGEST_READ])
    return lacked["name"] if lacked else ""


def describe_load_error(
    plan: ServingPlan, message: str, models: ModelsSide, needed: str = ""
) -> str:
    """A sentence; message: tritonserver's, whole. needed: who needs the module that is lacking, and
    where it belongs, in words; empty where that is not known.
    """
    if _UNREAD in message and (unread := _explain_unread(plan, models)):
        return unread
    failing = _find_failing(plan, message)
    doubts = "; ".join(plan.doubts)
    if _UNREAD in message and doubts:
        return f"{_name(plan, failing)} failed to load: Triton cannot read its config: {doubts}"
    reason = _explain(plan, failing, load_failure_reason(message), models, needed)
    rest = f"; {doubts}" if doubts else ""
    whole = f"{_name(plan, failing)} failed to load: {reason}{_find_own_line(plan, message)}{rest}"
    return f"{whole}; see the log of the container for more"


def _explain_unread(plan: ServingPlan, models: ModelsSide) -> str:
    """The file, the field and what to do, in a sentence; empty where nothing is known."""
    unread = [(name, reason) for name in plan.source_names if (reason := models.unread(name))]
    if not unread:
        return ""
    name, reason = unread[0]
    file = f"{plan.source_names[name]}/{CONFIG_FILE}"
    at, _, rest = reason.partition(": ")
    line = at.partition(":")[0]
    if line.isdecimal():
        file, reason = f"{file}, line {line}", rest
    if pair := _NO_PAIR.match(reason):
        since = _PLATFORMS_SINCE.get(pair["platform"])
        reason = f"the platform {pair['platform']} is none of {pair['of']} in this tritonserver"
        reason += f"; {since}" if since and pair["of"] == "pytorch" else _NEWER
    if unknown := name_unknown_field(reason):
        is_slip = unknown.endswith("?")
        reason = unknown if is_slip else f"{unknown} in this tritonserver{_NEWER}"
    reason = _put_archives_paths(plan, reason).removesuffix(f" for {name}").rstrip(".")
    return f"{_name(plan, name)} failed to load: {file}: {reason}"


def _explain(plan: ServingPlan, failing: str, reason: str, models: ModelsSide, needed: str) -> str:
    reason = _put_archives_names(plan, _SAID_BEFORE.sub("", reason[:_LONGEST_READ]))
    if lacked := _NO_VERSION.search(reason):
        step = f"{reason[: lacked.start()]}whose version {lacked['version']} is not served"
        return (
            f"{step} (the latest alone is, unless its version_policy says otherwise): write "
            "`model_version: -1` into the step for the latest one"
        )
    if _DIED.fullmatch(reason):
        why = "the program ended it, or a library crashed on what the model's files hold"
        return f"its process ended while it loaded: {why} ({reason.rstrip('.')})"
    if _REFUSED.match(reason):
        reason = _REFUSED.sub("", reason)
        is_said = failing != plan.entry or "failed to load model" in reason
        reason = _SAID_AGAIN.sub("", reason) if is_said else reason
    if len(reason) > _LONGEST:
        reason = f"{reason[:_LONGEST]}…"
    if lacked := _MODULE_LACKS.search(reason):
        packages = _INSTALLED_AS.get(lacked["name"], "it")
        other = (
            _MERLIN
            if lacked["name"] in {"merlin", "nvtabular"}
            else _name_base_with(lacked["name"])
        )
        if needed:
            return f"{reason}; {needed}, or install {packages} into {models.python}{other}"
        is_known = lacked["name"] in _INSTALLED_AS or other
        if not is_known and (of := _find_reader(plan, failing)):
            other = f", or put it into the archive beside {of}"  # a function's
        return f"{reason}; install {packages} into {models.python}{other}"
    if lacked := _STAND_IN_LACKS.search(reason):
        return f"{reason}{_name_base_with(lacked['name'])}"
    if lacking := _BACKEND_LACKS.fullmatch(reason):
        there = f"; there are {', '.join(models.backends)}" if models.backends else ""
        backend = lacking["new"] or lacking["old"] or lacking["middle"]
        likely = guess_backend(backend)
        if likely != backend and likely in models.backends:
            return f'there is no backend {backend} here{there}; write `backend: "{likely}"`'
        meant = f" (did you mean {likely}?)" if likely and likely != backend else ""
        base = _BASES.get(likely or backend)
        named = f" (BASE_IMAGE={base})" if base else ""
        return (
            f"there is no backend {backend} here{meant}{there}; use an image of NVIDIA's that has "
            f"it{named}, or export the model for one of these"
        )
    model = _find_model(plan, failing)
    if model.json_workflow_path and _NO_PICKLE.search(reason):
        return (
            f"{model.source_name}/{model.json_workflow_path}/graph.json: NVTabular must run this "
            f"workflow ({model.not_compiled or 'workflows are not compiled here'}), and the one "
            "here knows no graph.json, which NVTabular reads from its commit 08e0633 (March 2026) "
            f"on; install that one into {models.python}"
        )
    version = next((name for name, _ in model.links if name.partition("/")[0].isdigit()), "1")
    directory = f"{model.source_name}/{version.partition('/')[0]}"
    return _SYNTAX.sub(lambda it: f"({directory}/{it['file']}, line {it['line']})", reason)


def _find_reader(plan: ServingPlan, failing: str) -> str:
    """Whose model.py reads names of functions, and finds modules beside itself; empty for none."""
    if _find_model(plan, failing).json_workflow_path:
        return "the step's model.py"
    if plan.form is Form.EXECUTOR and failing == plan.entry:
        return "the executor's model.py"
    return ""


def _name_base_with(library: str) -> str:
    """The end of a sentence that names a base with the library; empty where none is known."""
    backend = _LIBRARIES.get(library)
    return f"; or build the image on {_BASES[backend]}, which has it" if backend else ""


def _put_archives_names(plan: ServingPlan, reason: str) -> str:
    """Models and paths as the archive has them."""
    names = plan.source_names
    plain = _IN_NAMESPACE.sub(lambda it: names.get(it["name"], it["name"]), reason)
    for published, source in names.items():
        plain = plain.replace(f"'{published}'", f"'{source}'")
    return _put_archives_paths(plan, plain)


def _put_archives_paths(plan: ServingPlan, reason: str) -> str:
    """A path of the serving repository as the archive has it: below its model's directory.

    A model may say whatever it likes, and is read once: what looks like a path is taken apart.
    """
    names, in_copy = plan.source_names, _in_copy(plan)

    def shorten(match: re.Match[str]) -> str:
        if copied := in_copy.match(match[0]):
            return match[0][copied.end() :]
        _, is_published, below = match[0].partition(_PUBLISHED)
        parts = below.split("/")
        at = max((n for n, part in enumerate(parts[:-1]) if part in names), default=-1)
        if not is_published or at < 0:
            return match[0]
        return "/".join((names[parts[at]], *parts[at + 1 :]))

    return _PATH.sub(shorten, reason)


def _in_copy(plan: ServingPlan) -> re.Pattern[str]:
    """A path in the copy of the archive's layout: behind it the names are the archive's."""
    return re.compile(rf".*?/{LAYOUT_PREFIX}\w{{8}}/{re.escape(plan.entry)}/")


def _find_own_line(plan: ServingPlan, message: str) -> str:
    """The archive's own line that raised, as the python backend lists them: the last call first."""
    lines = message.partition(_CALLS)[2][:_LONGEST_READ].splitlines()
    calls = [called for line in lines if (called := _CALLED.match(line))]
    in_copy = _in_copy(plan)
    own = [called for called in calls if in_copy.match(called["path"])]
    generated = {it.triton_name for it in plan.everything if it.runs_own_code}
    published = [
        called
        for called in calls
        if called["path"].partition(_PUBLISHED)[2].partition("/")[0] not in {"", *generated}
    ]
    for called in own or published:
        return f" ({_put_archives_paths(plan, called['path'])}, line {called['line']})"
    return ""


def _find_failing(plan: ServingPlan, message: str) -> str:
    """The Triton name of the model that the message is about."""
    for triton_name in plan.source_names:
        # In a namespace a name stands behind the repository's path: '/repository::name'.
        named = f"'{triton_name}'" in message or f"::{triton_name}'" in message
        if triton_name != plan.entry and named:
            return triton_name
    return plan.entry


def _find_model(plan: ServingPlan, triton_name: str) -> PublishedModel:
    return next(it for it in plan.everything if it.triton_name == triton_name)


def _name(plan: ServingPlan, failing: str) -> str:
    if failing == plan.entry:
        return f"the model {plan.model_name}"
    part = "called model" if failing in plan.called else "step"
    return f"the {part} {plan.source_names[failing]} of the model {plan.model_name}"
