"""Random requests over raw sockets to one container, and whether it stands and tells the truth.

    .venv/bin/python -m tests.reliability.fuzz_http --count N --seed S [--keep DIR] [--out DIR]
    .venv/bin/python -m tests.reliability.fuzz_http --replay FILE...

Connections are kept alive. Held of every request: tritonserver does not die of it; it is not
answered with a 5xx; the values of a 200 are those that the request says, read independently
(reading.py; where the protocol leaves it open they are counted as not judged); what the protocol
says is wrong is refused, what it says is right is not; every error is the contract's JSON. What
fails is kept in DIR, made smaller, and can be sent again. Exit code 0: nothing fails.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import signal
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from container.constants import Constants
from tests.reliability.attacked import Attacked, attacked
from tests.reliability.corpus.hostile_requests import everything
from tests.reliability.random_requests import MODELS, Case, Request, case, from_json
from tests.reliability.reading import Reading, answered
from tests.reliability.reports import Report, Table
from tests.reliability.wire import Answer, NoAnswer, Wire, asked, request
from tests.support.container import until
from tests.support.models import write_archive
from tests.support.protocol import infer
from tests.support.quick_container import told

CONNECTIONS = 4
#: What takes longer hangs: over the container's own limit of an invocation.
PATIENCE_S = 45.0
_ENVIRONMENT = {
    "SERVE_INVOKE_TIMEOUT": "30",
    # Deaths are this program's to count; the container is to stand long enough for it.
    **told(Constants(restart_limit=1000)),
}
#: A dying process is not dead at once.
_DIES_WITHIN_S = 0.6
_BACK_WITHIN_S = 60.0
#: Of one kind of failure so many files are kept.
_KEPT_OF_A_KIND = 3
_MOST_DEATHS = 10
_TRIES_TO_SHRINK = 60


@dataclass(frozen=True)
class Failure:
    """kind: what it has in common with others; case: as small as it was made."""

    kind: str
    said: str
    case: Case


@dataclass
class Score:
    """What the answers were."""

    requests: int = 0
    judged: int = 0
    refused: int = 0
    open: int = 0
    no_answer: int = 0
    lost_to_deaths: int = 0
    deaths: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    traits: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


# -- one case


def judge(reading: Reading, answer: Answer, method: str = "POST") -> str | None:
    """What is wrong with the answer, or None."""
    if answer.status >= 500:
        return f"a {answer.status}"
    if answer.status == 200:
        return _judge_values(reading, answer)
    if answer.status < 400:
        return f"a {answer.status}"
    if reading.must == "take":
        return "refused what is right"
    return None if method == "HEAD" else _complained(answer)


def _complained(answer: Answer) -> str | None:
    wrong = answer.complaint()
    return f"a {answer.status} that is not the contract's: {wrong}" if wrong else None


def _judge_values(reading: Reading, answer: Answer) -> str | None:
    if reading.must == "refuse":
        return f"took what is wrong ({reading.why})"
    if reading.outputs is None:
        return None
    try:
        found, given_id = answered(answer.headers, answer.body)
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        return f"an answer that cannot be read ({type(error).__name__})"
    if found != dict(reading.outputs):
        return "wrong values"
    return "another id" if reading.id and given_id != reading.id else None


def sent(wire: Wire, one: Case) -> Iterator[tuple[Request, Reading, Answer]]:
    """Send it and yield each answer beside its reading; raises NoAnswer.

    Answers that nobody can be sure of, after bytes that are no request, are not waited for.
    """
    raw = b"".join(each.render() for each in one.requests)
    step = max(1, -(-len(raw) // one.cuts))
    pieces = [raw[place : place + step] for place in range(0, len(raw), step)]
    wire.send(pieces, 0.001)
    if one.ending == "close":
        wire.close()
        return
    if one.ending == "half_close":
        wire.half_close()
    for each in one.requests:
        yield each, each.reading(), wire.answer(each.method)


class Sender:
    """One connection, and what is made of what comes back on it."""

    def __init__(self, port: int) -> None:
        self.wire = Wire(port, PATIENCE_S)

    def failure(self, one: Case, score: Score) -> str | None:
        """Send the case, count its answers; what is wrong, or None."""
        wrong = None
        try:
            for each, reading, answer in sent(self.wire, one):
                self._count(score, reading, answer)
                wrong = wrong or judge(reading, answer, each.method)
        except NoAnswer as error:
            score.no_answer += 1
            wrong = wrong or _silence(one, error)
            self.wire.close()
        except OSError as error:
            wrong = wrong or f"no connection ({error.strerror})"
            self.wire.close()
        if one.ending != "keep":
            self.wire.close()
        elif not self.wire.is_silent():
            self.wire.close()
            wrong = wrong or "more answers than requests"
        return wrong

    def _count(self, score: Score, reading: Reading, answer: Answer) -> None:
        score.statuses[answer.status] += 1
        if answer.status == 200 and reading.outputs is not None:
            score.judged += 1
        elif reading.must == "either":
            score.open += 1
        else:
            score.refused += 1


def _silence(one: Case, error: NoAnswer) -> str | None:
    """Nothing said is right where no whole request was sent, or bytes that are no HTTP."""
    if error.said.startswith("nothing for"):
        return "no answer in time"
    if error.said.startswith("no HTTP"):
        return "an answer that is no HTTP"
    certain = all(each.reading().must != "either" for each in one.requests)
    return f"no answer ({error.said})" if certain else None


# -- all of them


class Fuzz:
    """Some connections at once to one container, which is healed and asked who killed it."""

    def __init__(self, server: Attacked, say: Callable[[str], None]) -> None:
        self.server, self.score = server, Score()
        self._say = say
        self._lock = threading.Lock()
        self._in_flight: dict[int, Case] = {}
        self._triton = server.triton()
        self._generation = 0
        self._over = False

    def run(self, seed: int, first: int, count: int) -> None:
        """Send the cases of these numbers."""
        numbers = iter(range(first, first + count))
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            try:
                list(pool.map(lambda place: self._work(place, seed, numbers), range(CONNECTIONS)))
            finally:  # one that fails, or a signal, ends all
                self._over = True
        with self._lock:  # what died of the last ones
            self._has_died()

    def _work(self, place: int, seed: int, numbers: Iterator[int]) -> None:
        sender, own = Sender(self.server.port), Score()
        while not self._over:
            with self._lock:
                number = next(numbers, None)
                self._merge(own)
                own = Score()
                generation = self._generation
            if number is None:
                break
            one = case(seed, number)
            own.traits[one.trait.partition(":")[0]] += 1
            own.requests += len(one.requests)
            self._in_flight[place] = one
            wrong = sender.failure(one, own)
            del self._in_flight[place]
            if wrong:
                self._look(one, wrong, generation, own)
        sender.wire.close()
        with self._lock:
            self._merge(own)

    def _look(self, one: Case, wrong: str, generation: int, own: Score) -> None:
        """Was it this request, or a death that another one caused?"""
        with self._lock:
            sick = wrong.startswith(("a 5", "no answer", "no connection"))
            if sick and (generation != self._generation or self._has_died(one)):
                own.lost_to_deaths += 1
                return
            self._fail(wrong, wrong, one)

    def _has_died(self, one: Case | None = None) -> bool:
        """Whether tritonserver, or all of the container, has; then it is back when this returns."""
        deadline = time.monotonic() + _DIES_WITHIN_S
        while not self.server.has_ended and self.server.triton() == self._triton:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        suspects = list(
            {each.number: each for each in (*self._in_flight.values(), one) if each}.values()
        )
        self._generation += 1
        self.score.deaths += 1
        if self._is_back():
            self._find(suspects)
        if self.score.deaths >= _MOST_DEATHS or self.server.has_ended:
            self._over = True
        return True

    def _find(self, suspects: list[Case]) -> None:
        """Send each alone: who kills again did it."""
        found = [one for one in suspects if self._kills(one)]
        for one in found:
            self._fail("tritonserver dies", "tritonserver dies of it, sent alone", one)
        if not found:
            said = f"one of the cases {[one.number for one in suspects]}, none when sent alone"
            self._fail("tritonserver dies", said, suspects[0])

    def _kills(self, one: Case) -> bool:
        sender = Sender(self.server.port)
        sender.wire = Wire(self.server.port, PATIENCE_S)
        sender.failure(one, Score())
        sender.wire.close()
        deadline = time.monotonic() + _DIES_WITHIN_S
        while self.server.triton() == self._triton and not self.server.has_ended:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        self._is_back()
        return True

    def _is_back(self) -> bool:
        """Wait until both models answer again."""
        self.server.trim_log()
        with contextlib.suppress(AssertionError):
            until(
                lambda: self.server.has_ended or _answers(self.server.port),
                "back",
                None,
                _BACK_WITHIN_S,
            )
        self._triton = self.server.triton()
        return not self.server.has_ended

    def _fail(self, kind: str, said: str, one: Case) -> None:
        self.score.kinds[kind] += 1
        if self.score.kinds[kind] > _KEPT_OF_A_KIND:
            return
        if not kind.startswith(("tritonserver", "no answer in time")):
            one = smaller(one, lambda less: self._fails(less) == kind)
        self.score.failures.append(Failure(kind, said, one))
        self._say(f"case {one.number} ({one.trait}): {said}")

    def _fails(self, one: Case) -> str | None:
        sender = Sender(self.server.port)
        try:
            return sender.failure(one, Score())
        finally:
            sender.wire.close()

    def _merge(self, own: Score) -> None:
        score = self.score
        before = score.requests
        for name in ("requests", "judged", "refused", "open", "no_answer", "lost_to_deaths"):
            setattr(score, name, getattr(score, name) + getattr(own, name))
        score.statuses += own.statuses
        score.traits += own.traits
        if before // 10_000 != score.requests // 10_000:
            self._say(f"{score.requests} requests, {sum(score.kinds.values())} failures")


def _answers(port: int) -> bool:
    text = json.dumps(infer([1.0], "IN_FP32")).encode()
    try:
        paths = ("/models/flat/invoke",)
        return all(asked(port, request(path, text), 5.0).status == 200 for path in paths)
    except NoAnswer:
        return False


# -- smaller


def smaller(one: Case, fails: Callable[[Case], bool]) -> Case:
    """The case with less in it that still fails alike, found in some tens of tries."""
    tries = iter(range(_TRIES_TO_SHRINK))
    if not fails(one):
        return one  # it needs what was before it on its connection
    found = True
    while found:
        found = False
        for less in _lesser(one):
            if next(tries, None) is None:
                return one
            if fails(less):
                one, found = less, True
                break
    return one


def _lesser(one: Case) -> Iterator[Case]:
    """Each a little less than it is."""
    for place in range(len(one.requests)):
        if len(one.requests) > 1:
            yield replace(one, requests=one.requests[:place] + one.requests[place + 1 :])
    if one.cuts > 1:
        yield replace(one, cuts=1)
    for place, each in enumerate(one.requests):
        for less in _lesser_requests(each):
            yield replace(one, requests=(*one.requests[:place], less, *one.requests[place + 1 :]))


def _lesser_requests(one: Request) -> Iterator[Request]:
    for place in range(len(one.headers)):
        yield replace(one, headers=one.headers[:place] + one.headers[place + 1 :])
    if one.chunks:
        yield replace(one, chunks=None)
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(one.body)
        for less in _lesser_documents(document):
            yield replace(one, body=json.dumps(less).encode())


def _lesser_documents(document: object) -> Iterator[object]:
    """With one key or one element less, anywhere."""
    count = sum(1 for _ in _places(document))
    for number in range(min(count, 200)):
        copied = copy.deepcopy(document)
        holder, key = next(each for place, each in enumerate(_places(copied)) if place == number)
        del holder[key]
        yield copied


def _places(value: object) -> Iterator[tuple[dict[object, object], object]]:
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key  # type: ignore[misc]  # lists take their indices like keys
            yield from _places(value[key])


# -- the program


def report(score: Score, seconds: float) -> Report:
    """What was sent, what came, and what should not have."""
    answered_with = ", ".join(
        f"{count:,} of status {status}" for status, count in sorted(score.statuses.items())
    )
    summary = (
        f"{score.requests:,} requests in {seconds:.0f} s ({score.requests / seconds:,.0f}/s):"
        f" {answered_with}; values of {score.judged:,} judged, {score.refused:,} rightly refused or"
        f" wrongly not, {score.open:,} not judged; {score.deaths} deaths of tritonserver"
    )
    kinds = tuple((kind, f"{count:,}") for kind, count in score.kinds.most_common())
    failures = tuple(f"{count:,} times: {kind}" for kind, count in score.kinds.most_common())
    traits = tuple((trait, f"{count:,}") for trait, count in sorted(score.traits.items()))
    facts = {
        "requests": score.requests,
        "per_second": round(score.requests / seconds),
        "statuses": score.statuses,
        "judged": score.judged,
        "not_judged": score.open,
        "deaths": score.deaths,
        "lost_to_deaths": score.lost_to_deaths,
        "kinds": score.kinds,
        "traits": score.traits,
    }
    tables = (
        Table("Sent", ("cases", "number"), traits),
        Table("Failures", ("kind", "times"), kinds),
    )
    return Report("fuzz-http", summary, failures, tables, facts)


@contextlib.contextmanager
def fuzzed(directory: Path) -> Iterator[Attacked]:
    """A container with the identities of MODELS."""
    with attacked(directory, environment=_ENVIRONMENT) as server:
        for name, rank in MODELS.items():
            dims = f"[{', '.join(['-1'] * rank)}]"
            path = server.container.model_root / name / "model"
            answer = server.container.load(name, write_archive(path, {name: everything(dims)}))
            assert answer.status_code == 200, answer.text
        yield server


def fuzz(
    directory: Path, seed: int, first: int, count: int, say: Callable[[str], None] = print
) -> tuple[Report, list[Failure]]:
    """Cases first to first + count of the seed; the container's end belongs to it."""
    with fuzzed(directory) as server:
        run = Fuzz(server, say)
        started = time.monotonic()
        run.run(seed, first, count)
        found = report(run.score, time.monotonic() - started)
        ended = server.last_words() if server.has_ended else server.end()
    if ended:
        found = replace(found, failures=(*found.failures, f"the container ended: {ended}"))
    return found, run.score.failures


def keep(directory: Path, seed: int, failure: Failure) -> None:
    """A file that --replay takes."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{seed}-{failure.case.number}.json"
    described = {"kind": failure.kind, "said": failure.said, **failure.case.as_json()}
    path.write_text(json.dumps(described, indent=1))


def replay(directory: Path, files: list[Path]) -> int:
    """Send each kept case alone, print what came; the number of those that fail."""
    failed = 0
    for place, path in enumerate(files):
        one = from_json(json.loads(path.read_text()))
        with fuzzed(directory / str(place)) as server:
            before, wire = server.triton(), Wire(server.port, PATIENCE_S)
            wrong = Sender(server.port).failure(one, Score())
            with contextlib.suppress(NoAnswer, OSError):
                for each, reading, answer in sent(wire, one):
                    print(f"  sent {each.render()[:300]!r}\n  which says {reading}")
                    print(f"  answer {answer.status} {answer.body[:300]!r}")
            wire.close()
            time.sleep(_DIES_WITHIN_S)
            wrong = "tritonserver dies" if server.triton() != before else wrong
        failed += wrong is not None
        print(f"{path}: {wrong or 'holds'}")
    return failed


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(tempfile.gettempdir())
    parser.add_argument("--count", type=int, default=100_000, help="cases; some are more requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--keep", type=Path, default=here / "fuzz-http")
    parser.add_argument("--out", type=Path, default=here / "reliability")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="fuzz-http-") as work:
        if arguments.replay:
            return 1 if replay(Path(work), arguments.replay) else 0
        found, failures = fuzz(Path(work), arguments.seed, arguments.first, arguments.count)
    for failure in failures:
        keep(arguments.keep, arguments.seed, failure)
    found.write(arguments.out)
    print(f"\n{found.text()}")
    if failures:
        print(f"\nkept in {arguments.keep}; send one again with --replay")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
