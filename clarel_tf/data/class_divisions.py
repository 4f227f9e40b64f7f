"""Other divisions of the training classes into seen and unseen ones, to compare settings on.

A dataset brings one division: some classes of `trainval` are the unseen ones of validation, always
the same. A choice among many settings fits these few classes in the end. Further divisions, drawn
at random from the same images, show whether a gain holds for other classes as well.
"""

import dataclasses

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError


def divide_classes(splits: dict[str, Split], number: int) -> dict[str, Split]:
    """The splits with `train`, `val_seen` and `val_unseen` drawn anew from `trainval`.

    There are as many unseen classes as in the dataset's own `val_unseen`, and the same share of the
    images of seen ones is held out as `val_seen`, at least one of a class. Test splits stay.

    Args:
      splits: all six; of the validation splits only sizes are looked at.
      number: of the division, from 1 on.
    """
    trainval = splits["trainval"]
    classes, counts = np.unique(trainval.labels, return_counts=True)
    new_count = len(np.unique(splits["val_unseen"].labels))
    if new_count >= len(classes):
        raise ClarelError(
            f"class_division={number} needs more classes in trainval than the {new_count} "
            f"of val_unseen, and there are {len(classes)}"
        )
    draw = np.random.default_rng(number)
    is_new = np.isin(trainval.labels, draw.permutation(classes)[:new_count])
    lonely = (counts < 2) & ~np.isin(classes, trainval.labels[is_new])
    if lonely.any():
        raise ClarelError(
            f"class_division={number} makes class {classes[lonely][0]} a seen one, whose only "
            "image in trainval cannot be both trained on and held out; use class_division=0"
        )
    held_share = len(splits["val_seen"]) / (len(splits["val_seen"]) + len(splits["train"]))
    is_held = np.zeros(len(trainval), bool)
    for label in np.setdiff1d(classes, trainval.labels[is_new]):
        own = draw.permutation(np.flatnonzero(trainval.labels == label))
        is_held[own[: np.clip(round(held_share * len(own)), 1, len(own) - 1)]] = True
    parts = {"train": ~is_new & ~is_held, "val_seen": is_held, "val_unseen": is_new}
    return splits | {
        name: dataclasses.replace(trainval.select(chosen), name=name)
        for name, chosen in parts.items()
    }
