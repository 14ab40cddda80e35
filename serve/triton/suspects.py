"""Who may have killed tritonserver, and who did. No I/O.

When tritonserver dies, whatever was in it is a suspect: a request by the hash of its model and its
bytes, a load by the model's name and its archive. One that is answered is cleared. One that is in
tritonserver at a second death is the culprit, and is refused from then on.

So that innocents are not condemned for having been there twice, a suspect goes alone: no other
suspect is in tritonserver beside it (trials.py). Then at most one of those that are there at a
death was there at another. Where that does not hold (a request whose caller gave up may still be
worked on), each of them is condemned at its third death only.

Costs nothing but a set while tritonserver lives: hashes are made at a death; of requests that were
given up, since their bodies are not kept, of long ones elsewhere (`hash_later`); and while anyone
is known, of requests that are as long as a known one.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from hashlib import blake2b
from math import inf

from ensemble_tools import drop_number
from serve.errors import ModelUnusable, RequestRefused, ServeError, shortened

#: How long suspects and refused requests are remembered; refused loads are for good.
REMEMBERED_S = 3600.0
#: Most suspects, most culprits, and most works that were lost sight of; the oldest are forgotten.
MOST = 10_000
#: A connection that broke up to so long before a death is known was in flight at that death: the
#: kernel closes a dying process's connections some ms before its parent is told.
BROKEN_S = 10.0
#: tritonserver may go on so long with a request whose caller gave up: the limit of an invocation.
ABANDONED_S = 60.0
#: Deaths after which one is condemned that was never in tritonserver as the only suspect.
DEATHS_IN_COMPANY = 3
_DIGEST_BYTES = 16
#: A body up to so many bytes is hashed where it is: a quarter of a millisecond.
_SHORT = 256 * 1024
#: Bodies that wait for being hashed elsewhere have so many bytes at most; one more is hashed where
#: it is.
MOST_UNHASHED = 256 * 1024 * 1024
#: Old entries are looked for at most this often, in seconds.
_LOOK_S = 1.0


class RequestWork:
    """An inference request: its path, which names the model, and its body as tritonserver gets it.

    Like a load it is equal only to itself. What has equal keys may be guilty of the same; `mark` is
    equal then, too, and cheap to tell. refused_s: how long it is refused once it is the culprit.

    The body is read when a key is asked for; it must not change as long as the request is there,
    or until `end`, which is its last word.
    """

    __slots__ = ("_body", "_full_path")
    refused_s = REMEMBERED_S

    def __init__(self, path: bytes, body: Sequence[bytes]) -> None:
        self._full_path = path
        self._body: Sequence[bytes] | None = body

    @property
    def _path(self) -> bytes:
        """That of each model of this name: one that came back is asked in its predecessor's."""
        return drop_number(self._full_path.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )

    @property
    def is_over(self) -> bool:
        """Whether its body is gone."""
        return self._body is None

    def end(self) -> None:
        """Let the body go."""
        self._body = None

    @property
    def mark(self) -> object:
        """Its model and its length."""
        return self._path, self.size

    def key(self) -> bytes:
        """A hash of its model and its bytes; about a ms for each MB."""
        digest = blake2b(self._path + b"\0", digest_size=_DIGEST_BYTES)
        for piece in self._body or ():
            digest.update(piece)
        return digest.digest()

    def __str__(self) -> str:
        return f"a request of {self.size} bytes to {self._path.decode(errors='replace')}"

    @property
    def size(self) -> int:
        """Of its body."""
        return sum(map(len, self._body or ()))

    def refused(self) -> ServeError:
        """The caller's fault."""
        return RequestRefused(REMEMBERED_S)


class LoadWork:
    """The load of a model from an archive; the archive's identity changes with its content."""

    __slots__ = ("_archive", "_model_name")
    refused_s = inf
    is_over, size = False, 0

    def __init__(self, model_name: str, archive: str) -> None:
        self._model_name, self._archive = model_name, archive

    @property
    def mark(self) -> object:
        """Itself: it is short."""
        return self.key()

    def key(self) -> bytes:
        """Its model and its archive."""
        return f"load {self._model_name}\0{self._archive}".encode(errors="surrogateescape")

    def __str__(self) -> str:
        return f"the load of the model {self._model_name}"

    def refused(self) -> ServeError:
        """The archive's fault."""
        return ModelUnusable(
            f"the model {shortened(self._model_name)} is not loaded: tritonserver died or stood "
            "still twice while it was loaded from this archive; see the log of the container, then "
            "mend the archive and load it again"
        )


#: Something that is in tritonserver.
Work = RequestWork | LoadWork


class Standing(Enum):
    """How far a work is suspected."""

    INNOCENT = auto()
    SUSPECT = auto()
    CULPRIT = auto()


@dataclass(frozen=True)
class Judgement:
    """Who killed tritonserver, in words, and how many of its deaths that explains."""

    culprit: str
    deaths: int


@dataclass(frozen=True)
class BookEntry:
    """A suspect, a culprit, or a work that was lost sight of. It holds no body of a request."""

    key: bytes
    mark: object
    what: str
    until: float  # of the clock, in seconds
    refused_s: float
    deaths: int = 1  # at how many it was there
    certain: bool = True  # not only perhaps


class Book:
    """Entries by their keys, the newest last; at most so many of them."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.entries: OrderedDict[bytes, BookEntry] = OrderedDict()
        self.marks: Counter[object] = Counter()
        self._next_end = inf

    def put(self, entry: BookEntry) -> None:
        self.pop(entry.key)
        self.entries[entry.key] = entry
        self.marks[entry.mark] += 1
        self._next_end = min(self._next_end, entry.until)
        if len(self.entries) > self._most:
            self.pop(next(iter(self.entries)))

    def pop(self, key: bytes) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.marks[entry.mark] -= 1
            if not self.marks[entry.mark]:
                del self.marks[entry.mark]

    def forget_old(self, now: float) -> None:
        if now < self._next_end:
            return
        for key in [key for key, entry in self.entries.items() if entry.until <= now]:
            self.pop(key)
        next_end = min((entry.until for entry in self.entries.values()), default=inf)
        self._next_end = max(next_end, now + _LOOK_S)


@dataclass(frozen=True)
class _Lost:
    """How a work was lost sight of; as of a BookEntry."""

    until: float
    certain: bool


class Suspects:
    """The book. Synchronous; its only writer is the event loop's thread.

    most: entries of each kind: lost_sight_of, suspected, condemned. most_unhashed: bytes of what
    waits to be hashed. hash_later: called when there is something `unhashed`; who is called hashes
    it where it is in nobody's way, and says `hashed`. Without it everything is hashed at once.
    """

    hash_later: Callable[[], None] | None = None

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
        most_unhashed: int = MOST_UNHASHED,
    ) -> None:
        self._clock, self._most, self._most_unhashed = clock, most, most_unhashed
        self._inside: dict[Work, None] = {}
        self.lost_sight_of, self.suspected, self.condemned = Book(most), Book(most), Book(most)
        self._unhashed: dict[Work, _Lost] = {}
        #: Whether anyone is known: only then standing() has to be asked.
        self.watching = False

    # -- what is in tritonserver

    @property
    def inside(self) -> int:
        """How many works tritonserver has."""
        return len(self._inside)

    def enter(self, work: Work) -> None:
        """It goes to tritonserver now."""
        self._inside[work] = None

    def answered(self, work: Work) -> None:
        """tritonserver answered it."""
        if work in self._inside:
            del self._inside[work]
        else:  # its answer was on its way when tritonserver died
            self.clear(work)

    def begun(self, work: RequestWork) -> None:
        """tritonserver begins to answer it with 200: no model works on it any more; idempotent."""
        if not work.is_over:
            self.answered(work)
            self.clear(work)
            work.end()

    def lost(self, work: Work, *, broken: bool) -> None:
        """It is waited for no more. broken: its connection ended; else tritonserver may go on."""
        if work in self._inside:  # else a death was judged with it
            del self._inside[work]
            until = self._clock() + (BROKEN_S if broken else ABANDONED_S)
            lost = _Lost(until, broken)
            if self.hash_later is None or not self._is_hashed_later(work):
                self.lost_sight_of.put(self._make_entry(work, lost))
            else:
                self._unhashed[work] = lost
                self.hash_later()

    @property
    def unhashed(self) -> Work | None:
        """The next whose key is to be made."""
        return next(iter(self._unhashed), None)

    def hashed(self, work: Work, key: bytes) -> None:
        """It is kept no more, but for its key."""
        lost = self._unhashed.pop(work, None)
        if lost is not None:  # else a death was judged with it
            self.lost_sight_of.put(self._make_entry(work, lost, key))

    def _is_hashed_later(self, work: Work) -> bool:
        waiting = sum(other.size for other in self._unhashed)
        return work.size > _SHORT and not (waiting and waiting + work.size > self._most_unhashed)

    # -- what is held against it

    def standing(self, work: Work) -> Standing:
        """Whether it may go to tritonserver with others, alone, or not at all."""
        self._forget_old()
        if work.mark not in self.suspected.marks and work.mark not in self.condemned.marks:
            return Standing.INNOCENT
        key = work.key()
        if key in self.condemned.entries:
            return Standing.CULPRIT
        return Standing.SUSPECT if key in self.suspected.entries else Standing.INNOCENT

    def clear(self, work: Work) -> None:
        """It was answered: it does not kill."""
        if self.suspected.entries and not work.is_over:
            self.suspected.pop(work.key())
            self._note()

    def acquit(self, work: Work) -> None:
        """It did not cause what happened while it was in tritonserver."""
        self._inside.pop(work, None)
        for book in (self.lost_sight_of, self.suspected, self.condemned):
            book.pop(work.key())
        self._note()

    # -- what happens to tritonserver

    def died(self) -> Judgement | None:
        """It died of itself: what was in it is suspect, or one of that is the culprit."""
        self._forget_old()
        present = dict(self.lost_sight_of.entries)
        unhashed = [self._make_entry(work, lost) for work, lost in self._unhashed.items()]
        present.update({entry.key: entry for entry in unhashed})
        present.update({entry.key: entry for entry in map(self._make_entry, self._inside)})
        return self._judge(present)

    def stood_still(self, works: Iterable[Work]) -> Judgement | None:
        """It carries out no loads and is killed: those that it did not answer are suspect.

        Nothing else that is in it is.
        """
        self._forget_old()
        return self._judge({entry.key: entry for entry in map(self._make_entry, works)})

    def _judge(self, present: Mapping[bytes, BookEntry]) -> Judgement | None:
        self._inside.clear()
        self._unhashed.clear()
        self.lost_sight_of = Book(self._most)
        known = [
            replace(entry, deaths=self.suspected.entries[key].deaths + 1)
            for key, entry in present.items()
            if key in self.suspected.entries
        ]
        guilty = [entry for entry in known if entry.deaths >= DEATHS_IN_COMPANY]
        if len(known) == 1 and known[0].certain:
            guilty = known
        for entry in known if guilty else (*present.values(), *known):
            self.suspected.put(replace(entry, until=self._clock() + REMEMBERED_S, certain=True))
        judgement = self._condemn(guilty) if guilty else None
        self._note()
        return judgement

    def _condemn(self, guilty: Sequence[BookEntry]) -> Judgement:
        for entry in guilty:
            self.suspected.pop(entry.key)
            self.condemned.put(replace(entry, until=self._clock() + entry.refused_s))
        names = sorted({entry.what for entry in guilty})
        return Judgement(" and ".join(names), max(entry.deaths for entry in guilty))

    # -- memory

    def _make_entry(
        self, work: Work, lost: _Lost | None = None, key: bytes | None = None
    ) -> BookEntry:
        key = key or work.key()
        lost = lost or _Lost(self._clock() + REMEMBERED_S, certain=True)
        until, certain = lost.until, lost.certain
        return BookEntry(key, work.mark, str(work), until, work.refused_s, certain=certain)

    def _forget_old(self) -> None:
        for book in (self.lost_sight_of, self.suspected, self.condemned):
            book.forget_old(self._clock())
        self._note()

    def _note(self) -> None:
        self.watching = bool(self.suspected.entries or self.condemned.entries)
