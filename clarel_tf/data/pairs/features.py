"""Image features of a user's own data: read file by file, and checked against the table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.images.feature_files import find_record
from clarel_tf.storage.array_files import checked_features, read_npz


def read_features(path: Path) -> tuple[list[str], np.ndarray]:
    """The ids of a file's n images, and their features, float32 [n, D]."""
    arrays = read_npz(path, ("image_ids", "features"))
    for name in ("image_ids", "features"):
        if name not in arrays:
            raise ClarelError(
                f"{path} has no array {name!r}; save it with "
                "np.savez(path, image_ids=..., features=...)"
            )
    ids = arrays["image_ids"]
    if ids.ndim != 1 or ids.dtype.kind != "U":
        raise ClarelError(
            f"{path}: 'image_ids' must be a list of strings, not {ids.dtype} of shape "
            f"{list(ids.shape)}; save np.array(ids, dtype=str)"
        )
    features = checked_features(arrays["features"], len(ids), path)
    return [image_id.strip() for image_id in ids.tolist()], features


def check_features(
    paths: Sequence[Path], number_of: Mapping[str, int], place: Callable[[int], str]
) -> BackboneRecord | None:
    """Reads every file once, one at a time, and raises ClarelError if it does not fit the table.

    Returns the record of the backbone that made them all, if the files have it.

    Args:
      paths: the files with features.
      number_of: the number of each image in the table, by its id.
      place: tells where image number i of the table is, for messages.
    """
    found: dict[str, str] = {}  # image id -> where its features are
    width, record = 0, find_record(paths[0])
    for path in paths:
        ids, features = read_features(path)
        if width and features.shape[1] != width:
            raise ClarelError(
                f"{path} has features of width {features.shape[1]}, but {paths[0]} of width "
                f"{width}; all must come from the same network"
            )
        width = features.shape[1]
        record = _same_record(path, paths[0], record)
        for number, image_id in enumerate(ids, 1):
            here = f"{path}, image number {number} (counted from 1)"
            if image_id in found:
                raise ClarelError(
                    f"{here}: the features of {image_id!r} occur twice, first in "
                    f"{found[image_id]}; remove one of them"
                )
            if image_id not in number_of:
                raise ClarelError(
                    f"{here}: {image_id!r} has features, but no row in the table; add the row or "
                    "remove the features"
                )
            found[image_id] = f"{path.name}, image number {number}"
    absent = [number for image_id, number in number_of.items() if image_id not in found]
    if absent:
        raise ClarelError(
            f"{place(absent[0])}: the image has no features in {paths[0].parent}; "
            f"{len(absent)} of {len(number_of)} images have none; add them or remove the rows"
        )
    return record


def _same_record(path: Path, first: Path, record: BackboneRecord | None) -> BackboneRecord | None:
    """The record of a file, if it is that of the first one; ClarelError for another one."""
    its = find_record(path)
    if its is not None and record is not None:
        record.check_same(its, first, path)
    elif its != record:
        told, silent = (first, path) if its is None else (path, first)
        raise ClarelError(
            f"{silent} does not say which backbone made it, but {told} does; make both with the "
            "same one, by clarel-extract"
        )
    return its
