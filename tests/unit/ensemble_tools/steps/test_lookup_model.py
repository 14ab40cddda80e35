"""The generated step in the place of QueryFeast, without tritonserver and with no Feast."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ensemble_tools.steps.sources import render_operator
from tests.graphs import fake_backend

SETTINGS: dict[str, object] = {
    "repository": "repo",
    "path": "/nowhere/repo",
    "view": "users",
    "entity": "user_id",
    "features": {"of_age": ("age", "int32"), "of_score": ("score", "float32")},
    "lists": {"of_clicks": ("clicks", "int64")},
    "id": "",
}
WRITES = {"of_age": "user", "of_score": "user", "of_clicks": "user"}
#: Ages, scores and clicks of users.
KNOWN: dict[int, dict[str, Any]] = {
    1: {"age": 21, "score": 0.5, "clicks": [1, 2]},
    2: {"age": 22, "score": 1.5, "clicks": [3]},
    3: {"age": 23, "score": None, "clicks": []},
    4: {"age": 24, "score": 2.5, "clicks": None},
}
LACKING: dict[str, Any] = {"age": None, "score": None, "clicks": None}
FIELDS = tuple(SimpleNamespace(name=name) for name in LACKING)


class FeatureStore:
    """Knows four users. calls: how often it was asked in Feast's own way."""

    error: BaseException | None = None
    hangs: threading.Event | None = None
    fields = FIELDS
    calls = 0
    most = 0

    online = SimpleNamespace(type="redis")

    def __init__(self, repo_path: str) -> None:
        self.repo_path = repo_path
        self.config = SimpleNamespace(online_store=self.online, project="shop")

    def get_feature_view(self, name: str) -> Any:
        assert name == "users"
        return SimpleNamespace(features=self.fields, entities=["user_id"])

    def get_online_features(self, features: list[str], entity_rows: list[dict[str, int]]) -> Any:
        type(self).calls += 1
        if self.hangs is not None:
            self.hangs.wait(120)
        if self.error is not None:
            raise self.error
        type(self).most = max(self.most, len(entity_rows))
        names = [feature.removeprefix("users:") for feature in features]
        rows = [KNOWN.get(row["user_id"], LACKING) for row in entity_rows]
        found = {name: [row[name] for row in rows] for name in names}
        return SimpleNamespace(to_dict=lambda: found)


@pytest.fixture(autouse=True)
def feast(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FeatureStore]]:
    """Also what a model imports. It has the store alone, which is asked in Feast's own way."""
    before = sys.modules.get(fake_backend.MODULE)
    fake_backend.install()
    module: Any = ModuleType("feast")
    store = module.FeatureStore = type("FeatureStore", (FeatureStore,), {})
    module.__version__ = "0.31.1"
    monkeypatch.setitem(sys.modules, "feast", module)
    monkeypatch.setenv("MERLIN_FEATURE_STORE_TIMEOUT", "60")
    yield store
    if before is not None:
        sys.modules[fake_backend.MODULE] = before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/feature_store.yaml").touch()
    return tmp_path


def made(folder: Path, writes: dict[str, str] | None = None, **settings: object) -> Any:
    source = render_operator(
        "QueryFeast", "lookup", {"user": ["user"]}, writes or WRITES, {**SETTINGS, **settings}
    )
    module: dict[str, Any] = {"__file__": str(folder / "model.py")}
    exec(source, module)
    model = module["TritonPythonModel"]()
    model.initialize({})
    return model


def ask(model: Any, *ids: int) -> Any:
    tensor = fake_backend.Tensor("user", np.array(ids, dtype="int64"))
    (response,) = model.execute([fake_backend.InferenceRequest("", 0, [tensor], [*WRITES])])
    return response


def ask_hanging(model: Any) -> Any:
    """The answer of a model whose store hangs: it waits less than for one that may be slow."""
    module = type(model).execute.__globals__
    module["PATIENCE_S"], patience_s = 0.3, module["PATIENCE_S"]
    try:
        return ask(model, 1)
    finally:
        module["PATIENCE_S"] = patience_s


def arrays(response: Any) -> dict[str, Any]:
    assert response.error() is None, response.error().message()
    return {it.name(): it.as_numpy() for it in response.output_tensors()}


def refused(response: Any) -> tuple[str, object]:
    return response.error().message(), response.error().code()


def test_rows_in_order(folder: Path) -> None:
    """Types and ragged lists as Merlin's; a float that the store lacks is NaN."""
    found = arrays(ask(made(folder), 2, 1, 2, 3))
    assert found["of_age"].tolist() == [22, 21, 22, 23]
    assert np.array_equal(found["of_score"], np.float32([1.5, 0.5, 1.5, np.nan]), equal_nan=True)
    assert found["of_clicks__values"].tolist() == [3, 1, 2, 3]
    assert found["of_clicks__offsets"].tolist() == [0, 1, 3, 4, 4]
    assert {name: array.dtype.name for name, array in found.items()} == {
        "of_age": "int32",
        "of_score": "float32",
        "of_clicks__values": "int64",
        "of_clicks__offsets": "int32",
    }


def test_the_ids_as_they_came(folder: Path) -> None:
    writes = {"user_id": "user", **WRITES}
    assert arrays(ask(made(folder, writes, id="user_id"), 2, 1))["user_id"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ((1, 7, 8), "the view users of the feature store has no age for user_id 7, 8; ids that it"),
        ((7,) * 9, "has no age for user_id 7, 7, 7, 7, 7 ..."),
        ((1, 4), "has no clicks for user_id 4"),
        ((), "column 'user' is empty; at least one id is expected"),
    ],
)
def test_what_the_store_lacks(folder: Path, ids: tuple[int, ...], said: str) -> None:
    """Merlin's executor fails at it, too."""
    message, code = refused(ask(made(folder), *ids))
    assert message.startswith("QueryFeast: ")
    assert said in message
    assert code == fake_backend.TritonError.INVALID_ARG


def test_a_store_that_is_down(folder: Path, feast: type[FeatureStore]) -> None:
    model = made(folder)
    feast.error = ConnectionError("nobody listens\nat all")
    message, code = refused(ask(model, 1))
    assert code == fake_backend.TritonError.UNAVAILABLE
    assert message == (
        "QueryFeast: the feature store cannot be asked: ConnectionError: nobody listens; look "
        "whether it runs, and at feature_store.yaml"
    )
    feast.error = None
    assert arrays(ask(model, 1))["of_age"].tolist() == [21]


def test_what_feast_itself_says(folder: Path, feast: type[FeatureStore]) -> None:
    """No lack of the store, and nothing that a caller could mend."""
    model = made(folder)
    feast.error = KeyError("entity")
    message, code = refused(ask(model, 1))
    assert message == "QueryFeast: Feast failed: KeyError: 'entity'"
    assert code not in (fake_backend.TritonError.UNAVAILABLE, fake_backend.TritonError.INVALID_ARG)


def test_a_store_that_hangs(folder: Path, feast: type[FeatureStore]) -> None:
    """Who comes next is answered at once; after a rest it is asked again, by a new store."""
    model = made(folder)
    assert arrays(ask(model, 1))
    feast.hangs = threading.Event()
    message, code = refused(ask_hanging(model))
    assert "it has not answered within 0.3 s (SERVE_FEATURE_STORE_TIMEOUT)" in message
    assert code == fake_backend.TritonError.UNAVAILABLE
    calls = feast.calls
    model.store.rests_until += 60  # on a busy machine five questions outlast a rest
    for _ in range(5):
        assert refused(ask(model, 1)) == (message, code)
    assert feast.calls == calls
    feast.hangs.set()
    model.store.rests_until = 0.0
    assert arrays(ask(model, 1))["of_age"].tolist() == [21]
    wait_until_gone = [
        thread for thread in model.store.hanging if thread.join(60) or thread.is_alive()
    ]
    assert wait_until_gone == []


def test_as_many_as_may_hang(folder: Path, feast: type[FeatureStore]) -> None:
    """Then the rest is longer; the store is asked again although none of them has ended."""
    model = made(folder)
    hanging = feast.hangs = threading.Event()
    try:
        for _ in range(8):
            model.store.rests_until = 0.0
            ask_hanging(model)
        assert model.store.rests_until - time.monotonic() > 30
        calls = feast.calls
        assert refused(ask(model, 1))[1] == fake_backend.TritonError.UNAVAILABLE
        assert feast.calls == calls
        feast.hangs = None
        model.store.rests_until = 0.0
        assert arrays(ask(model, 1))["of_age"].tolist() == [21]
    finally:
        hanging.set()


def test_a_direct_look_up_that_fails(folder: Path, feast: type[FeatureStore]) -> None:
    """Feast's own way answers, whether it fails at once or when it was proven."""

    def direct(ids: list[int]) -> dict[str, list[Any]]:
        if feast.calls != 1 or len(ids) > 1:
            raise TypeError("another release")
        return {name: [KNOWN[number][name] for number in ids] for name in LACKING}

    model = made(folder)
    model.store.opened.read.__globals__["find_direct"] = lambda store: direct
    for ids in ((1,), (1, 2), (2,)):
        found = arrays(ask(model, *ids))["of_age"]
        assert found.tolist() == [20 + number for number in ids]


def test_a_registry_that_goes_away(folder: Path, feast: type[FeatureStore]) -> None:
    """While the store hangs, too: no fault of the model's."""
    model = made(folder)
    feast.hangs = threading.Event()
    ask_hanging(model)
    feast.hangs.set()
    model.store.rests_until = 0.0
    feast.fields = None  # type: ignore[assignment]
    message, code = refused(ask(model, 1))
    assert message.startswith("QueryFeast: the feature store cannot be asked: Feast 0.31.1 cannot")
    assert code == fake_backend.TritonError.UNAVAILABLE


def test_very_many_ids(folder: Path, feast: type[FeatureStore]) -> None:
    """In pieces, each of which has its own time; an answer is one all the same."""
    ids = [1, 2, 3] * 7000
    found = arrays(ask(made(folder), *ids))
    assert found["of_age"].tolist() == [20 + number for number in ids]
    assert len(found["of_clicks__offsets"]) == len(ids) + 1
    assert (feast.calls, feast.most) == (3, 10_000)


def test_a_repository_that_lies_in_the_archive(folder: Path, feast: type[FeatureStore]) -> None:
    """Its path, which is the container's own affair, is in no message; nor is what it leads to."""
    model = made(folder)
    for path in (folder / "repo", (folder / "repo").resolve()):
        feast.error = KeyError(f"no entity in {path}/registry.db")
        message, _ = refused(ask(model, 1))
        assert message == "QueryFeast: Feast failed: KeyError: 'no entity in repo/registry.db'"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["online.db", "elsewhere/online.db"])
def test_a_file_of_features_that_is_not_there(
    folder: Path, feast: type[FeatureStore], place: str
) -> None:
    """Found at the load: SQLite would make an empty one."""
    feast.online = SimpleNamespace(type="sqlite", path=place)
    file = folder / "repo" / place
    file.parent.mkdir(exist_ok=True)
    for broken in (None, b"", b"what is no database", b"SQLite format 3\0" + bytes(100)):
        if broken is not None:
            file.write_bytes(broken)
        with pytest.raises(ValueError, match="materialize the features, and add that fi") as caught:
            made(folder)
        assert f"the online store {place} of the feature repository repo c" in str(caught.value)
        assert file.exists() is (broken is not None)
    file.unlink()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE shop_users (entity_key BLOB)")
    assert arrays(ask(made(folder), 1))
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert arrays(ask(made(folder), 1))


def test_a_repository_without_its_configuration(tmp_path: Path) -> None:
    """Not that one is taken which lies where the graph was exported."""
    for place in ("repo", "elsewhere"):
        (tmp_path / place).mkdir()
    (tmp_path / "elsewhere/feature_store.yaml").touch()
    with pytest.raises(ValueError, match=r"repo of the archive has no file feature_store\.yaml"):
        made(tmp_path, path=str(tmp_path / "elsewhere"))


def test_without_feast(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "feast", None)
    with pytest.raises(ValueError, match=r"QueryFeast needs Feast \(.*install feast into"):
        made(folder)


def test_without_a_repository(tmp_path: Path) -> None:
    said = r"neither in repo/ beside the archive's ensemble\.pkl nor in /nowhere/repo; add the"
    with pytest.raises(ValueError, match=said):
        made(tmp_path)


def test_where_it_was_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Merlin's executor finds it; the log says that it is none of the archive's."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/feature_store.yaml").touch()
    model = made(tmp_path, path=str(tmp_path / "elsewhere"))
    assert model.store.path == str(tmp_path / "elsewhere")
    said = f"QueryFeast: the feature repository {tmp_path}/elsewhere of this machine is read, since"
    assert said in capsys.readouterr().out


def test_a_view_that_has_changed(folder: Path, feast: type[FeatureStore]) -> None:
    feast.fields = FIELDS[1:]
    with pytest.raises(ValueError, match=r"has no age; it has clicks, score: export the graph"):
        made(folder)


def test_a_view_that_is_not_there(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"Feast 0\.31\.1 cannot read the view items"):
        made(folder, view="items")


@pytest.mark.parametrize("is_right", [True, False])
def test_the_direct_look_up_is_proven_first(
    folder: Path, feast: type[FeatureStore], is_right: bool
) -> None:
    """One that once said something else is not asked again."""
    model = made(folder)
    asked: list[list[int]] = []

    def direct(ids: list[int]) -> dict[str, list[Any]]:
        asked.append(ids)
        rows = [KNOWN.get(number, LACKING) for number in ids]
        of = {name: [row[name] for row in rows] for name in ("age", "score", "clicks")}
        return of if is_right else {**of, "age": [0 for _ in ids]}

    model.store.opened.read.__globals__["find_direct"] = lambda store: direct
    for ids in ((1, 2), (2,), (2, 1)):
        found = arrays(ask(model, *ids))
        assert found["of_age"].tolist() == [20 + number for number in ids]
    assert feast.calls == (1 if is_right else 3)
    assert asked == ([[1, 2], [2], [2, 1]] if is_right else [[1, 2]])


def test_an_id_that_does_not_fit(folder: Path, feast: type[FeatureStore]) -> None:
    model = made(folder)
    feast.error = ValueError("Value out of range: 4294967296")
    message, code = refused(ask(model, 1 << 32))
    assert message == ("QueryFeast: an id does not fit user_id: Value out of range: 4294967296")
    assert code == fake_backend.TritonError.INVALID_ARG
