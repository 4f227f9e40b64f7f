"""Tries towers before training: refuses those that break the contract of `towers.py`."""

import numbers
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError, brief
from clarel_tf.models.towers import ImageTower, TextTower


def refuse_other_kinds(image_tower: Any, text_tower: Any) -> None:
    """Raises ClarelError unless both are towers, each in its place, with sizes."""
    for tower, base, name, sizes in (
        (image_tower, ImageTower, "image tower", ("input_size", "embedding_size")),
        (text_tower, TextTower, "text tower", ("max_tokens", "embedding_size")),
    ):
        if isinstance(tower, type):
            raise ClarelError(
                f"the {name} is the class {tower.__name__}; give an object of it, "
                f"{tower.__name__}(...)"
            )
        if not isinstance(tower, base):
            kind = type(tower).__name__
            is_other = isinstance(tower, ImageTower | TextTower)
            remedy = (
                "the image tower comes first, then the text tower"
                if is_other
                else (f"make {kind} a subclass of it, see clarel_tf/models/towers.py")
            )
            raise ClarelError(
                f"the {name} must be a clarel_tf.{base.__name__}, not {kind}; {remedy}"
            )
        for size in sizes:
            value: Any = getattr(tower, size, None)
            is_size = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not is_size or value < 1:
                raise _breach(tower, f"{size} must be a positive integer, not {value!r}")


def try_towers(image_tower: ImageTower, text_tower: TextTower) -> None:
    """Calls both built towers on a few rows; raises ClarelError if one breaks the contract."""
    images = tf.ones([3, image_tower.input_size])
    _try_call(image_tower, images)
    texts = tf.constant(["a small red bird", "", "Unheard-of, words!"])
    token_ids = _try_tokenize(text_tower, texts)
    padding = tf.fill([1, text_tower.max_tokens], text_tower.padding_id)
    embeddings = _try_call(text_tower, tf.concat([token_ids, padding], axis=0))
    if not np.isfinite(embeddings[-1]).all():
        raise _breach(
            text_tower,
            "its output for a row of padding has NaN or infinite values, which would spoil the "
            "mean of the captions; divide by tf.maximum(count, 1.0), for example",
        )


def _try_tokenize(tower: TextTower, texts: tf.Tensor) -> tf.Tensor:
    if type(tower).tokenize is TextTower.tokenize and "tokenize" not in vars(tower):
        raise _breach(tower, "it does not define tokenize")
    token_ids = _tried(tower, "tokenize", lambda: tower.tokenize(texts))
    if isinstance(token_ids, tf.RaggedTensor):
        raise _breach(
            tower, "tokenize gives a ragged tensor; use to_tensor(padding_id, [None, max_tokens])"
        )
    _refuse_other_output(tower, "tokenize", token_ids, tf.int32, (len(texts), tower.max_tokens))
    return token_ids


def _try_call(tower: ImageTower | TextTower, inputs: tf.Tensor) -> np.ndarray:
    count = len(tower.variables)
    embeddings = _tried(tower, "call", lambda: tower(inputs, training=False))
    _refuse_other_output(tower, "call", embeddings, tf.float32, (len(inputs), tower.embedding_size))
    late = _late_layers(tower)
    if len(tower.variables) != count or late:
        what = f"layer {late[0]!r} has no weights" if late else "more weights appear in its call"
        raise _breach(
            tower,
            f"after build, {what}, so they would be lost when the model is saved; build every "
            "layer in the tower's build, e.g. self.head.build(input_shape)",
        )
    return embeddings.numpy()


def _late_layers(tower: keras.layers.Layer) -> list[str]:
    """Names of the tower's layers that make weights in `build`, which nobody has called."""
    # Not of Keras' list of layers, which also has those that a subclass has replaced.
    held: list[Any] = []
    for name, value in vars(tower).items():
        if name != "_layers":
            parts = value.values() if isinstance(value, dict) else value
            held += parts if isinstance(value, dict | list | tuple) else [value]
    layers = [part for part in held if isinstance(part, keras.layers.Layer)]
    own_build = keras.layers.Layer.build
    return [one.name for one in layers if not one.built and type(one).build is not own_build]


def _tried(tower: ImageTower | TextTower, method: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ClarelError:
        raise
    except Exception as error:  # of the tower's own code, so it can be of any kind
        raise _breach(tower, f"{method} fails in a trial ({brief(error)})") from error


def _refuse_other_output(
    tower: ImageTower | TextTower,
    method: str,
    found: Any,
    dtype: tf.DType,
    shape: tuple[int, int],
) -> None:
    if not isinstance(found, tf.Tensor):
        described = f"a {type(found).__name__}"
    else:
        described = f"{found.dtype.name} {list(found.shape)}"
    if described != f"{dtype.name} {list(shape)}":
        width = "max_tokens" if method == "tokenize" else "embedding_size"
        raise _breach(
            tower,
            f"{method} must give {dtype.name} [N, {width}], here {list(shape)}, not {described}",
        )


def _breach(tower: ImageTower | TextTower, what: str) -> ClarelError:
    side = "image" if isinstance(tower, ImageTower) else "text"
    return ClarelError(
        f"{side} tower {type(tower).__name__}: {what} (contract: clarel_tf/models/towers.py)"
    )
