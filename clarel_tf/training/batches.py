"""Random training batches of a split, as a function of seed and step.

Batch number s depends only on the seed and on s. So a run that resumes at step s sees the same
batches as an uninterrupted run, and no state of the input pipeline has to be saved.
"""

import numpy as np
import tensorflow as tf

from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.models.towers import TextTower
from clarel_tf.models.vocabulary import TokenizedCaptions, tokenize_captions
from clarel_tf.training.batch_sampler import class_balanced_keys, class_similarities, prefer_similar


def captions_by_instance(
    captions: TokenizedCaptions, instances: int, padding_id: int
) -> np.ndarray:
    """Token ids, int32 [N, K, T], with K the largest number of captions; others are padded."""
    counts = np.bincount(captions.instance, minlength=instances)
    first = np.cumsum(counts) - counts
    position = np.arange(len(captions.instance)) - first[captions.instance]
    shape = (instances, max(counts.max(), 1), captions.token_ids.shape[1])
    stacked = np.full(shape, padding_id, np.int32)
    stacked[captions.instance, position] = captions.token_ids
    return stacked


def training_batches(
    split: Split,
    classes: np.ndarray,
    text_tower: TextTower,
    *,
    batch_size: int,
    captions: int,
    seed: int,
    first_step: int,
    steps: int,
    instances_per_class: int = 0,
    similar_classes: float = 0.0,
    word_dropout: float = 0.0,
) -> tf.data.Dataset:
    """Batches number `first_step` to `steps` - 1 of `split`, as `Clarel` takes them.

    Each batch holds `batch_size` different instances drawn uniformly, each with all its captions
    (`captions` = 0) or with that many drawn without replacement. An image without captions has
    some of its class (`Split.with_borrowed_captions`).

    Args:
      instances_per_class: draw classes uniformly instead, each with this many instances
        (`class_balanced_keys`); 0 draws instances.
      similar_classes: how strongly similar classes are preferred (`prefer_similar`).
      word_dropout: each word of the batch becomes the unknown word with this probability.
      classes: the labels of the training classes, sorted; a batch's label is an index into it.
      text_tower: tokenises the captions and defines the ids of padding and of unknown words.
    """
    if batch_size > len(split):
        raise ClarelError(
            f"batch_size is {batch_size}, but split {split.name!r} has only {len(split)} "
            f"instances; set --batch_size to at most {len(split)}"
        )
    split = split.with_borrowed_captions()
    without = [i for i, of_instance in enumerate(split.captions) if not of_instance]
    if without:
        raise ClarelError(
            f"split {split.name!r}: image '{split.image_ids[without[0]]}' has no caption, and "
            f"neither has its class ({len(without)} such images)"
        )
    padding_id, unknown_id = text_tower.padding_id, text_tower.unknown_id
    tokenized = tokenize_captions(split.captions, text_tower)
    token_ids = captions_by_instance(tokenized, len(split), padding_id)
    features = tf.constant(split.image_features)
    token_ids = tf.constant(token_ids)
    labels = tf.constant(np.searchsorted(classes, split.labels).astype(np.int32))
    if similar_classes:
        similarities = class_similarities(split.image_features, split.labels)
        preferences = tf.constant(similar_classes * similarities)
    kept_captions = min(captions, token_ids.shape[1]) or token_ids.shape[1]

    def draw(step: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds = tf.stack([tf.constant(seed, tf.int64), step])
        # The largest random keys: a uniform draw without replacement.
        keys = tf.random.stateless_uniform([len(split)], seeds)
        if instances_per_class:
            class_keys = tf.random.stateless_uniform([len(classes)], -seeds - 1)
            if similar_classes:
                class_keys = prefer_similar(class_keys, preferences)
            keys = class_balanced_keys(keys, labels, class_keys, instances_per_class)
        chosen = tf.math.top_k(keys, batch_size, sorted=False).indices
        ids = tf.gather(token_ids, chosen)
        if kept_captions < token_ids.shape[1]:
            keys = tf.random.stateless_uniform(
                [batch_size, token_ids.shape[1]], tf.stack([seeds[0], -1 - step])
            )
            # Rows without a caption come last.
            keys = tf.where(ids[:, :, 0] != padding_id, keys, -1.0)
            order = tf.math.top_k(keys, kept_captions, sorted=False).indices
            ids = tf.gather(ids, order, batch_dims=1)
        if word_dropout:
            kept = tf.random.stateless_uniform(tf.shape(ids), [-1 - seeds[0], step]) >= word_dropout
            ids = tf.where(kept | (ids == padding_id), ids, unknown_id)
        return {
            "image_features": tf.gather(features, chosen),
            "token_ids": ids,
            "label": tf.gather(labels, chosen),
        }

    batches = tf.data.Dataset.range(first_step, steps)
    return batches.map(draw, num_parallel_calls=2, deterministic=True).prefetch(4)
