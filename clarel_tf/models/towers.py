"""The contract of the two towers: the interface of Keras layers that embed images or texts.

A custom tower is a subclass of `ImageTower` or `TextTower`, registered with Keras so that a saved
model can be loaded. Training, evaluation, saving and export use only this interface. Variables are
created in `__init__` or in `build`, which is called once with the shape of the input: (None,
input_size) or (None, max_tokens). `Clarel` tries both towers once and refuses what breaks the
contract.

With several devices a tower sees only the rows of its replica. `replicas.RowDropout` draws the
masks of one device. A batch norm must sum over replicas with `replicas.sum_over_replicas`.
"""

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError, brief


class ImageTower(keras.layers.Layer):
    """Embeds images in the joint space: float32 [B, input_size] -> float32 [B, embedding_size].

    A subclass sets both sizes, and defines `call(image_features, training=False)` and `get_config`.

    Attributes:
      input_size: D, width of the image features.
      embedding_size: E, the same as that of the text tower.

    Example:

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    class LinearTower(ImageTower):
        def __init__(self, input_size, embedding_size, **kwargs):
            super().__init__(**kwargs)
            self.input_size, self.embedding_size = input_size, embedding_size
            self.head = keras.layers.Dense(embedding_size)

        def build(self, input_shape):
            self.head.build(input_shape)

        def call(self, image_features, training=False):
            return self.head(image_features)

        def get_config(self):
            sizes = {"input_size": self.input_size, "embedding_size": self.embedding_size}
            return {**super().get_config(), **sizes}
    ```
    """

    input_size: int
    embedding_size: int


class TextTower(keras.layers.Layer):
    """Embeds sentences in the joint space, and defines tokens, padding and unknown words.

    A subclass sets `embedding_size` and `max_tokens`, and defines `tokenize`, `get_config` and
    `call(token_ids, training=False)`: int32 [N, max_tokens] -> float32 [N, embedding_size]. A row
    with padding only means no caption. Its output has no meaning, but must be finite.

    Attributes:
      embedding_size: E, the same as that of the image tower.
      max_tokens: T, token ids of a sentence.
      padding_id: fills a row after its last token; never the first token of a sentence.
      unknown_id: id of a word outside the vocabulary; `word_dropout` inserts it.
      vocabulary: the words of the tower; empty if it has no list of words.
      frozen_words: True if word vectors come from a file and are not trained. Such a tower has
        `word_size` and `with_words`, so its vocabulary can be extended after training.

    Example:

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    class HashTower(TextTower):
        def __init__(self, embedding_size, max_tokens, buckets=1000, **kwargs):
            super().__init__(**kwargs)
            self.embedding_size, self.max_tokens, self.buckets = embedding_size, max_tokens, buckets
            self.vectors = keras.layers.Embedding(2 + buckets, embedding_size)

        def build(self, input_shape):
            self.vectors.build(input_shape)

        def tokenize(self, texts):
            words = tf.strings.split(texts)
            ids = tf.strings.to_hash_bucket_fast(words, self.buckets)
            ids = tf.cast(ids.to_tensor(-2, shape=[None, self.max_tokens]), tf.int32) + 2
            is_empty = ids[:, :1] == self.padding_id
            return tf.concat([tf.where(is_empty, self.unknown_id, ids[:, :1]), ids[:, 1:]], 1)

        def call(self, token_ids, training=False):
            is_word = tf.cast(token_ids != self.padding_id, tf.float32)[:, :, tf.newaxis]
            return tf.reduce_sum(self.vectors(token_ids) * is_word, axis=1)

        def get_config(self):
            names = ("embedding_size", "max_tokens", "buckets")
            return {**super().get_config(), **{name: getattr(self, name) for name in names}}
    ```
    """

    embedding_size: int
    max_tokens: int
    padding_id: int = 0
    unknown_id: int = 1
    vocabulary: Sequence[str] = ()
    frozen_words: bool = False

    def tokenize(self, texts: tf.Tensor) -> tf.Tensor:
        """Sentences, string [N] -> int32 [N, max_tokens], with core TensorFlow operations only.

        It runs inside exported graphs. An empty sentence becomes the token `unknown_id`.
        """
        raise NotImplementedError

    def knows(self, token_ids: tf.Tensor) -> tf.Tensor:
        """True for tokens that say something to the tower: int32 [N, T] -> bool [N, T].

        Padding and unknown words are not known.
        """
        return (token_ids != self.padding_id) & (token_ids != self.unknown_id)

    def embed_means(self, token_ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The mean embedding of the captions of each instance.

        Args:
          token_ids: int32 [B, K, T]; an instance with fewer than K captions has rows of padding.

        Returns:
          float32 [B, embedding_size].
        """
        flat = tf.reshape(token_ids, [-1, token_ids.shape[2]])
        shape = [-1, tf.shape(token_ids)[1], self.embedding_size]
        return self.mean_of_captions(tf.reshape(self(flat, training=training), shape), token_ids)

    def mean_of_captions(self, vectors: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
        """Means over the captions that are not padding: float32 [B, K, W] -> [B, W]."""
        is_caption = tf.cast(token_ids[:, :, :1] != self.padding_id, tf.float32)
        counts = tf.maximum(tf.reduce_sum(is_caption, axis=1), 1.0)
        return tf.reduce_sum(vectors * is_caption, axis=1) / counts

    def export_resources(self) -> list:
        """Layers and tables, besides variables, that an export must track.

        Examples are a lookup layer (built) and a `tf.lookup` table; weights do not belong here.
        """
        return []

    def with_words(self, words: Sequence[str], vectors: np.ndarray) -> "TextTower":
        """A copy with another vocabulary; only for a tower with `frozen_words`.

        Args:
          words: W words.
          vectors: float32 [W, word_size].
        """
        raise NotImplementedError


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
