"""`Clarel`: the two towers, their classification heads, and one training step."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from clarel_tf.config import LossConfig, ModelConfig
from clarel_tf.models import losses
from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.image_tower import ImageTower
from clarel_tf.models.losses import METRICS
from clarel_tf.models.replicas import gather_rows, own_rows, replica_count
from clarel_tf.models.text_tower import TextTower
from clarel_tf.models.vocabulary import Tokenizer

Batch = dict[str, tf.Tensor]


@keras.saving.register_keras_serializable(package="clarel_tf")
class Clarel(Embedder):
    """Joint embedding of images and captions, trained by retrieval and classification.

    A batch is a dict:
      image_features: float32 [B, D].
      token_ids: int32 [B, K, T], K captions of T tokens, padded with 0; an instance with fewer
        than K captions has rows of zeros.
      label: int32 [B], index among the C classes of the heads.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        feature_size: int,
        num_classes: int,
        model: ModelConfig | dict[str, Any] = ModelConfig(),
        loss: LossConfig | dict[str, Any] = LossConfig(),
        frozen_words: bool = False,
        **kwargs,
    ):
        """Builds all weights at once: every size is known here.

        Args:
          vocabulary: words, as `build_vocabulary` returns them.
          feature_size: D, width of the image features.
          num_classes: C, classes of the training split.
          model, loss: settings, as dataclasses or as their dicts.
          frozen_words: keep word vectors as they are set (`text_tower.set_word_vectors`).
        """
        kwargs.setdefault("name", "clarel")
        super().__init__(**kwargs)
        settings = model if isinstance(model, ModelConfig) else ModelConfig(**model)
        self.vocabulary = list(vocabulary)
        self.feature_size, self.num_classes = feature_size, num_classes
        self.frozen_words = frozen_words
        self.model_settings = settings
        self.loss_settings = loss if isinstance(loss, LossConfig) else LossConfig(**loss)

        self.tokenizer = Tokenizer(self.vocabulary, settings.max_tokens, name="tokenizer")
        self.text_tower = TextTower(
            vocabulary_size=len(self.vocabulary),
            word_size=settings.word_size,
            filters=settings.filters,
            lstm_units=settings.lstm_units,
            embedding_size=settings.embedding_size,
            dropout=settings.text_dropout,
            train_words=not frozen_words,
            momentum=settings.batch_norm_momentum,
            epsilon=settings.batch_norm_epsilon,
            l2=settings.l2,
            pooling=settings.text_pooling,
            name="text_tower",
        )
        self.image_tower = ImageTower(
            settings.embedding_size,
            settings.image_dropout,
            settings.feature_power,
            name="image_tower",
        )
        self.text_classifier = keras.layers.Dense(num_classes, name="text_classifier")
        self.image_classifier = keras.layers.Dense(num_classes, name="image_classifier")
        self._averages = {name: keras.metrics.Mean(name=name) for name in METRICS}

        self.text_tower.build()
        self.image_tower.build((None, feature_size))
        for classifier in (self.text_classifier, self.image_classifier):
            classifier.build((None, settings.embedding_size))
        self.built = True
        self.compile_embedders()

    def call(self, batch: Batch, training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """(image embeddings, text embeddings), both float32 [B, E]."""
        images = self.image_tower(batch["image_features"], training=training)
        return images, self.text_tower.embed_means(batch["token_ids"], training=training)

    def compute_losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Every quantity in `METRICS`, by name; "loss" is what training minimises."""
        images, texts = gather_rows(self(own_rows(batch), training=training))
        labels = batch["label"]
        distances = pairwise_distances(images, texts)
        values = {}
        values["text_retrieval"], values["image_retrieval"] = self._retrieval_terms(
            images, texts, distances, labels
        )
        values["text_classification"] = losses.classification_loss(
            self.text_classifier(texts), labels
        )
        values["image_classification"] = losses.classification_loss(
            self.image_classifier(images), labels
        )
        mixed = losses.mix_losses(
            **values, lambda_=self.loss_settings.lambda_, kappa=self.loss_settings.kappa
        )
        values["l2"] = tf.add_n(self.losses) if self.losses else tf.zeros([])
        values["loss"] = mixed + values["l2"]
        values["text_retrieval_accuracy"], values["image_retrieval_accuracy"] = (
            losses.retrieval_accuracies(distances)
        )
        return values

    def _retrieval_terms(
        self, images: tf.Tensor, texts: tf.Tensor, distances: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """(text retrieval, image retrieval), with mixtures and class means in their shares."""
        settings = self.loss_settings
        scale = settings.distance_scale
        terms = losses.retrieval_losses(
            distances * scale, labels if settings.mask_same_class else None
        )
        if settings.mixture_share:
            mixed = losses.mixture_losses(images, texts, scale)
            terms = losses.blend(terms, mixed, settings.mixture_share)
        if settings.prototype_share:
            of_classes = losses.prototype_losses(images, texts, labels, scale)
            terms = losses.blend(terms, of_classes, settings.prototype_share)
        return terms

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        return self.update_averages(self.learn(batch), batch)

    def learn(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Takes a step of the optimiser and gives what `compute_losses` gave."""
        with tf.GradientTape() as tape:
            values = self.compute_losses(batch, training=True)
            # Every replica has the loss of the whole batch, and their gradients are added up.
            loss = values["loss"] / replica_count()
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        # With kappa at 0 or 1 some variables have no gradient; a gather has a sparse one.
        gradients = [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        self.optimizer.apply(gradients, variables)
        return values

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        return self.update_averages(self.compute_losses(batch, training=False), batch)

    def update_averages(self, values: dict[str, tf.Tensor], batch: Batch) -> dict[str, tf.Tensor]:
        """Adds the values of a batch to the metrics, and gives their means so far."""
        # Weighted by instances: the last batch of a split may be smaller.
        instances = tf.shape(batch["label"])[0]
        for name, average in self._averages.items():
            average.update_state(values[name], sample_weight=instances)
        return {name: average.result() for name, average in self._averages.items()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return list(self._averages.values())

    def get_config(self):
        return {
            "vocabulary": self.vocabulary,
            "feature_size": self.feature_size,
            "num_classes": self.num_classes,
            "model": dataclasses.asdict(self.model_settings),
            "loss": dataclasses.asdict(self.loss_settings),
            "frozen_words": self.frozen_words,
            "name": self.name,
        }
