"""The classes that the sentences of a request describe."""

from typing import NamedTuple

import tensorflow as tf

from clarel_tf.models.embedder import Embedder
from clarel_tf.serving.refusals import refuse_unless


class Described(NamedTuple):
    """N classes, in the order of their first sentences.

    Attributes:
      names: string [N].
      means: float32 [N, E], of the embedded sentences of each class.
      counts: int32 [N], sentences in each.
      known: float32 [N], the share of their words that the model knows.
    """

    names: tf.Tensor
    means: tf.Tensor
    counts: tf.Tensor
    known: tf.Tensor


def describe(model: Embedder, sentences: tf.Tensor, class_names: tf.Tensor) -> Described:
    """The classes of S sentences and the class name of each, string [S].

    A sentence without a word counts as one unknown word. Words after the last that the text tower
    reads are not counted.
    """
    check = refuse_unless(
        tf.equal(tf.size(sentences), tf.size(class_names)),
        "one class name is needed for each sentence",
    )
    with tf.control_dependencies([check]):
        names, rows, counts = tf.unique_with_counts(class_names)
    tower, many = model.text_tower, tf.size(names)
    token_ids = tower.tokenize(sentences)
    means = tf.math.unsorted_segment_mean(tower(token_ids), rows, many)
    words, known = (
        tf.math.unsorted_segment_sum(tf.reduce_sum(tf.cast(of_kind, tf.float32), 1), rows, many)
        for of_kind in (token_ids != tower.padding_id, tower.knows(token_ids))
    )
    return Described(names, means, counts, tf.math.divide_no_nan(known, words))
