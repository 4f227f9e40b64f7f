"""The four losses of CLAREL and their mix, as pure functions of embeddings."""

from collections.abc import Sequence

import tensorflow as tf

from clarel_tf.models.distances import pairwise_distances

# Names of all logged quantities of the loss.
METRICS = (
    "loss",
    "text_retrieval",
    "image_retrieval",
    "text_classification",
    "image_classification",
    "l2",
    "text_retrieval_accuracy",
    "image_retrieval_accuracy",
)

# Replaces minus infinity in a softmax, which would give NaN gradients.
_EXCLUDED = -1e30


def retrieval_losses(
    distances: tf.Tensor, labels: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Text and image retrieval losses: each instance must find its own partner in the batch.

    Args:
      distances: float32 [B, B], image i against text j; partners are on the diagonal.
      labels: int [B], classes. When given, other instances of the same class are left out of the
        negatives.

    Returns:
      (text retrieval loss, image retrieval loss), scalars.
    """
    logits = -distances
    if labels is not None:
        same = tf.equal(labels[:, tf.newaxis], labels)
        other_of_same_class = tf.logical_and(same, ~tf.eye(tf.size(labels), dtype=tf.bool))
        logits = tf.where(other_of_same_class, _EXCLUDED, logits)
    partner = tf.linalg.diag_part(distances)
    text_retrieval = tf.reduce_mean(partner + tf.reduce_logsumexp(logits, axis=1))
    image_retrieval = tf.reduce_mean(partner + tf.reduce_logsumexp(logits, axis=0))
    return text_retrieval, image_retrieval


def mixture_losses(
    images: tf.Tensor, texts: tf.Tensor, scale: float = 1.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mixup: a mixture of two images must find the same mixture of their texts.

    The classes of a training split are few points of the joint space, and unseen classes lie
    between them. Instance i is mixed with the instance a third of a batch before it, with a weight
    from 0.2 to 0.8 that depends on the row. Batches are random already, so mixup needs no random
    numbers, and no pair occurs twice.

    Args:
      images, texts: float32 [B, E], embeddings; partners have the same row.
      scale: distances are multiplied by it.

    Returns:
      (text retrieval loss, image retrieval loss), scalars.
    """
    count = tf.shape(images)[0]
    own = tf.linspace(0.2, 0.8, count)[:, tf.newaxis]
    mixed = [own * side + (1.0 - own) * tf.roll(side, count // 3, 0) for side in (images, texts)]
    return retrieval_losses(scale * pairwise_distances(*mixed))


def prototype_losses(
    images: tf.Tensor, texts: tf.Tensor, labels: tf.Tensor, scale: float = 1.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Prototype loss: each instance must find its class among the class means of the batch.

    It imitates the decision rule, which compares an image with the mean of many texts. A mean
    includes the instance's own partner, as in the paper's evaluation.

    Args:
      images, texts: float32 [B, E], embeddings; partners have the same row.
      labels: int [B], classes.
      scale: distances are multiplied by it.

    Returns:
      (images among the text means of the P classes in the batch, texts among the image means),
      scalars.
    """
    classes, own = tf.unique(labels)
    sides = []
    for queries, members in ((images, texts), (texts, images)):
        means = tf.math.unsorted_segment_mean(members, own, tf.size(classes))  # [P, E]
        sides.append(classification_loss(-scale * pairwise_distances(queries, means), own))
    return sides[0], sides[1]


def blend(
    terms: Sequence[tf.Tensor], others: Sequence[tf.Tensor], share: float
) -> tuple[tf.Tensor, ...]:
    """Weighted means of `terms` and `others`; `share` is the weight of `others`."""
    return tuple(
        (1.0 - share) * term + share * other for term, other in zip(terms, others, strict=True)
    )


def retrieval_accuracies(distances: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Share of images whose nearest text is their own, and of texts whose nearest image is.

    Args:
      distances: float32 [B, B], image i against text j.

    Returns:
      (text retrieval accuracy, image retrieval accuracy), scalars in [0, 1].
    """
    own = tf.range(tf.shape(distances)[0])
    shares = []
    for axis in (1, 0):
        hits = tf.equal(tf.argmin(distances, axis=axis, output_type=tf.int32), own)
        shares.append(tf.reduce_mean(tf.cast(hits, tf.float32)))
    return shares[0], shares[1]


def classification_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of softmax logits, float32 [B, C], against labels, int [B]."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def mix_losses(
    text_retrieval: tf.Tensor,
    image_retrieval: tf.Tensor,
    text_classification: tf.Tensor,
    image_classification: tf.Tensor,
    lambda_: float,
    kappa: float,
) -> tf.Tensor:
    """(1 - kappa) * (lambda * TR + (1 - lambda) * IR) + kappa / 2 * (TC + IC)."""
    retrieval = lambda_ * text_retrieval + (1.0 - lambda_) * image_retrieval
    classification = 0.5 * (text_classification + image_classification)
    return (1.0 - kappa) * retrieval + kappa * classification
