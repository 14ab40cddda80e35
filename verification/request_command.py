"""python -m ensemble_tools request: writes a request that an archive answers, and the call."""

from __future__ import annotations

from ensemble_tools.command_start import start_command
from ensemble_tools.signals import reader_is_gone, to_the_end

if __name__ == "__main__":
    start_command("python -m ensemble_tools request", "tools")

# What follows takes a while to import.

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ensemble_tools import EnsembleToolsError, Namespace
from ensemble_tools.answers.exchange import TensorRequest
from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.commands.atomic_output import write_file
from ensemble_tools.commands.path_argument import add_path, open_path
from ensemble_tools.errors import printable, sentence_of
from ensemble_tools.serving.opened_archive import read_archive, require_plan
from verification.comparing.forms import label_operators
from verification.errors import (
    Decoupled,
    FormUnfit,
    NothingDeclared,
    NothingToAsk,
    TooManyValues,
    VerificationError,
)
from verification.requests.category_files import find_category_files, read_categories
from verification.requests.columns import (
    count_values,
    find_fitting,
    find_unsupported,
    read_input_columns,
    to_v2_type,
)
from verification.requests.generation import make_generator
from verification.requests.request_bodies import (
    Body,
    make_binary,
    make_json,
    write_boto3,
    write_curl,
)
from verification.requests.request_file import REQUESTS_HELP, parse_requests, read_requests

WRITTEN, REFUSED = 0, 1
#: What JSON carries none of, by Triton's parser.
_BINARY_ONLY = ("FP16", "BF16")
MOST_ROWS = 1_000_000
#: What no name has by which a container loads a model.
_UNUSABLE = re.compile(r"[^A-Za-z0-9_.-]")
_USUAL_ROWS = 5
_CONTAINER = "http://localhost:8080"
#: Of a request; 64 MB, a container's bound, hold no more numbers of one byte.
_MOST_VALUES = 64 * 1024 * 1024
#: An operator that takes one row, and repeats it for each candidate (merlin-systems 23.08).
_ONE_ROW = frozenset({"UnrollFeatures"})

_DESCRIPTION = """\
Write a request of the v2 inference protocol for the model that is invoked: every input that it
declares, with categories that the archive's NVTabular workflows know, and with lists of one length.
Nothing is loaded or run, so that a model of your own may still refuse such values. The same archive
and options give the same request. --requests takes one of your own, or of a data capture, instead.

--curl and --boto3 print a call that sends the written file: to a container on this machine, or to
a multi-model endpoint of SageMaker, real or played by `python -m simulator up`.
"""
_EPILOG = """\
exit codes:
  0    written
  1    no request can be made, or a file cannot be read or written; the reason is printed
  2    misuse
  130  after Ctrl-C
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; its exit code."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    if (options.curl or options.boto3) and options.output is None:
        parser.error("--curl and --boto3 name the file of the request: give it with -o FILE")
    if options.rows and options.requests:
        parser.error("--rows is for a request that is made: give it without --requests")
    if options.binary and options.output is None and sys.stdout.isatty():
        parser.error("the binary form is no text for a terminal: name a file with -o")
    try:
        _write(options, make_body(options))
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_is_gone()
    except (VerificationError, EnsembleToolsError, OSError) as error:
        print(printable(f"error: {sentence_of(error)}"), file=sys.stderr)
        return REFUSED
    return WRITTEN


def make_body(options: argparse.Namespace) -> Body:
    """A request for what is at the path. Raises EnsembleToolsError, VerificationError, OSError."""
    with open_path(options.path) as directory:
        archive = read_archive(directory, "model", strict=False)
        require_plan(archive)
        repository = archive.repository
        config = repository.entry.config
        if options.requests is None:
            request = _make_request(repository, options.rows or _read_usual_rows(archive.graph))
        else:
            request = _take_request(options, config)
        if options.binary:
            return make_binary(request)
        if config is not None:
            _check_json(config, repository.entry.config_path)
        return make_json(request)


def _take_request(options: argparse.Namespace, config: ModelConfig | None) -> TensorRequest:
    """The first that has the archive's inputs."""
    requests = read_requests(options.requests)
    advice = "give requests of this archive"
    return find_fitting(requests, config, options.requests, str(options.path), advice)[0]


def _read_usual_rows(graph: ExecutorGraph | None) -> int:
    labels = label_operators(graph, set()) if graph is not None else ()
    return 1 if _ONE_ROW.intersection(labels) else _USUAL_ROWS


def _make_request(repository: ModelRepository, rows: int) -> TensorRequest:
    entry = repository.entry
    if entry.config is None or not entry.config.inputs:
        raise NothingDeclared(entry.config_path)
    if entry.config.message.model_transaction_policy.decoupled:
        raise Decoupled(entry.config_path)
    columns = read_input_columns(entry.config)
    if unknown := find_unsupported(columns):
        raise NothingToAsk(entry.config_path, unknown)
    categories = read_categories(find_category_files(repository), Path(sys.executable))
    configs = [model.config for model in repository.models.values() if model.config]
    generator = make_generator(columns, configs, categories)
    rows = min(rows, entry.config.max_batch_size or rows)
    values = sum(count_values(column, rows, generator.lengths[0]) for column in columns)
    if values > _MOST_VALUES:
        raise TooManyValues(entry.config_path, values, _MOST_VALUES)
    return generator.make_likely(rows)


def _check_json(config: ModelConfig, path: Path) -> None:
    for tensor in (*config.inputs.values(), *config.outputs.values()):
        data_type = to_v2_type(tensor.data_type)
        if data_type in _BINARY_ONLY:
            raise FormUnfit(path, tensor.name, data_type)


def _write(options: argparse.Namespace, body: Body) -> None:
    """Raises IllegalName for a name that a container takes from nobody, before a file is there."""
    if options.curl and options.model_name:
        Namespace(options.model_name)
    if options.output is None:
        sys.stdout.buffer.write(body.content)
        return
    write_file(options.output, body.content)
    name = options.model_name or options.path.absolute().name.split(".")[0] or "model"
    if options.curl:
        loaded = options.model_name or _UNUSABLE.sub("_", name)
        print(write_curl(body, options.output, loaded, options.url or _CONTAINER))
    if options.boto3:
        print(write_boto3(body, options.output, name, options.endpoint_name, options.url))
    if not options.curl and not options.boto3:
        print(f"{options.output}  {len(body.content)} bytes, Content-Type: {body.content_type}")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools request",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_path(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to FILE, whole or not at all, instead of standard output",
    )
    parser.add_argument(
        "--rows",
        type=_parse_rows,
        metavar="N",
        help="rows of the request, fewer where the model's max_batch_size is below that "
        f"(default: {_USUAL_ROWS}; 1 where candidates are unrolled beside one user)",
    )
    parser.add_argument(
        "--requests",
        type=parse_requests,
        metavar="FILE|DIR",
        help="take the first request with the model's inputs from there in the place of a made "
        f"one. {REQUESTS_HELP}",
    )
    parser.add_argument(
        "--binary",
        action="store_true",
        help="SageMaker's binary form, a JSON head and the tensors' bytes, in the place of JSON; "
        "FP16 needs it. The answer is binary, too",
    )
    parser.add_argument("--curl", action="store_true", help="print the call of curl")
    parser.add_argument("--boto3", action="store_true", help="print the call of boto3, in Python")
    parser.add_argument(
        "--model-name",
        metavar="NAME",
        help="the model's name in the call (default: that of the archive, without its ending)",
    )
    parser.add_argument(
        "--endpoint-name", default="ENDPOINT", metavar="NAME", help="the endpoint's, for --boto3"
    )
    parser.add_argument(
        "--url",
        help=f"where the container answers, for --curl (default: {_CONTAINER}); or the simulator, "
        "for --boto3, which else asks AWS",
    )
    return parser


def _parse_rows(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MOST_ROWS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 to {MOST_ROWS}")


if __name__ == "__main__":
    sys.exit(to_the_end(main))
