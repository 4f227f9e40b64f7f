"""Operations for several replicas that share a batch; with one replica they do nothing.

Every replica receives the whole batch and embeds its own rows. The embeddings are gathered, so each
replica computes the losses of the whole batch, like a single device.
"""

from typing import TypeVar

import keras
import tensorflow as tf

Tensors = TypeVar("Tensors")


def replica_count() -> int:
    """The number of replicas; 1 outside `tf.distribute`."""
    context = tf.distribute.get_replica_context()
    return context.num_replicas_in_sync if context else 1


def own_rows(whole: Tensors) -> Tensors:
    """The rows of this replica: tensors [B, ...] -> [B / replicas, ...]."""
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

    Its gradient is the sum of the gradients of all replicas.
    """
    if replica_count() == 1:
        return parts
    widths = [part.shape[1] for part in parts]
    # In one message: the number of messages between machines costs more than their size.
    whole = tf.distribute.get_replica_context().all_gather(tf.concat(parts, axis=1), axis=0)
    return tuple(tf.split(whole, widths, axis=1))


def sum_over_replicas(value: Tensors) -> Tensors:
    """The sum over all replicas of each tensor."""
    if replica_count() == 1:
        return value
    return tf.distribute.get_replica_context().all_reduce("SUM", value)


@keras.saving.register_keras_serializable(package="clarel_tf")
class RowDropout(keras.layers.Dropout):
    """Dropout that draws masks for the whole batch, so that a row gets the mask of one device."""

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 [N, C] -> float32 [N, C]."""
        replicas = replica_count()
        if replicas == 1 or not training or not self.rate:
            return super().call(inputs, training=training)
        shape = tf.shape(inputs) * [replicas, 1]
        return inputs * own_rows(super().call(tf.ones(shape), training=True))
