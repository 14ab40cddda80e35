"""An answer that comes token by token: what streams, what ends a stream early, and what it frees.

    .venv/bin/python -m examples.streaming

A decoupled model generates text on a single-model endpoint with generate_stream, and is asked by
boto3's invoke_endpoint_with_response_stream. Every token is compared with the generator's own.
Exit code 0 only if all are equal and in order, the first came long before the last, a caller who
left freed the model, and errors came as errors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from botocore.exceptions import ClientError, EventStreamError, ParamValidationError

from examples.story import Endpoint, endpoint, pack, step, tell

REPOSITORY = Path(__file__).parent / "repository"
PROMPT = "what is new"
#: Tokens of a whole answer, and milliseconds that each takes.
WHOLE, PACE, SLOW, SLOWEST = 32, 50, 250, 1000
LEFT_AFTER, TOO_MANY = 3, 40
#: How long an answer may take: 8 minutes for a stream on SageMaker.
LIMIT_S = 4
_EVENT = b"data: "


@dataclass
class Stream:
    """What came of one answer, and when, in seconds since it was asked for.

    told: the model's own error, which comes as a part. ended: the exception that ended the stream.
    """

    tokens: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    told: str = ""
    ended: str = ""


class Teller:
    """Asks, prints a line of each, and remembers whether all was as it should be."""

    def __init__(self, running: Endpoint) -> None:
        self._running, self._chain = running, load_chain()
        self.same = self.good = True

    def whole(self) -> None:
        """The first token is there long before the last."""
        stream = self._read(WHOLE, PACE)
        first, last = stream.at[0], stream.at[-1]
        print(f"  stream: first token after {first:.2f} s, the last after {last:.2f} s")
        print(f"    {' '.join(stream.tokens)}")
        self.good &= first < last / 2

    def at_once(self) -> None:
        """InvokeEndpoint gives the same when all is there."""
        answer = self._running.invoke(None, _make_body(WHOLE, PACE))
        tokens = [event["token"] for event in _events(answer.body.splitlines())]
        self._compare(tokens, WHOLE)
        print(f"  InvokeEndpoint: all {len(tokens)} tokens after {answer.seconds:.2f} s")

    def leave(self) -> None:
        """A caller leaves in the middle, and the model is free for the next one."""
        self._read(WHOLE, SLOW, leave_after=LEFT_AFTER)
        rest_s = (WHOLE - LEFT_AFTER) * SLOW / 1000
        following = self._read(1, PACE)
        print(f"  a caller leaves after {LEFT_AFTER} tokens, {rest_s:.1f} s before the last one")
        print(f"    the next caller's first token after {following.at[0]:.2f} s")
        self.good &= following.at[0] < rest_s / 2

    def model_fails(self) -> None:
        """The model's own error is one more part."""
        stream = self._read(TOO_MANY, PACE)
        print(f"  the model fails: {len(stream.tokens)} tokens, then the error “{stream.told}”")
        self.good &= bool(stream.told) and not stream.ended

    def stream_fails(self) -> None:
        """What the platform ends is an exception of the stream."""
        stream = self._read(WHOLE, SLOWEST)
        print(f"  longer than {LIMIT_S} s: {len(stream.tokens)} tokens, then {stream.ended}")
        self.good &= stream.ended.startswith("ModelStreamError") and not stream.told

    def refused(self) -> None:
        """What is wrong before the first token is an error of the call."""
        try:
            self._running.stream(json.dumps({"prompt": PROMPT}).encode())
        except ClientError as error:
            found, status = error.response["Error"]["Code"], error.response["OriginalStatusCode"]
            print(f"  a request that lacks inputs: {found}, status {status} of the container")
            self.good &= (found, status) == ("ModelError", 400)
        else:
            self.good = False

    def name_a_model(self) -> None:
        """A stream has no target model: boto3 knows no such parameter."""
        try:
            self._running.stream(_make_body(1, PACE), TargetModel="tokens.tar.gz")
        except ParamValidationError as error:
            print(f"  with TargetModel: {str(error).splitlines()[1].split(',')[0]}")
        else:
            self.good = False

    def _read(self, most: int, pace: int, leave_after: int | None = None) -> Stream:
        stream, began = Stream(), time.perf_counter()
        parts = self._running.stream(_make_body(most, pace))
        try:
            for event in _events(_lines(part["PayloadPart"]["Bytes"] for part in parts)):
                if "error" in event:
                    stream.told = event["error"]
                    continue
                stream.tokens.append(event["token"])
                stream.at.append(time.perf_counter() - began)
                if len(stream.tokens) == leave_after:
                    break
        except EventStreamError as error:
            found = error.response["Error"]
            stream.ended = f"{found['Code']}: {found['Message'].split('.')[0]}"
        finally:
            parts.close()
        cut = leave_after is not None or stream.ended
        self._compare(stream.tokens, len(stream.tokens) if cut else min(most, self._chain.CONTEXT))
        return stream

    def _compare(self, tokens: Sequence[str], count: int) -> None:
        if list(tokens) != list(self._chain.generate(PROMPT, count)):
            self.same = False
            print(f"  DIFFERS: {' '.join(tokens)}")


def load_chain() -> ModuleType:
    """The model's generator, read from the archive's own file."""
    spec = spec_from_file_location("chain", REPOSITORY / "tokens/1/chain.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _make_body(most: int, pace: int) -> bytes:
    return json.dumps({"prompt": PROMPT, "most": most, "pace": pace}).encode()


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """A part may end anywhere in a line, and have several."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    yield rest


def _events(lines: Iterator[bytes] | Sequence[bytes]) -> Iterator[dict[str, str]]:
    """Of server-sent events, the data."""
    for line in lines:
        if line.startswith(_EVENT):
            yield json.loads(line[len(_EVENT) :])


def story(scratch: Path) -> bool:
    """Whether tokens, times and errors were as they should be."""
    with step("the archive is packed"):
        pack(REPOSITORY, scratch / "archives/tokens.tar.gz")
    # On AWS a member of CreateModel's Environment.
    os.environ["SAGEMAKER_TRITON_INFERENCE_TYPE"] = "generate_stream"
    options = ("--single-model", "tokens.tar.gz", "--invoke-timeout", str(LIMIT_S))
    with endpoint(scratch / "archives", scratch, *options) as running:
        teller = Teller(running)
        teller.whole()
        teller.at_once()
        teller.leave()
        teller.model_fails()
        teller.stream_fails()
        teller.refused()
        teller.name_a_model()
    print("All tokens are the generator's own, in order." if teller.same else "The tokens DIFFER.")
    if not teller.good:
        print("What came was not as it should be: see above.")
    return teller.same and teller.good


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.streaming",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    return tell(story)


if __name__ == "__main__":
    sys.exit(main())
