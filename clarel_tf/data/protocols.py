"""Validation protocols: which images each phase may use, and checks that test data stays apart."""

import numpy as np

from clarel_tf.data.class_divisions import divide_classes
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError

VALIDATION_SPLITS = ("train", "val_seen", "val_unseen")


def apply_protocol(
    splits: dict[str, Split], protocol: str, class_division: int = 0
) -> dict[str, Split]:
    """The splits that a protocol allows.

    In the public splits, `train` and the validation splits contain images of `test_seen`. `paper`
    uses them as they are. `clean` removes every image of `test_seen` from them, so that no test
    image influences alpha.

    Args:
      class_division: if not 0, the validation splits are drawn from `trainval` (`divide_classes`).
        It contains no test image, so this is clean in either protocol.
    """
    _check_test_is_apart(splits)
    if protocol == "clean":
        splits = _without_test_images(splits)
    if class_division:
        splits = divide_classes(splits, class_division)
    _check_seen_classes_are_trained(splits)
    return splits


def _without_test_images(splits: dict[str, Split]) -> dict[str, Split]:
    test_ids = splits["test_seen"].image_ids
    cleaned = dict(splits)
    for name in VALIDATION_SPLITS:
        cleaned[name] = splits[name].select(~np.isin(splits[name].image_ids, test_ids))
        if len(splits[name]) and not len(cleaned[name]):
            raise ClarelError(
                f"split {name!r} has no image that is not also in test_seen; use protocol=paper"
            )
    return cleaned


def _check_test_is_apart(splits: dict[str, Split]) -> None:
    """Raises ClarelError if a training split contains a test image or an unseen class."""
    for first, second in (
        ("trainval", "test_seen"),
        ("trainval", "test_unseen"),
        ("test_seen", "test_unseen"),
        ("train", "val_seen"),
        ("train", "val_unseen"),
    ):
        shared = np.intersect1d(splits[first].image_ids, splits[second].image_ids)
        if shared.size:
            raise ClarelError(f"image '{shared[0]}' is both in {first} and in {second}")
    for first, second in (
        ("trainval", "test_unseen"),
        ("train", "test_unseen"),
        ("train", "val_unseen"),
    ):
        shared = np.intersect1d(splits[first].labels, splits[second].labels)
        if shared.size:
            raise ClarelError(f"class {shared[0]} is both in {first} and in {second}")


def _check_seen_classes_are_trained(splits: dict[str, Split]) -> None:
    for training, testing in (("train", "val_seen"), ("trainval", "test_seen")):
        untrained = np.setdiff1d(splits[testing].labels, splits[training].labels)
        if untrained.size:
            raise ClarelError(f"class {untrained[0]} is in {testing}, but not in {training}")
