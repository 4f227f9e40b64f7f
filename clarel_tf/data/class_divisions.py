"""Random divisions of the training classes into seen and unseen, for comparing settings.

A dataset has one fixed division: some classes of `trainval` are the unseen classes of validation.
Comparing many settings on it overfits these classes. Random divisions of the same images show
whether a gain holds for other classes too.
"""

import dataclasses

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError


def divide_classes(splits: dict[str, Split], number: int) -> dict[str, Split]:
    """The splits with `train`, `val_seen` and `val_unseen` drawn anew from `trainval`.

    The number of unseen classes is that of the dataset's own `val_unseen`. The same share of the
    images of seen classes is held out as `val_seen`, at least one in each class. Test splits stay.

    Args:
      splits: all six; only the sizes of the validation splits are used.
      number: of the division, from 1.
    """
    trainval = splits["trainval"]
    classes, counts = np.unique(trainval.labels, return_counts=True)
    unseen_count = len(np.unique(splits["val_unseen"].labels))
    if not unseen_count:
        raise ClarelError(
            f"class_division={number} draws as many unseen classes as val_unseen has, and it has "
            "none; use class_division=0"
        )
    if unseen_count >= len(classes):
        raise ClarelError(
            f"class_division={number} needs more classes in trainval than the {unseen_count} "
            f"of val_unseen, and there are {len(classes)}"
        )
    draw = np.random.default_rng(number)
    is_unseen = np.isin(trainval.labels, draw.permutation(classes)[:unseen_count])
    lonely = (counts < 2) & ~np.isin(classes, trainval.labels[is_unseen])
    if lonely.any():
        raise ClarelError(
            f"class_division={number} makes class {classes[lonely][0]} a seen class, but its only "
            "image in trainval cannot be both trained on and held out; use class_division=0"
        )
    # Descriptions count once: those of seen classes in `train`.
    held_share = len(splits["val_seen"]) / (len(splits["val_seen"]) + len(splits["train"]))
    is_held = np.zeros(len(trainval), bool)
    for label in np.setdiff1d(classes, trainval.labels[is_unseen]):
        own = draw.permutation(np.flatnonzero(trainval.labels == label))
        is_held[own[: np.clip(round(held_share * len(own)), 1, len(own) - 1)]] = True
    parts = {"train": ~is_unseen & ~is_held, "val_seen": is_held, "val_unseen": is_unseen}
    drawn = {
        name: dataclasses.replace(trainval.select(chosen), name=name)
        for name, chosen in parts.items()
    }
    drawn["val_seen"] = dataclasses.replace(drawn["val_seen"], descriptions={})
    return splits | drawn
