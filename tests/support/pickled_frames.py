"""Frames as pandas 1.5 pickles them, for JoinExternal.

`.venv-merlin/bin/python -m tests.support.pickled_frames` prints each as base64, in an object.
"""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

#: What USERS holds.
COLUMNS = {
    "user": np.array([3, 5, 8], "int64"),
    "weight": np.array([4, 2, 9], "int64"),
    "score": np.array([0.5, 1.5, 2.5], "float32"),
}
#: A frame of them.
USERS = base64.b64decode(
    "gAWVRAMAAAAAAACMEXBhbmRhcy5jb3JlLmZyYW1llIwJRGF0YUZyYW1llJOUKYGUfZQojARfbWdylIwecGFuZGFzLmNv"
    "cmUuaW50ZXJuYWxzLm1hbmFnZXJzlIwMQmxvY2tNYW5hZ2VylJOUjBZwYW5kYXMuX2xpYnMuaW50ZXJuYWxzlIwPX3Vu"
    "cGlja2xlX2Jsb2NrlJOUjBJudW1weS5jb3JlLm51bWVyaWOUjAtfZnJvbWJ1ZmZlcpSTlCiWMAAAAAAAAAADAAAAAAAA"
    "AAUAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAIAAAAAAAAACQAAAAAAAACUjAVudW1weZSMBWR0eXBllJOUjAJpOJSJiIeU"
    "UpQoSwOMATyUTk5OSv////9K/////0sAdJRiSwJLA4aUjAFDlHSUUpSMCGJ1aWx0aW5zlIwFc2xpY2WUk5RLAEsCSwGH"
    "lFKUSwKHlFKUaAtoDiiWDAAAAAAAAAAAAAA/AADAPwAAIECUaBKMAmY0lImIh5RSlChLA2gWTk5OSv////9K/////0sA"
    "dJRiSwFLA4aUaBl0lFKUaB5LAksDSwGHlFKUSwKHlFKUhpRdlCiMGHBhbmRhcy5jb3JlLmluZGV4ZXMuYmFzZZSMCl9u"
    "ZXdfSW5kZXiUk5RoMYwFSW5kZXiUk5R9lCiMBGRhdGGUjBVudW1weS5jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1"
    "Y3SUk5RoEIwHbmRhcnJheZSTlEsAhZRDAWKUh5RSlChLAUsDhZRoEowCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv//"
    "//9LP3SUYoldlCiMBHVzZXKUjAZ3ZWlnaHSUjAVzY29yZZRldJRijARuYW1llE51hpRSlGgzjBlwYW5kYXMuY29yZS5p"
    "bmRleGVzLnJhbmdllIwKUmFuZ2VJbmRleJSTlH2UKGhMTowFc3RhcnSUSwCMBHN0b3CUSwOMBHN0ZXCUSwF1hpRSlGWG"
    "lFKUjARfdHlwlIwJZGF0YWZyYW1llIwJX21ldGFkYXRhlF2UjAVhdHRyc5R9lIwGX2ZsYWdzlH2UjBdhbGxvd3NfZHVw"
    "bGljYXRlX2xhYmVsc5SIc3ViLg=="
)

#: A frame with texts, of which one is missing, and lists.
ITEMS = base64.b64decode(
    "gAWVIAMAAAAAAACMEXBhbmRhcy5jb3JlLmZyYW1llIwJRGF0YUZyYW1llJOUKYGUfZQojARfbWdylIwecGFuZGFzLmNvcmUu"
    "aW50ZXJuYWxzLm1hbmFnZXJzlIwMQmxvY2tNYW5hZ2VylJOUjBZwYW5kYXMuX2xpYnMuaW50ZXJuYWxzlIwPX3VucGlja2xl"
    "X2Jsb2NrlJOUjBJudW1weS5jb3JlLm51bWVyaWOUjAtfZnJvbWJ1ZmZlcpSTlCiWGAAAAAAAAAADAAAAAAAAAAUAAAAAAAAA"
    "CAAAAAAAAACUjAVudW1weZSMBWR0eXBllJOUjAJpOJSJiIeUUpQoSwOMATyUTk5OSv////9K/////0sAdJRiSwFLA4aUjAFD"
    "lHSUUpSMCGJ1aWx0aW5zlIwFc2xpY2WUk5RLAEsBSwGHlFKUSwKHlFKUaAuMFW51bXB5LmNvcmUubXVsdGlhcnJheZSMDF9y"
    "ZWNvbnN0cnVjdJSTlGgQjAduZGFycmF5lJOUSwCFlEMBYpSHlFKUKEsBSwJLA4aUaBKMAk84lImIh5RSlChLA4wBfJROTk5K"
    "/////0r/////Sz90lGKJXZQojAFhlE6MAsOplF2UKIwBeJSMAXmUZV2UXZRoNGFldJRiaB5LAUsDSwGHlFKUSwKHlFKUhpRd"
    "lCiMGHBhbmRhcy5jb3JlLmluZGV4ZXMuYmFzZZSMCl9uZXdfSW5kZXiUk5RoQYwFSW5kZXiUk5R9lCiMBGRhdGGUaCVoJ0sA"
    "hZRoKYeUUpQoSwFLA4WUaC+JXZQojAR1c2VylIwEY2l0eZSMBmdlbnJlc5RldJRijARuYW1llE51hpRSlGhDjBlwYW5kYXMu"
    "Y29yZS5pbmRleGVzLnJhbmdllIwKUmFuZ2VJbmRleJSTlH2UKGhRTowFc3RhcnSUSwCMBHN0b3CUSwOMBHN0ZXCUSwF1hpRS"
    "lGWGlFKUjARfdHlwlIwJZGF0YWZyYW1llIwJX21ldGFkYXRhlF2UjAVhdHRyc5R9lIwGX2ZsYWdzlH2UjBdhbGxvd3NfZHVw"
    "bGljYXRlX2xhYmVsc5SIc3ViLg=="
)

#: USERS, made in other ways.
ALIKE: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda _, frame: frame,
    "added": lambda pd, frame: pd.DataFrame({"user": frame.user}).assign(
        weight=frame.weight, score=frame.score
    ),
    "reordered": lambda _, frame: frame[["score", "user", "weight"]][["user", "weight", "score"]],
    "selected": lambda pd, frame: pd.concat([frame, frame])[::2].sort_values("user"),
    "strided": lambda pd, frame: pd.concat([frame] * 2).sort_values("user", kind="stable")[::2],
    "rows": lambda pd, frame: pd.DataFrame(frame.to_dict("records")).astype(frame.dtypes),
    "labelled": lambda _, frame: frame.set_index(np.array([7, 7, 9])),
    "letters": lambda _, frame: frame.set_index(np.array(["a", "b", "c"], dtype=object)),
}
#: What is changed of it, so that NVTabular is to serve it.
OTHER: dict[str, Callable[[Any, Any], Any]] = {
    "dates": lambda pd, frame: frame.assign(at=pd.Timestamp("2020-01-01")),
    "categories": lambda _, frame: frame.assign(weight=frame.weight.astype("category")),
    "nullable": lambda _, frame: frame.assign(weight=frame.weight.astype("Int64")),
    "mixed": lambda _, frame: frame.assign(sizes=[[1], [2, 3.5], []]),
    "flag lists": lambda _, frame: frame.assign(sizes=[[True], [], []]),
    "empty lists": lambda _, frame: frame.assign(sizes=[[], [], []]),
    "empty arrays": lambda _, frame: frame.assign(sizes=[np.zeros(0)] * 3),
    "nested": lambda _, frame: frame.assign(sizes=[[[1]], [[2]], [[3]]]),
    "tuples": lambda _, frame: frame.assign(sizes=[(1,), (2,), (3,)]),
    "large in lists": lambda _, frame: frame.assign(sizes=[[2**63], [], []]),
    "gaps in lists": lambda _, frame: frame.assign(sizes=[["a", None], [], []]),
    "lists and texts": lambda _, frame: frame.assign(sizes=[["a"], "b", []]),
    "several arrays": lambda _, frame: frame.assign(
        sizes=[np.zeros(1), np.zeros(1, "int64"), np.zeros(1)]
    ),
    "matrices": lambda _, frame: frame.assign(sizes=[np.zeros((1, 1))] * 3),
    "narrow arrays": lambda _, frame: frame.assign(sizes=[np.zeros(1, "int16")] * 3),
    "only gaps": lambda _, frame: frame.assign(city=[None, None, None]),
    "gaps among keys": lambda _, frame: frame.assign(user=["a", None, "b"]),
    "zeros": lambda _, frame: frame.assign(city=["a", "b\0", ""]),
    "long": lambda _, frame: frame.assign(city=["a", "b", "c" * 8_000_000]),
    "words": lambda _, frame: frame.assign(user=["a", "b", "c"]),
    "flags": lambda _, frame: frame.assign(old=frame.weight > 3),
    "halves": lambda _, frame: frame.assign(score=frame.score.astype("float16")),
    "narrow": lambda _, frame: frame.assign(weight=frame.weight.astype("int16")),
    "unsigned": lambda _, frame: frame.assign(weight=frame.weight.astype("uint64")),
    "swapped": lambda _, frame: frame.assign(weight=frame.weight.to_numpy().astype(">i8")),
    "numbered": lambda _, frame: frame.rename(columns={"score": 7}),
    "twice": lambda _, frame: frame.rename(columns={"score": "weight"}),
    "levels": lambda pd, frame: frame.set_axis(
        pd.MultiIndex.from_tuples([("user", 1), ("weight", 1), ("score", 2)]), axis=1
    ),
    "named": lambda _, frame: frame.set_index("weight").assign(weight=[4, 2, 9]),
    "duplicate": lambda _, frame: frame.assign(user=[3, 5, 3]),
    "negative": lambda _, frame: frame.assign(user=[-3, 5, 8]),
    "large": lambda _, frame: frame.assign(user=[3, 5, 2**53]),
    "floats": lambda _, frame: frame.assign(user=[3.0, 5.0, 8.0]),
    "none": lambda _, frame: frame[:0],
    "other_key": lambda _, frame: frame.rename(columns={"user": "who"}),
    "collision": lambda _, frame: frame.rename(columns={"weight": "age"}),
    "own": lambda _, frame: frame.rename(columns={"weight": "__tmp__"}),
    "megabytes": lambda pd, _: pd.DataFrame({"user": np.arange(2_100_000)}),
}


def main() -> None:
    import pandas as pd

    frame = pd.DataFrame(COLUMNS)
    made = {name: make(pd, frame) for name, make in (ALIKE | OTHER).items()}
    pickles = {name: pickle.dumps(value, 5) for name, value in made.items()}
    pickles["protocol 4"] = pickle.dumps(frame, 4)
    text = {name: base64.b64encode(data).decode() for name, data in pickles.items()}
    json.dump(text, sys.stdout)


if __name__ == "__main__":
    main()
