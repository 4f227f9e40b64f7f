"""Which images may be looked at when: the validation protocols and the checks that guard test."""

import numpy as np

from clarel_tf.dataset_loading import Split
from clarel_tf.errors import ClarelError

VALIDATION_SPLITS = ("train", "val_seen", "val_unseen")


def apply_protocol(splits: dict[str, Split], protocol: str) -> dict[str, Split]:
    """The splits as a protocol allows to use them.

    In the public splits, `train` and the validation splits hold images of `test_seen`. `paper`
    uses them as they are; `clean` takes every image of `test_seen` out of them, so that alpha is
    chosen without a look at a test image.
    """
    _check_test_is_apart(splits)
    if protocol == "paper":
        return splits
    test_ids = splits["test_seen"].image_ids
    cleaned = dict(splits)
    for name in VALIDATION_SPLITS:
        cleaned[name] = splits[name].select(~np.isin(splits[name].image_ids, test_ids))
        if not len(cleaned[name]):
            raise ClarelError(
                f"split {name!r} has no image that is not also in test_seen; use protocol=paper"
            )
    return cleaned


def _check_test_is_apart(splits: dict[str, Split]) -> None:
    """Training on a test image, or on an unseen class, would make every figure worthless."""
    for name in ("test_seen", "test_unseen"):
        shared = np.intersect1d(splits["trainval"].image_ids, splits[name].image_ids)
        if shared.size:
            raise ClarelError(f"image '{shared[0]}' is both in trainval and in {name}")
    for training, held_out in (("trainval", "test_unseen"), ("train", "val_unseen")):
        shared = np.intersect1d(splits[training].labels, splits[held_out].labels)
        if shared.size:
            raise ClarelError(f"class {shared[0]} is both in {training} and in {held_out}")
