"""What a model does differently when several replicas share a batch; with one of them, nothing.

Every replica is given the whole batch and embeds its own rows of it. The embeddings are gathered,
so that each replica has the losses of the whole batch, as one device would.
"""

from typing import TypeVar

import keras
import tensorflow as tf

Tensors = TypeVar("Tensors")


def replica_count() -> int:
    """How many replicas run the code that asks; 1 outside `tf.distribute`."""
    context = tf.distribute.get_replica_context()
    return context.num_replicas_in_sync if context else 1


def own_rows(whole: Tensors) -> Tensors:
    """The part of this replica: tensors [B, ...] -> [B / replicas, ...]."""
    replicas = replica_count()
    if replicas == 1:
        return whole
    number = tf.distribute.get_replica_context().replica_id_in_sync_group

    def part(tensor: tf.Tensor) -> tf.Tensor:
        rows = tf.shape(tensor)[0] // replicas
        return tensor[number * rows : (number + 1) * rows]

    return tf.nest.map_structure(part, whole)


def gather_rows(parts: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    """The inverse of `own_rows`: float32 [B / replicas, E] each -> [B, E].

    What comes back as gradient is the sum of those of all replicas.
    """
    if replica_count() == 1:
        return parts
    widths = [part.shape[1] for part in parts]
    # All at once: a message between machines costs more by its number than by its size.
    whole = tf.distribute.get_replica_context().all_gather(tf.concat(parts, axis=1), axis=0)
    return tuple(tf.split(whole, widths, axis=1))


def sum_over_replicas(value: Tensors) -> Tensors:
    """Tensors -> the same on every replica, each the sum of what the replicas gave."""
    if replica_count() == 1:
        return value
    return tf.distribute.get_replica_context().all_reduce("SUM", value)


@keras.saving.register_keras_serializable(package="clarel_tf")
class RowDropout(keras.layers.Dropout):
    """Dropout that draws for the whole batch, so that a row's mask is that of one device."""

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 [N, C] -> float32 [N, C]."""
        replicas = replica_count()
        if replicas == 1 or not training or not self.rate:
            return super().call(inputs, training=training)
        shape = tf.shape(inputs) * [replicas, 1]
        return inputs * own_rows(super().call(tf.ones(shape), training=True))
