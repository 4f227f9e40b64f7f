"""Splits of a user's own data: made from a seed, or given by the user and checked."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from clarel_tf.data.pairs.table import TRAINVAL_SPLITS
from clarel_tf.data.schema import stable_order
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

# A class in the split on the left must not be in any split on the right.
_FORBIDDEN = {
    "test_unseen": ("train", "val_seen", "val_unseen", "test_seen"),
    "val_unseen": ("train", "val_seen"),
}


@dataclasses.dataclass(frozen=True)
class SplitShares:
    """Seed and shares of the splits; validation takes its shares of what the test splits leave.

    A share of 0 leaves its split empty.
    """

    seed: int = 0
    unseen_classes: float = 0.2
    test_seen_images: float = 0.2
    val_unseen_classes: float = 0.2
    val_seen_images: float = 0.2


def read_shares(path: Path) -> SplitShares:
    """The shares in `splits.json`; the defaults without that file."""
    if not path.exists():
        return SplitShares()
    try:
        values = json.loads(files.read_regular(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ClarelError(f"{path} is not valid JSON ({error})") from error
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror or error}") from error
    known = [field.name for field in dataclasses.fields(SplitShares)]
    if not isinstance(values, dict):
        raise ClarelError(f"{path} must hold an object with some of the keys {', '.join(known)}")
    for key, value in values.items():
        if key not in known:
            raise ClarelError(f"{path}: unknown key {key!r}; the keys are {', '.join(known)}")
        if key == "seed":
            if type(value) is not int:
                raise ClarelError(f"{path}: 'seed' must be a whole number, not {value!r}")
        elif type(value) not in (int, float) or not 0 <= value < 1:
            raise ClarelError(f"{path}: {key!r} must be at least 0 and below 1, not {value!r}")
    return SplitShares(**values)


def make_splits(image_ids: Sequence[str], classes: Sequence[str], shares: SplitShares) -> list[str]:
    """The split of each image, one of ROW_SPLITS.

    The result depends only on ids, classes and shares, not on the order of the images.

    Args:
      image_ids: N unique names.
      classes: the class of each of the N images.
    """
    images_of: dict[str, list[str]] = {}
    for image_id, class_name in zip(image_ids, classes, strict=True):
        images_of.setdefault(class_name, []).append(image_id)
    order = stable_order(images_of, shares.seed)
    unseen = _part(len(order), shares.unseen_classes)
    val_unseen = _part(len(order) - unseen, shares.val_unseen_classes)
    if unseen + val_unseen >= len(order):
        raise ClarelError(
            f"too few classes for the splits: of {len(order)}, {unseen} would be test_unseen and "
            f"{val_unseen} of the others val_unseen, and none is left to train on; use 3 classes "
            "or more, or smaller shares in splits.json (0 leaves a split empty)"
        )
    split_of: dict[str, str] = {}
    for rank, class_name in enumerate(order):
        images = stable_order(images_of[class_name], shares.seed)
        if rank < unseen:
            split_of |= dict.fromkeys(images, "test_unseen")
            continue
        test = _part(len(images), shares.test_seen_images, keep=1)
        split_of |= dict.fromkeys(images[:test], "test_seen")
        rest = images[test:]
        if rank < unseen + val_unseen:
            split_of |= dict.fromkeys(rest, "val_unseen")
            continue
        validation = _part(len(rest), shares.val_seen_images, keep=1)
        split_of |= dict.fromkeys(rest[:validation], "val_seen")
        split_of |= dict.fromkeys(rest[validation:], "train")
    splits = [split_of[image_id] for image_id in image_ids]
    wanted = {"test_seen": shares.test_seen_images, "val_seen": shares.val_seen_images}
    for name, share in wanted.items():
        if share and name not in splits:
            raise ClarelError(
                f"too few images for the splits: {name} would be empty, because no class has "
                "images to spare for it; use classes of 3 images or more, add the column 'split', "
                f'or do without: {{"{name}_images": 0}} in splits.json'
            )
    return splits


def check_splits(
    classes: Sequence[str], splits: Sequence[str], place: Callable[[int], str] = "row {}".format
) -> None:
    """Raises ClarelError if nothing is in `train` or an unseen class is also in a seen split.

    Args:
      classes: the class of each of the N images.
      splits: the split of each, one of ROW_SPLITS.
      place: tells where image number i is, for messages.
    """
    first: dict[tuple[str, str], int] = {}  # (split, class) -> number of its first image
    for number, key in enumerate(zip(splits, classes, strict=True)):
        first.setdefault(key, number)
    if "train" not in splits:
        raise ClarelError("no row has the split 'train'; there must be images to train on")
    for (split, class_name), number in first.items():
        for other in _FORBIDDEN.get(split, ()):
            if (other, class_name) in first:
                raise ClarelError(
                    f"{place(number)}: class {class_name!r} is in {split}, but also in {other} "
                    f"({place(first[other, class_name])}); a class of {split} must not be in "
                    f"{', '.join(_FORBIDDEN[split])}"
                )
        trained = any((name, class_name) in first for name in TRAINVAL_SPLITS)
        if split == "test_seen" and not trained:
            raise ClarelError(
                f"{place(number)}: class {class_name!r} is in test_seen, but in none of "
                f"{', '.join(TRAINVAL_SPLITS)}; put some of its images there, or all of them "
                "in test_unseen"
            )


def _part(count: int, share: float, keep: int = 0) -> int:
    """Number to hold out of `count`: the share, at least one, at most all but `keep`."""
    return max(0, min(count - keep, max(1, round(count * share)))) if share else 0
