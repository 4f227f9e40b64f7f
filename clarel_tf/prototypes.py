"""Class prototypes: the mean of all embedded captions of a class."""

import numpy as np


def class_prototypes(
    caption_embeddings: np.ndarray, caption_labels: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Averages the captions of each class, every caption counting the same.

    Args:
      caption_embeddings: float32 [M, E].
      caption_labels: int [M], class of each caption.
      classes: int [C], the classes wanted, sorted; each must have a caption.

    Returns:
      float32 [C, E].
    """
    sums = np.zeros((len(classes), caption_embeddings.shape[1]), np.float64)
    rows = np.searchsorted(classes, caption_labels)
    belongs = (rows < len(classes)) & (
        classes[np.minimum(rows, len(classes) - 1)] == caption_labels
    )
    np.add.at(sums, rows[belongs], caption_embeddings[belongs])
    counts = np.bincount(rows[belongs], minlength=len(classes))
    if (counts == 0).any():
        raise ValueError(f"class {classes[counts == 0][0]} has no caption to make a prototype from")
    return (sums / counts[:, np.newaxis]).astype(np.float32)
