"""The model of the paper in plain Keras: the reference for benchmarks and tests of `Clarel`.

Layers, losses, regularisation and optimiser equal those of `Clarel`. Captions are padded to the
limit, and the packed layers are not used.
"""

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.models import losses
from clarel_tf.models.clarel import Batch, Clarel
from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.losses import METRICS
from tests.helpers.plain_text_tower import PlainTextTower


class PlainClarel(keras.Model):
    """A plain model with the sizes, settings and weights of a `Clarel`; takes the same batches."""

    def __init__(self, original: Clarel):
        super().__init__(name="plain_clarel")
        self.loss_settings = original.loss_settings
        self.text_tower = PlainTextTower(original.text_tower, original.text_tower.dropout.rate)
        self.text_tower.embedding.trainable = not original.text_tower.frozen_words
        self.image_dropout = keras.layers.Dropout(original.image_tower.dropout.rate)
        self.image_head = _copy_of(original.image_tower.head)
        self.text_classifier = _copy_of(original.text_classifier)
        self.image_classifier = _copy_of(original.image_classifier)
        self._averages = {name: keras.metrics.Mean(name=name) for name in METRICS}
        # The authors' half-sum form, on convolutions and on gamma and beta of the batch norms.
        for block in self.text_tower.blocks:
            penalised = [conv.kernel for conv in [*block.convs, block.shortcut]]
            for norm in [*block.norms, block.shortcut_norm]:
                penalised += [norm.gamma, norm.beta]
            for variable in penalised:
                variable.regularizer = keras.regularizers.L2(original.text_tower.l2 / 2)
        self.built = True

    def call(self, batch: Batch, training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """(image embeddings, text embeddings), both float32 [B, E]; no caption is padding."""
        token_ids = batch["token_ids"]
        _, captions, limit = token_ids.shape
        flat = tf.reshape(token_ids, [-1, limit])
        embedded = self.text_tower(flat, training=training)
        texts = tf.reduce_mean(tf.reshape(embedded, [-1, captions, embedded.shape[1]]), axis=1)
        features = self.image_dropout(batch["image_features"], training=training)
        return self.image_head(features), texts

    def compute_losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Every quantity in `METRICS`, by name."""
        images, texts = self(batch, training=training)
        labels, settings = batch["label"], self.loss_settings
        distances = pairwise_distances(images, texts)
        text_retrieval, image_retrieval = losses.retrieval_losses(distances)
        parts = {
            "text_retrieval": text_retrieval,
            "image_retrieval": image_retrieval,
            "text_classification": losses.classification_loss(self.text_classifier(texts), labels),
            "image_classification": losses.classification_loss(
                self.image_classifier(images), labels
            ),
        }
        l2 = tf.add_n(self.losses)
        loss = losses.mix_losses(**parts, lambda_=settings.lambda_, kappa=settings.kappa) + l2
        accuracies = losses.retrieval_accuracies(distances)
        return {
            **parts,
            "l2": l2,
            "loss": loss,
            "text_retrieval_accuracy": accuracies[0],
            "image_retrieval_accuracy": accuracies[1],
        }

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            values = self.compute_losses(batch, training=True)
        gradients = tape.gradient(values["loss"], self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        for name, average in self._averages.items():
            average.update_state(values[name])
        return {name: average.result() for name, average in self._averages.items()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return list(self._averages.values())


def plain_optimizer(learning_rate: float = 0.1) -> keras.optimizers.Optimizer:
    """SGD of the paper, with each gradient clipped separately."""
    return keras.optimizers.SGD(learning_rate, momentum=0.9, clipnorm=1.0)


def _copy_of(layer: keras.layers.Dense) -> keras.layers.Dense:
    weights: list[np.ndarray] = layer.get_weights()
    copy = keras.layers.Dense(weights[0].shape[1])
    copy.build((None, weights[0].shape[0]))
    copy.set_weights(weights)
    return copy
