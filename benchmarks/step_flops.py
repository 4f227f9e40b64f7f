"""The number of floating-point operations of a training step, computed from its sizes."""

import numpy as np

from clarel_tf.config_sections import ModelConfig


def step_flops(
    lengths: np.ndarray,
    instances: int,
    settings: ModelConfig,
    feature_size: int,
    num_classes: int,
) -> dict[str, float]:
    """Operations of one step, forward and backward, by part of the model.

    Only matrix products count, 2*M*N*K for [M, K] x [K, N], and only real tokens: padding and empty
    slots do not. A caption of n tokens has n rows in the first block, ceil(n/2) in the second and
    m = ceil(n/4) steps in the LSTM. A convolution of width w counts as a product with
    K = w * channels, as usual, although taps beyond the ends of a caption do nothing. The first
    step of an LSTM has no recurrent product, since its state is zero.

    The backward pass has two products for each product of the forward pass: the gradients of the
    weights and of the input. The latter is not needed if the input is data. This applies to the
    image tower and, since word vectors are frozen, to the first convolution and the first shortcut.
    Element-wise operations (batch norm, gates, dropout, optimiser) are not counted. They are memory
    traffic, and keep a step below the rate of a matrix product.

    Args:
      lengths: int [N], tokens of each caption of the batch.
      instances: B, images of the batch.
      settings: sizes of the towers.
      feature_size: D, width of the image features.
      num_classes: C, outputs of each of the two class heads.
    """
    lengths = np.asarray(lengths, np.int64)
    captions = np.count_nonzero(lengths)
    rows, width = lengths, settings.word_size
    flops = {}
    for number, filters in enumerate(settings.filters):
        tokens = rows.sum()
        entry = _product(tokens, filters, 3 * width) + _product(tokens, filters, width)
        inner = 2 * _product(tokens, filters, 3 * filters)
        flops[f"block_{number}"] = (2 if number == 0 else 3) * entry + 3 * inner
        rows, width = -(-rows // 2), filters
    steps, gates = rows.sum(), 4 * settings.lstm_units
    flops["lstm_input"] = 3 * 2 * _product(steps, gates, width)
    flops["lstm_recurrent"] = 3 * 2 * _product(steps - captions, gates, settings.lstm_units)
    size = settings.embedding_size
    kinds = 2 if settings.text_pooling == "mean_max" else 1
    flops["text_head"] = 3 * _product(captions, size, 2 * settings.lstm_units * kinds)
    flops["image_tower"] = 2 * _product(instances, size, feature_size)
    flops["class_heads"] = 3 * 2 * _product(instances, num_classes, size)
    flops["distances"] = 3 * _product(instances, instances, size)
    return flops


def _product(rows: int, columns: int, inner: int) -> float:
    """[rows, inner] x [inner, columns]."""
    return 2.0 * int(rows) * columns * inner
