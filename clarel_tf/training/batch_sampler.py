"""The batch sampler: which classes are in a batch, and with how many instances each."""

import numpy as np
import tensorflow as tf

_SMALLEST = 1e-6  # lower bound of a random key, because its logarithm is taken
_BLOCK = 4096  # images at a time, so that memory does not grow with their number


def class_balanced_keys(
    keys: tf.Tensor, labels: tf.Tensor, class_keys: tf.Tensor, per_class: int
) -> tf.Tensor:
    """Keys that order instances by class: `per_class` of the first class, then of the next, ...

    After the last class the order continues with `per_class` more of each class, so that a batch
    can be filled from few or small classes.

    Args:
      keys: float32 [N], random, in [0, 1); they order the instances of a class.
      labels: int32 [N], in [0, C).
      class_keys: float32 [C], random, in [0, 1); they order the classes.
      per_class: instances taken from a class at a time.

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
    """Similarity of the mean images of C classes, in standard deviations from the mean.

    It is the cosine of centred means of the roots of the features. Without the root, a few large
    features would dominate (see `FeatureTower`).

    Args:
      features: float32 [N, D].
      labels: int [N].

    Returns:
      float32 [C, C], in the order of the labels; 0 where no similarity is defined.
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
    """Keys that put a uniformly drawn class first and classes similar to it next.

    Similar classes in a batch are harder negatives than classes that are easy to tell apart. The
    class with the largest key comes first. The others are drawn without replacement, with
    probabilities proportional to exp(preference).

    Args:
      class_keys: float32 [C], random, in [0, 1).
      preferences: float32 [C, C], of the class in the row for the class in the column.

    Returns:
      float32 [C], in [0, 1).
    """
    count = tf.size(class_keys)
    first = tf.argmax(class_keys, output_type=tf.int32)
    # Below the largest key, keys are uniform. The top logits plus Gumbel noise are a random draw.
    uniform = class_keys / tf.maximum(tf.reduce_max(class_keys), _SMALLEST)
    noise = -tf.math.log(-tf.math.log(tf.clip_by_value(uniform, _SMALLEST, 1.0 - _SMALLEST)))
    logits = tf.where(tf.range(count) == first, np.inf, noise + tf.gather(preferences, first))
    ranks = tf.argsort(tf.argsort(logits))
    return tf.cast(ranks, tf.float32) / tf.cast(count, tf.float32)
