"""Writes the SavedModels of test_tensorflow.py; run by the models' Python that has keras.

python make_saved_models.py DIRECTORY -> DIRECTORY/<name>/
"""
# tensorflow's classes and decorators are Any where it is not installed, as in the server's
# environment:
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf


class Signatures(tf.Module):
    """Not symmetric, so that swapped inputs are seen; the scale is a variable to be restored."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(10.0)

    @tf.function
    def difference(self, left: Any, right: Any) -> dict[str, Any]:
        return {"y": (left - right) * self.scale, "same": left}

    @tf.function
    def joined(self, words: Any) -> dict[str, Any]:
        return {"longer": tf.strings.join([words, "!"]), "count": tf.size(words)}

    @tf.function
    def brain(self, left: Any) -> dict[str, Any]:
        return {"y": tf.cast(left, tf.bfloat16)}


class Checked(tf.Module):
    """Fails for a negative value, which only a run tells."""

    @tf.function
    def root(self, x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="negative")]):
            return {"y": tf.sqrt(x)}


def main(directory: Path) -> None:
    def floats(*shape: int | None) -> Any:
        return tf.TensorSpec(shape, tf.float32)

    module = Signatures()
    signatures = {
        "serving_default": module.difference.get_concrete_function(floats(None), floats(None)),
        "wide": module.difference.get_concrete_function(floats(None, 3), floats(None, 3)),
        "words": module.joined.get_concrete_function(tf.TensorSpec((None,), tf.string)),
        "brain": module.brain.get_concrete_function(floats(None)),
    }
    tf.saved_model.save(module, str(directory / "several"), signatures)
    other = {"other": signatures["serving_default"]}
    tf.saved_model.save(module, str(directory / "renamed"), other)
    checked = Checked()
    root = checked.root.get_concrete_function(floats(None))
    tf.saved_model.save(checked, str(directory / "checked"), {"serving_default": root})
    (directory / "garbage").mkdir()
    (directory / "garbage/saved_model.pb").write_bytes(b"no SavedModel")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
