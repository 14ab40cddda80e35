"""Looks features up in a Feast online store, as Merlin's QueryFeast does.

Generated beside the models of an archive. Needs numpy and feast. The feature repository, which is
the directory with feature_store.yaml, lies beside this file, or else where it lay when the graph
was exported. A request is one look-up, one with very many ids a few. A store that is down, or does
not answer in time, is an error of that request; the next one asks again.
"""

import os
import queue
import sqlite3
import threading
import time
from contextlib import closing
from urllib.parse import quote

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))
CONFIGURATION = "feature_store.yaml"
#: Seconds that a look-up is waited for.
PATIENCE_S = float(os.environ.get("MERLIN_FEATURE_STORE_TIMEOUT") or 5)
#: A request with more ids is looked up in pieces, each in its own time: Feast itself takes
#: up to a second for so many, and SQLite takes no more than 32,766.
MOST_AT_A_TIME = 10_000
#: After one that took longer, requests are refused at once for so many seconds: they would queue.
REST_S = 1.0
#: After so many seconds the view is taken anew from the registry, which Feast itself reads again.
RENEWED_S = 60.0
#: The keys of so many ids are kept: some answers' worth.
MOST_KEYS = 1000
#: Of a look-up in both ways so many ids are compared.
MOST_PROVEN = 100
#: As many look-ups may hang at a time, each with a thread and a connection. Then the store is asked
#: again after a longer rest, and the oldest one counts no more: some never end.
MOST_HANGING, LONG_REST_S = 8, 60.0
#: What Feast, not its store, says with these is no lack of a store.
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Refused(Exception):
    """The caller's ids do not fit the operator, or the store lacks them."""


class Unavailable(Exception):
    """The store cannot be asked now."""


class Unreadable(ValueError):
    """The feature repository, or its registry, cannot be read."""


class TritonPythonModel:
    """One answer for each request: the columns that WRITES names."""

    def initialize(self, args):
        self.store = Store()

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        (column,) = READS
        inputs = {name: tensors[name] for name in READS[column]}
        ids = next(iter(inputs.values()))
        try:
            features = self.store.find(as_numbers(column, ids))
            outputs = {**take(features, ids), **self.passed_on(column, inputs)}
        except Refused as error:
            return failed(f"{OPERATOR}: {error}", "INVALID_ARG")
        except Unavailable as error:
            return failed(f"{OPERATOR}: the feature store cannot be asked: {error}", "UNAVAILABLE")
        except Exception as error:
            return failed(f"{OPERATOR}: Feast failed: {self.store.describe(error)}")
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(array)) for name, array in outputs.items()]
        )

    def passed_on(self, column, inputs):
        """The ids as they came, under the entity's name."""
        if not SETTINGS["id"]:
            return {}
        return {
            SETTINGS["id"] + name[len(column) :] if len(inputs) > 1 else SETTINGS["id"]: array
            for name, array in inputs.items()
        }


def as_numbers(column, ids):
    """The entity of each row, as Merlin makes it."""
    if len(ids) < 1:
        raise Refused(f"column {column!r} is empty; at least one id is expected")
    try:
        return [int(value) for value in ids]
    except (OverflowError, TypeError, ValueError) as error:
        raise Refused(
            f"column {column!r} has what is no id ({error}); integers are expected"
        ) from (error)


def take(features, ids):
    """Arrays by name. What the store lacks is NaN among numbers with a point, else refused."""
    columns = {}
    for name, (feature, dtype) in SETTINGS["features"].items():
        with telling_what_lacks(feature, features[feature], ids):
            columns[name] = np.array(features[feature]).astype(dtype)
    for name, (feature, dtype) in SETTINGS["lists"].items():
        rows = features[feature]
        with telling_what_lacks(feature, rows, ids):
            if isinstance(rows[0], list):
                values = np.array([value for row in rows for value in row]).astype(dtype)
                offsets = np.cumsum([0, *(len(row) for row in rows)])
            else:  # Merlin makes one row of what is no list
                values = np.array(rows).astype(dtype)
                offsets = np.array([0, len(values)])
        columns[f"{name}__values"], columns[f"{name}__offsets"] = values, offsets.astype("int32")
    return columns


class telling_what_lacks:
    """Raises Refused in the place of what numpy says of the values that the store has not."""

    def __init__(self, feature, rows, ids):
        self.feature, self.rows, self.ids = feature, rows, ids

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not isinstance(error, (TypeError, ValueError)):
            return
        lacking = [
            str(int(value))
            for value, row in zip(self.ids, self.rows)  # noqa: B905 - of one length
            if row is None
        ]
        if lacking:
            shown = ", ".join(lacking[:5]) + (" ..." if len(lacking) > 5 else "")
            raise Refused(
                f"the view {SETTINGS['view']} of the feature store has no {self.feature} for "
                f"{SETTINGS['entity']} {shown}; ids that it has are expected"
            ) from error


class Store:
    """The store of the feature repository, asked from a thread: who waits can stop waiting."""

    def __init__(self):
        self.path, self.called = find_repository()
        self.opened = Opened(self.open())
        self.asker, self.hanging = None, []
        self.rests_until, self.why = 0.0, ""

    def open(self):
        """Feast's store; raises ValueError with what is to be done where there is none."""
        os.environ.setdefault("FEAST_USAGE", "False")  # it would report each call to its authors
        try:
            import feast
        except ImportError as error:
            raise ValueError(
                f"{OPERATOR} needs Feast ({error}): install feast into the Python that runs models "
                "(SERVE_BACKEND_PYTHON), in the release that applied the feature repository"
            ) from error
        try:
            store = feast.FeatureStore(repo_path=self.path)
            view = store.get_feature_view(SETTINGS["view"])
            known = {field.name for field in view.features}
        except MemoryError:  # no fault of the repository's
            raise
        except Exception as error:
            raise Unreadable(
                f"{OPERATOR}: Feast {feast.__version__} cannot read the view {SETTINGS['view']} of "
                f"the feature repository {self.called} ({self.describe(error)}); apply it with "
                "that release, and add its registry"
            ) from error
        self.check_file(store)
        source = f"the view {SETTINGS['view']} of the feature repository {self.called}"
        if lacking := [feature for feature in wanted() if feature not in known]:
            raise ValueError(
                f"{OPERATOR}: {source} has no {', '.join(lacking)}; it has "
                f"{', '.join(sorted(known))}: export the graph again"
            )
        return store

    def check_file(self, store):
        """Raises ValueError where the online store is a file that is not there, or is none.

        SQLite would make an empty one, beside the registry.
        """
        online = store.config.online_store
        if getattr(online, "type", "") != "sqlite":
            return
        path = os.path.join(self.path, online.path)
        table = f"{store.config.project}_{SETTINGS['view']}".replace(
            '"', '""'
        )  # Feast's name of it
        try:
            with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
                database.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchall()
        except sqlite3.Error as error:
            if "locked" in str(error):  # by who writes features
                return
            raise ValueError(
                f"{OPERATOR}: the online store {online.path} of the feature repository "
                f"{self.called} cannot be read ({error}); materialize the features, and add that "
                "file"
            ) from error

    def describe(self, error):
        """Its name and the first line of its words, with the repository's name in the archive."""
        message = str(error).strip().partition("\n")[0]
        for path in sorted({self.path, os.path.realpath(self.path)}, key=len, reverse=True):
            message = message.replace(path, self.called)
        return f"{type(error).__name__}: {message[:300]}" if message else type(error).__name__

    def find(self, ids):
        """A list for each feature, in the order of the ids; raises Unavailable, or as Feast."""
        if len(ids) <= MOST_AT_A_TIME:
            return self.look_up(ids)
        features = {feature: [] for feature in wanted()}
        for start in range(0, len(ids), MOST_AT_A_TIME):
            for feature, rows in self.look_up(ids[start : start + MOST_AT_A_TIME]).items():
                features[feature] += rows
        return features

    def look_up(self, ids):
        """Look up as find does, for so few ids that they are one look-up."""
        if time.monotonic() < self.rests_until:
            raise Unavailable(self.why)
        self.hanging = [asker for asker in self.hanging if asker.is_alive()]
        self.hanging = self.hanging[-MOST_HANGING + 1 :]
        if self.asker is None:
            self.asker = Asker(lambda: Opened(self.open()), self.opened)
        reply = self.asker.ask(ids)
        if reply is None:
            self.hanging.append(self.asker)
            self.asker = self.opened = None  # with the connection that hangs
            self.why = (
                f"it has not answered within {PATIENCE_S:g} s (SERVE_FEATURE_STORE_TIMEOUT); look "
                f"whether it runs, and at {CONFIGURATION}"
            )
            rest = REST_S if len(self.hanging) < MOST_HANGING else LONG_REST_S
            self.rests_until = time.monotonic() + rest
            raise Unavailable(self.why)
        if "error" in reply:
            error = reply["error"]
            if isinstance(error, ValueError) and "out of range" in str(error):
                raise Refused(f"an id does not fit {SETTINGS['entity']}: {error}") from error
            if isinstance(error, Unreadable):
                raise Unavailable(str(error).removeprefix(f"{OPERATOR}: ")) from error
            if isinstance(error, MISTAKES) or type(error).__module__.startswith("feast"):
                raise error
            raise Unavailable(
                f"{self.describe(error)}; look whether it runs, and at {CONFIGURATION}"
            ) from error
        return reply["found"]


class Asker(threading.Thread):
    """Asks for one after another, until it has hung once."""

    def __init__(self, make, opened):
        super().__init__(daemon=True)
        self.make, self.opened = make, opened
        self.jobs, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        self.start()

    def ask(self, ids):
        """The features, or the error, by these names; None when it took too long."""
        self.jobs.put(ids)
        try:
            return self.done.get(timeout=PATIENCE_S)
        except queue.Empty:
            self.jobs.put(None)
            return None

    def run(self):
        while (ids := self.jobs.get()) is not None:
            try:
                self.opened = self.opened or self.make()
                self.done.put({"found": self.opened.read(ids)})
            except BaseException as error:
                self.done.put({"error": error})


class Opened:
    """Feast's store, and its online store's own look-up where that is known to be the same.

    What Feast does around it for 100 rows takes three times as long: it finds the views in the
    registry, and makes a message of each value twice. So the online store is asked for the values
    of one plain view, if it then says what Feast says: the first ids are looked up in both ways.
    """

    def __init__(self, store):
        self.store = store
        self.direct, self.is_proven, self.renewed = None, False, -RENEWED_S

    def read(self, ids):
        if time.monotonic() - self.renewed >= RENEWED_S:
            self.direct, self.is_proven = find_direct(self.store), False
            self.renewed = time.monotonic()
        if self.direct is not None and not self.is_proven:
            first = ids[:MOST_PROVEN]
            features = self.read_slowly(first)
            self.prove(first, features)
            if len(first) == len(ids):
                return features
        if self.direct is not None and self.is_proven:
            try:
                return self.direct(ids)
            except MISTAKES:  # then Feast is asked in its own way, which says what is wrong
                self.direct = None
        return self.read_slowly(ids)

    def read_slowly(self, ids):
        """In Feast's own way."""
        whole = self.store.get_online_features(
            features=[f"{SETTINGS['view']}:{feature}" for feature in wanted()],
            entity_rows=[{SETTINGS["entity"]: number} for number in ids],
        ).to_dict()
        return {feature: whole[feature] for feature in wanted()}

    def prove(self, ids, features):
        """Proven by a value, not by what both lack."""
        try:
            is_same = repr(self.direct(ids)) == repr(features)  # where NaN equals NaN
        except Exception:
            is_same = False
        self.direct = self.direct if is_same else None
        self.is_proven = is_same and any(
            row is not None for rows in features.values() for row in rows
        )


class EntityKey:
    """Feast's EntityKey of one entity, as online stores read it, and its own only value.

    Reading Feast's messages, which may be Python's, takes longer than SQLite does. A store that
    reads more of them than this has is asked in Feast's own way.
    """

    def __init__(self, name, value):
        self.join_keys, self.entity_values = [name], [self]
        self.kind = value.WhichOneof("val")
        setattr(self, self.kind, getattr(value, self.kind))

    def WhichOneof(self, group):
        return self.kind


def find_direct(store):
    """A function of ids that asks the online store alone; None where this Feast has no such one."""
    try:
        from feast import FeatureView, ValueType
        from feast.type_map import feast_value_type_to_python_type as as_python
        from feast.type_map import python_values_to_proto_values as as_values

        view = store.get_feature_view(SETTINGS["view"], allow_registry_cache=True)
        (name,) = view.entities
        key = store.get_entity(name, allow_registry_cache=True).join_key
        types = {column.name: column.dtype.to_value_type() for column in view.entity_columns}
        kind = types.get(SETTINGS["entity"], ValueType.UNKNOWN)
        read = store._get_provider().online_read
        if type(view) is not FeatureView or view.projection.join_key_map:
            return None
    except Exception:
        return None
    features = wanted()
    keys = {}

    def direct(ids):
        different, kept = sorted({*ids}), keys
        if new := [number for number in different if number not in keys]:
            if len(keys) + len(new) > MOST_KEYS:
                keys.clear()
                new = different
            kept = keys if len(new) <= MOST_KEYS else {}
            for number, value in zip(new, as_values(new, kind)):  # noqa: B905 - of one length
                kept[number] = EntityKey(key, value)
        rows = read(
            config=store.config,
            table=view,
            entity_keys=[kept[number] for number in different],
            requested_features=[*features],  # Feast's Redis adds to the list
        )
        of = {number: row or {} for number, (_, row) in zip(different, rows)}  # noqa: B905
        return {
            feature: [
                as_python(of[number][feature]) if feature in of[number] else None for number in ids
            ]
            for feature in features
        }

    return direct


def wanted():
    """The features, as the store calls them."""
    return [name for name, _ in (*SETTINGS["features"].values(), *SETTINGS["lists"].values())]


def find_repository():
    """Its directory, and what that is called in messages: its name in the archive, or the path."""
    beside, recorded = os.path.join(FOLDER, SETTINGS["repository"]), SETTINGS["path"]
    if os.path.isfile(os.path.join(beside, CONFIGURATION)):
        return beside, SETTINGS["repository"]
    if os.path.lexists(beside):  # another one than the archive's would have other numbers
        raise ValueError(
            f"{OPERATOR}: the feature repository {SETTINGS['repository']} of the archive has no "
            f"file {CONFIGURATION}; add it"
        )
    if os.path.isfile(os.path.join(recorded, CONFIGURATION)):
        print(
            f"{OPERATOR}: the feature repository {recorded} of this machine is read, since the "
            f"archive has no {SETTINGS['repository']}/ beside its ensemble.pkl",
            flush=True,
        )
        return recorded, recorded
    raise ValueError(
        f"{OPERATOR}: there is no feature repository: {CONFIGURATION} is neither in "
        f"{SETTINGS['repository']}/ beside the archive's ensemble.pkl nor in {SETTINGS['path']}; "
        "add the directory beside ensemble.pkl"
    )


def failed(message, code=""):
    """The answer; Triton 2.36 has no codes."""
    known = getattr(pb_utils.TritonError, code, None) if code else None
    error = pb_utils.TritonError(message, *([] if known is None else [known]))
    return pb_utils.InferenceResponse(error=error)


# --- what this model does

KIND = ""
OPERATOR = ""
READS = {}
WRITES = {}
SETTINGS = {}
