"""Zero-shot evaluation of a model: embeddings, prototypes, one distance matrix, then NumPy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.calibration import NearestClasses, alpha_curve, gzsl_scores, nearest_classes
from clarel_tf.dataset_loading import Split
from clarel_tf.distances import pairwise_distances_numpy
from clarel_tf.input_pipeline import tokenize_captions
from clarel_tf.metrics import per_class_accuracy
from clarel_tf.model import Clarel
from clarel_tf.prototypes import class_prototypes


class Evaluation(NamedTuple):
    """What all zero-shot measures are computed from.

    Attributes:
      seen_images, unseen_images: nearest classes of the query images of each kind.
      seen_labels, unseen_labels: int [N], their true classes.
    """

    seen_images: NearestClasses
    seen_labels: np.ndarray
    unseen_images: NearestClasses
    unseen_labels: np.ndarray

    def zsl(self) -> float:
        """Top-1 of the unseen images against the unseen classes alone, averaged per class."""
        return per_class_accuracy(self.unseen_images.unseen, self.unseen_labels)

    def gzsl(self, alpha: float) -> dict[str, float]:
        """u, s and H against all classes."""
        return gzsl_scores(*self, alpha)._asdict()

    def alpha_curve(self) -> list[dict[str, float]]:
        """u, s and H over the whole range of alpha that changes anything."""
        return alpha_curve(*self)


def evaluate(model: Clarel, seen: Split, unseen: Split, support: Sequence[Split]) -> Evaluation:
    """Classifies the images of `seen` and `unseen` by the nearest prototype.

    Args:
      seen: query images of classes that the model was trained on.
      unseen: query images of classes that it was not trained on.
      support: further splits whose captions help to make the prototypes; those of the query images
        always do, as in the paper.
    """
    splits = [*support, seen, unseen]
    embeddings, labels = [], []
    for split in splits:
        captions = tokenize_captions(split.captions, model.tokenizer)
        embeddings.append(model.embed_token_ids(captions.token_ids))
        labels.append(split.labels[captions.instance])
    caption_labels = np.concatenate(labels)
    classes = np.unique(np.concatenate([seen.labels, unseen.labels, *labels]))
    prototypes = class_prototypes(np.concatenate(embeddings), caption_labels, classes)
    is_seen = ~np.isin(classes, unseen.labels)

    def nearest(split: Split) -> NearestClasses:
        distances = pairwise_distances_numpy(model.embed_images(split.image_features), prototypes)
        return nearest_classes(distances, classes, is_seen)

    return Evaluation(nearest(seen), seen.labels, nearest(unseen), unseen.labels)
