"""`Clarel`: two towers, a classification head for each, and one training step."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from clarel_tf.config_sections import LossConfig, ModelConfig
from clarel_tf.errors import ClarelError
from clarel_tf.models import losses
from clarel_tf.models.distances import pairwise_distances
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.losses import METRICS
from clarel_tf.models.replicas import gather_rows, own_rows, replica_count
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.models.tower_trial import refuse_other_kinds, try_towers
from clarel_tf.models.towers import ImageTower, TextTower

Batch = dict[str, tf.Tensor]


@keras.saving.register_keras_serializable(package="clarel_tf")
class Clarel(Embedder):
    """Joint embedding of images and captions, trained by retrieval and classification.

    A batch is a dict:
      image_features: float32 [B, D].
      token_ids: int32 [B, K, T], K captions, tokenised by the text tower; an instance with fewer
        than K captions has rows of padding.
      label: int32 [B], index among the C classes of the heads.

    Example:

    ```python
    settings = ModelConfig(embedding_size=16, word_size=8, filters=(8, 8), lstm_units=8)
    towers = standard_towers(settings, ["a", "red", "blue", "bird"], feature_size=4)
    model = Clarel(*towers, num_classes=2)
    model.compile(optimizer="adam")
    captions = tf.constant(["a red bird", "a blue bird"])
    batch = {
        "image_features": tf.constant([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]),
        "token_ids": model.text_tower.tokenize(captions)[:, tf.newaxis],
        "label": tf.constant([0, 1]),
    }
    model.fit(tf.data.Dataset.from_tensors(batch), epochs=2, verbose=0)
    model.embed_images(batch["image_features"])  # float32 [2, 16]
    model.embed_texts(["a red bird", "a green bird"])  # float32 [2, 16]
    ```
    """

    def __init__(
        self,
        image_tower: ImageTower,
        text_tower: TextTower,
        num_classes: int,
        loss: LossConfig = LossConfig(),
        **kwargs: Any,
    ):
        """Builds all weights at once, since every size is known.

        Args:
          image_tower, text_tower: layers that follow the contract of `clarel_tf.models.towers`,
            built or not; `standard_towers` makes the paper's.
          num_classes: C, classes of the training split.
          loss: settings and weights of the losses.
        """
        kwargs.setdefault("name", "clarel")
        super().__init__(**kwargs)
        refuse_other_kinds(image_tower, text_tower)
        if image_tower.embedding_size != text_tower.embedding_size:
            raise ClarelError(
                f"the towers have no joint space: the image tower embeds in "
                f"{image_tower.embedding_size} dimensions, the text tower in "
                f"{text_tower.embedding_size}"
            )
        self.num_classes, self.loss_settings = num_classes, loss
        # The text tower first: checkpoints name variables by their position.
        self.text_tower = text_tower
        self.image_tower = image_tower
        self.text_classifier = keras.layers.Dense(num_classes, name="text_classifier")
        self.image_classifier = keras.layers.Dense(num_classes, name="image_classifier")
        self._averages = {name: keras.metrics.Mean(name=name) for name in METRICS}

        for layer, width in (
            (text_tower, text_tower.max_tokens),
            (image_tower, image_tower.input_size),
            (self.text_classifier, text_tower.embedding_size),
            (self.image_classifier, image_tower.embedding_size),
        ):
            if not layer.built:
                layer.build((None, width))
        try_towers(image_tower, text_tower)
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
        """(text retrieval loss, image retrieval loss), including mixup and the prototype loss."""
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
        """Takes one step of the optimiser; returns the values of `compute_losses`."""
        with tf.GradientTape() as tape:
            values = self.compute_losses(batch, training=True)
            # Every replica has the loss of the whole batch; gradients are summed over replicas.
            loss = values["loss"] / replica_count()
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        # With kappa = 0 or 1 some variables have no gradient; the gradient of a gather is sparse.
        gradients = [
            tf.zeros_like(variable) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        self.optimizer.apply(gradients, variables)
        return values

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        return self.update_averages(self.compute_losses(batch, training=False), batch)

    def update_averages(self, values: dict[str, tf.Tensor], batch: Batch) -> dict[str, tf.Tensor]:
        """Adds the values of a batch to the metrics; returns their means so far."""
        # Weighted by instances: the last batch of a split may be smaller.
        instances = tf.shape(batch["label"])[0]
        for name, average in self._averages.items():
            average.update_state(values[name], sample_weight=instances)
        return {name: average.result() for name, average in self._averages.items()}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return list(self._averages.values())

    def get_config(self) -> dict[str, Any]:
        return {
            "image_tower": keras.saving.serialize_keras_object(self.image_tower),
            "text_tower": keras.saving.serialize_keras_object(self.text_tower),
            "num_classes": self.num_classes,
            "loss": dataclasses.asdict(self.loss_settings),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Clarel":
        """The model that `get_config` describes, with fresh weights."""
        loss = LossConfig(**config["loss"])
        if "text_tower" not in config:  # a config of version 0.1, which built its towers itself
            settings = ModelConfig(**config["model"])
            words = config["vocabulary"], config["feature_size"], config["frozen_words"]
            made = standard_towers(settings, *words)
            return cls(*made, config["num_classes"], loss, name=config["name"])
        towers = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("image_tower", "text_tower")
        }
        return cls(**{**config, **towers, "loss": loss})
