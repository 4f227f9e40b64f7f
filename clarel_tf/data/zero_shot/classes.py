"""Names and labels of the images in a file of features, checked against the captions."""

from pathlib import PurePosixPath
from typing import Any

import numpy as np

from clarel_tf.errors import ClarelError


def as_strings(array: np.ndarray, where: str) -> list[str]:
    """`image_files` is a cell array in .mat files and an array of strings in .npz files."""
    values = [
        item.item() if isinstance(item, np.ndarray) and item.size == 1 else item
        for item in array.ravel().tolist()
    ]
    if not values or not all(isinstance(value, str) for value in values):
        raise ClarelError(f"{where}: 'image_files' must be a list of paths")
    return [str(value).strip() for value in values]


def check_classes(labels: Any, image_ids: list[str], where: str) -> tuple[np.ndarray, list[str]]:
    """Zero-based labels, int64 [N], and the caption folder of each class."""
    labels = np.asarray(labels).ravel()
    if labels.dtype.kind not in "iuf" or len(labels) != len(image_ids):
        raise ClarelError(f"{where}: 'labels' must be {len(image_ids)} numbers, one an image")
    # Compared before the conversion to integers, so that NaN is found.
    wrong = np.flatnonzero(
        ~((labels >= 1) & (labels <= len(labels)) & (np.floor(labels) == labels))
    )
    if wrong.size:
        raise ClarelError(
            f"{where}: the label of image number {wrong[0] + 1} is {labels[wrong[0]]}; labels must "
            "be whole numbers that count from 1 to the number of classes"
        )
    labels = labels.astype(np.int64) - 1
    folder_of_label: dict[int, str] = {}
    for number, (label, image_id) in enumerate(zip(labels.tolist(), image_ids, strict=True), 1):
        folder = PurePosixPath(image_id).parent.name
        if folder_of_label.setdefault(label, folder) != folder:
            raise ClarelError(
                f"{where}: image number {number} has label {label + 1}, but its captions are in "
                f"{folder}, those of other images with that label in {folder_of_label[label]}"
            )
    for label in range(max(folder_of_label) + 1):
        if label not in folder_of_label:
            raise ClarelError(f"{where}: class {label + 1} has no image")
    return labels, [folder_of_label[label] for label in sorted(folder_of_label)]
