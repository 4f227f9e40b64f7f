"""Which classes meet in a batch, and with how many instances each."""

import numpy as np
import tensorflow as tf

_SMALLEST = 1e-6  # of a random key, whose logarithm is taken
_BLOCK = 4096  # images at a time, so that memory does not grow with their number


def class_balanced_keys(
    keys: tf.Tensor, labels: tf.Tensor, class_keys: tf.Tensor, per_class: int
) -> tf.Tensor:
    """Keys whose largest are `per_class` instances of one class, then of the next, and so on.

    When all classes have given that many, each gives as many again: a batch can be filled from
    classes that are few or small.

    Args:
      keys: float32 [N], random, in [0, 1); their order is that of the instances of a class.
      labels: int32 [N], in [0, C).
      class_keys: float32 [C], random, in [0, 1); their order is that of the classes.
      per_class: instances that a class gives at a time.

    Returns:
      float32 [N].
    """
    order = tf.argsort(keys, direction="DESCENDING")
    order = tf.gather(order, tf.argsort(tf.gather(labels, order), stable=True))
    counts = tf.math.bincount(labels, minlength=tf.size(class_keys))
    first = tf.gather(tf.cumsum(counts, exclusive=True), tf.gather(labels, order))
    turn = (tf.range(tf.size(labels)) - first) // per_class
    turn = tf.tensor_scatter_nd_update(tf.zeros_like(turn), order[:, tf.newaxis], turn)
    return tf.gather(class_keys, labels) - tf.cast(turn, tf.float32)


def class_similarities(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How much the mean images of C classes look alike, in standard deviations from the mean.

    The cosine of centred means of roots of the features: without the root a few large features
    would decide (see `ImageTower`).

    Args:
      features: float32 [N, D].
      labels: int [N].

    Returns:
      float32 [C, C], in the order of the labels; 0 where nothing can be compared.
    """
    classes, rows = np.unique(labels, return_inverse=True)
    means = np.zeros((len(classes), features.shape[1]))
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK]
        np.add.at(means, rows[start : start + _BLOCK], np.sign(block) * np.sqrt(np.abs(block)))
    means /= np.bincount(rows)[:, np.newaxis]
    means -= means.mean(axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), _SMALLEST)
    cosines = means @ means.T
    return ((cosines - cosines.mean()) / max(cosines.std(), _SMALLEST)).astype(np.float32)


def prefer_similar(class_keys: tf.Tensor, preferences: tf.Tensor) -> tf.Tensor:
    """Keys whose largest are a class drawn uniformly, and then classes that it prefers.

    Classes that look alike teach more about what tells them apart than classes that nobody would
    confuse. The class with the largest key comes first; the others follow without replacement, each
    time with probabilities that are proportional to exp(preference).

    Args:
      class_keys: float32 [C], random, in [0, 1).
      preferences: float32 [C, C], of the class of the row for others.

    Returns:
      float32 [C], in [0, 1).
    """
    count = tf.size(class_keys)
    first = tf.argmax(class_keys, output_type=tf.int32)
    # Below the largest of them, keys are uniform; the largest logits with Gumbel noise are a draw.
    uniform = class_keys / tf.maximum(tf.reduce_max(class_keys), _SMALLEST)
    noise = -tf.math.log(-tf.math.log(tf.clip_by_value(uniform, _SMALLEST, 1.0 - _SMALLEST)))
    logits = tf.where(tf.range(count) == first, np.inf, noise + tf.gather(preferences, first))
    ranks = tf.argsort(tf.argsort(logits))
    return tf.cast(ranks, tf.float32) / tf.cast(count, tf.float32)
