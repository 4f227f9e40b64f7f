"""The proposed zero-shot splits of `att_splits.mat`, checked and completed."""

from collections.abc import Sequence

import numpy as np

from clarel_tf.data.schema import stable_order
from clarel_tf.errors import ClarelError

LOCATIONS = ("trainval_loc", "train_loc", "val_loc", "test_seen_loc", "test_unseen_loc")

# The fixed seed by which train_loc is cut into train and val_seen, 80 to 20.
CUT_SEED = 2020
TRAIN_SHARE = 0.8


def read_locations(
    variables: dict[str, np.ndarray], images: int, where: str
) -> dict[str, np.ndarray]:
    """Zero-based rows of each `*_loc` variable, int [n].

    Args:
      variables: the contents of `att_splits.mat`; its indices are 1-based.
      images: number of rows of the feature file.
      where: the file, for messages.
    """
    locations = {}
    for name in LOCATIONS:
        if name not in variables:
            raise ClarelError(
                f"{where} has no {name}; some copies lack it, take the one of the public archive"
            )
        values = np.asarray(variables[name]).ravel()
        if values.dtype.kind not in "iuf" or not np.array_equal(values, np.floor(values)):
            raise ClarelError(f"{where}: {name} must hold whole numbers")
        outside = np.flatnonzero((values < 1) | (values > images))
        if outside.size:
            raise ClarelError(
                f"{where}: {name} number {outside[0] + 1} is {values[outside[0]]:.0f}, but there "
                f"are images 1 to {images}"
            )
        rows, counts = np.unique(values.astype(np.int64) - 1, return_counts=True)
        if (counts > 1).any():
            raise ClarelError(f"{where}: {name} has index {rows[counts > 1][0] + 1} twice")
        if not rows.size:
            raise ClarelError(f"{where}: {name} is empty")
        locations[name] = rows
    return locations


def make_splits(
    locations: dict[str, np.ndarray], image_ids: Sequence[str], labels: np.ndarray, where: str
) -> dict[str, np.ndarray]:
    """Rows of the six splits, int [n] each; raises ClarelError if a test image is in training.

    Args:
      locations: as `read_locations` returns them.
      image_ids: [N] names, which determine the 80/20 cut.
      labels: int [N].
    """
    for first, second in (
        ("trainval_loc", "test_seen_loc"),
        ("trainval_loc", "test_unseen_loc"),
        ("test_seen_loc", "test_unseen_loc"),
        ("train_loc", "val_loc"),
    ):
        _refuse_shared(locations[first], locations[second], "index", first, second, where)
    for first, second in (("trainval_loc", "test_unseen_loc"), ("train_loc", "val_loc")):
        classes = labels[locations[first]], labels[locations[second]]
        _refuse_shared(*classes, "class", first, second, where)

    row_of_id = {image_ids[row]: row for row in locations["train_loc"]}
    order = np.array([row_of_id[name] for name in stable_order(row_of_id, CUT_SEED)])
    cut = int(TRAIN_SHARE * len(order))
    return {
        "train": np.sort(order[:cut]),
        "val_seen": np.sort(order[cut:]),
        "val_unseen": locations["val_loc"],
        "trainval": locations["trainval_loc"],
        "test_seen": locations["test_seen_loc"],
        "test_unseen": locations["test_unseen_loc"],
    }


def _refuse_shared(
    a: np.ndarray, b: np.ndarray, what: str, first: str, second: str, where: str
) -> None:
    shared = np.intersect1d(a, b)
    if shared.size:
        raise ClarelError(f"{where}: {what} {shared[0] + 1} is both in {first} and in {second}")
