"""Looks features up in a Feast online store, as Merlin's QueryFeast does.

Generated beside the models of an archive. Needs numpy and feast. The feature repository, which is
the directory with feature_store.yaml, lies beside this file, or else where it lay when the graph
was exported. A request is one look-up. A store that is down, or does not answer in time, is an
error of that request; the next one asks again.
"""

import os
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))
CONFIGURATION = "feature_store.yaml"
#: Seconds that a look-up is waited for.
PATIENCE_S = float(os.environ.get("MERLIN_FEATURE_STORE_TIMEOUT") or 5)
#: After one that took longer, requests are refused at once for so many seconds: they would queue.
REST_S = 1.0
#: As many look-ups may hang at a time; each holds a thread and a connection.
MOST_HANGING = 8
#: What Feast, not its store, says with these is no lack of a store.
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class Refused(Exception):
    """The caller's ids do not fit the operator, or the store lacks them."""


class Unavailable(Exception):
    """The store cannot be asked now."""


class TritonPythonModel:
    """One answer for each request: the columns that WRITES names."""

    def initialize(self, args):
        self.store = Store()

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        (column,) = READS
        given = {name: tensors[name] for name in READS[column]}
        ids = next(iter(given.values()))
        try:
            found = self.store.look_up(as_rows(column, ids))
            made = {**take(found, ids), **self.passed_on(column, given)}
        except Refused as error:
            return failed(f"{OPERATOR}: {error}", "INVALID_ARG")
        except Unavailable as error:
            return failed(f"{OPERATOR}: the feature store cannot be asked: {error}", "UNAVAILABLE")
        except Exception as error:
            return failed(f"{OPERATOR}: Feast failed: {describe(error)}")
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(array)) for name, array in made.items()]
        )

    def passed_on(self, column, given):
        """The ids as they came, under the entity's name."""
        if not SETTINGS["id"]:
            return {}
        return {
            SETTINGS["id"] + name[len(column) :] if len(given) > 1 else SETTINGS["id"]: array
            for name, array in given.items()
        }


def as_rows(column, ids):
    """What Feast takes: the entity of each row."""
    if len(ids) < 1:
        raise Refused(f"column {column!r} is empty; at least one id is expected")
    try:
        return [{SETTINGS["entity"]: int(value)} for value in ids]
    except (TypeError, ValueError) as error:
        raise Refused(
            f"column {column!r} has what is no id ({error}); integers are expected"
        ) from (error)


def take(found, ids):
    """Arrays by name. What the store lacks is NaN among numbers with a point, else refused."""
    made = {}
    for name, (feature, dtype) in SETTINGS["features"].items():
        with telling_what_lacks(feature, found[feature], ids):
            made[name] = np.array(found[feature]).astype(dtype)
    for name, (feature, dtype) in SETTINGS["lists"].items():
        rows = found[feature]
        with telling_what_lacks(feature, rows, ids):
            if isinstance(rows[0], list):
                values = np.array([value for row in rows for value in row]).astype(dtype)
                offsets = np.cumsum([0, *(len(row) for row in rows)])
            else:  # Merlin makes one row of what is no list
                values = np.array(rows).astype(dtype)
                offsets = np.array([0, len(values)])
        made[f"{name}__values"], made[f"{name}__offsets"] = values, offsets.astype("int32")
    return made


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
        self.path = find_repository()
        self.opened = self.open()
        self.hanging = []
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
        except Exception as error:
            raise ValueError(
                f"{OPERATOR}: Feast {feast.__version__} cannot read the view {SETTINGS['view']} of "
                f"the feature repository {self.path} ({describe(error)}); apply it with that "
                "release, and add its registry"
            ) from error
        place = f"the view {SETTINGS['view']} of the feature repository {self.path}"
        if lacking := [feature for feature in wanted() if feature not in known]:
            raise ValueError(
                f"{OPERATOR}: {place} has no {', '.join(lacking)}; it has "
                f"{', '.join(sorted(known))}: export the graph again"
            )
        return store

    def look_up(self, rows):
        """A list for each feature, in the order of the rows; raises Unavailable, or as Feast."""
        if time.monotonic() < self.rests_until:
            raise Unavailable(self.why)
        self.hanging = [thread for thread in self.hanging if thread.is_alive()]
        if len(self.hanging) >= MOST_HANGING:
            raise Unavailable(f"{len(self.hanging)} look-ups hang already; look at the store")
        told = {}
        thread = threading.Thread(target=self.ask, args=(rows, told), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        if thread.is_alive():
            self.hanging.append(thread)
            self.opened = None  # with the connection that hangs
            self.why = (
                f"it has not answered within {PATIENCE_S:g} s (SERVE_FEATURE_STORE_TIMEOUT); look "
                f"whether it runs, and at {CONFIGURATION}"
            )
            self.rests_until = time.monotonic() + REST_S
            raise Unavailable(self.why)
        if "error" in told:
            error = told["error"]
            if isinstance(error, MISTAKES) or type(error).__module__.startswith("feast"):
                raise error
            raise Unavailable(
                f"{describe(error)}; look whether it runs, and at {CONFIGURATION}"
            ) from error
        return told["found"]

    def ask(self, rows, told):
        try:
            store = self.opened
            if store is None:
                store = self.opened = self.open()
            names = [f"{SETTINGS['view']}:{feature}" for feature in wanted()]
            told["found"] = store.get_online_features(features=names, entity_rows=rows).to_dict()
        except BaseException as error:
            told["error"] = error


def wanted():
    """The features, as the store calls them."""
    return [name for name, _ in (*SETTINGS["features"].values(), *SETTINGS["lists"].values())]


def find_repository():
    """Its directory."""
    places = [os.path.join(FOLDER, SETTINGS["repository"]), SETTINGS["path"]]
    for place in places:
        if os.path.isfile(os.path.join(place, CONFIGURATION)):
            return place
    raise ValueError(
        f"{OPERATOR}: there is no feature repository: {CONFIGURATION} is neither in "
        f"{SETTINGS['repository']}/ beside the archive's ensemble.pkl nor in {SETTINGS['path']}; "
        "add the directory beside ensemble.pkl"
    )


def describe(error):
    """Its name and the first line of its words."""
    words = str(error).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


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
