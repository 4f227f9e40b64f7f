"""Oxford Flowers 102: photographs or features, ten captions an image, the zero-shot splits.

tfds build datasets/flowers --manual_dir=FOLDER
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clarel_tf.data.zero_shot.builder import ZeroShotBuilder
from clarel_tf.errors import ClarelError
from clarel_tf.storage.array_files import read_mat

# The names of the 102 categories, in the order of their numbers in the original dataset.
_NAMES = (Path(__file__).parent / "class_names.txt").read_text(encoding="utf-8").splitlines()

_PARTS = ("trnid", "valid", "tstid")  # of setid.mat


class Builder(ZeroShotBuilder):
    """Builds the dataset from the public files."""

    SPLITS_ARCHIVE = "cvpr18xian.zip"
    SPLITS_FOLDER = "cvpr18xian/data/FLO"
    SPLITS_URL = "http://datasets.d2.mpi-inf.mpg.de/xian/cvpr18xian.zip"
    CAPTIONS_ARCHIVE = "cvpr2016_flowers.tar.gz"
    CAPTIONS_FOLDER = "cvpr2016_flowers/text_c10"
    CAPTIONS_SOURCE = "https://github.com/reedscot/cvpr2016"
    PHOTOS_ARCHIVE = "102flowers.tgz"
    PHOTOS_FOLDER = "jpg"
    PHOTOS_SOURCE = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put cvpr2016_flowers.tar.gz (captions, linked from https://github.com/reedscot/cvpr2016) into
    the manual folder, and cvpr18xian.zip (features and splits,
    http://datasets.d2.mpi-inf.mpg.de/xian/cvpr18xian.zip; fetched if it is not there). The folders
    that the archives unpack to do as well. Config `custom` also needs features.mat or features.npz,
    config `photos` 102flowers.tgz, imagelabels.mat and setid.mat
    (https://www.robots.ox.ac.uk/~vgg/data/flowers/102/) instead of features.
    """

    def photo_rows(self, names: list[str], manual_dir: Path) -> tuple[list[str], np.ndarray]:
        """The rows are the images of trnid, valid and tstid of setid.mat, one after the other."""
        images = _numbers(manual_dir / "setid.mat", _PARTS, len(names))
        if (counts := np.bincount(images)).max() > 1:
            raise ClarelError(f"{manual_dir / 'setid.mat'}: image {counts.argmax()} occurs twice")
        if len(images) < len(names):
            raise ClarelError(
                f"{manual_dir / 'setid.mat'} names {len(images)} images, but there are "
                f"{len(names)} photographs"
            )
        labels = _numbers(manual_dir / "imagelabels.mat", ("labels",), len(_NAMES))
        if len(labels) != len(names):
            raise ClarelError(
                f"{manual_dir / 'imagelabels.mat'} has the labels of {len(labels)} images, but "
                f"there are {len(names)} photographs"
            )
        rows = [f"image_{number:05d}.jpg" for number in images]
        if absent := sorted(set(rows) - set(names)):
            raise ClarelError(f"{manual_dir}: photograph jpg/{absent[0]} is missing")
        return rows, labels[images - 1]

    def photo_files(self, manual_dir: Path) -> list[Path]:
        """As of the base, with the two files that tell the rows and the labels."""
        return [
            *super().photo_files(manual_dir),
            *(manual_dir / name for name in ("setid.mat", "imagelabels.mat")),
        ]

    def class_names(self, class_folders: list[str]) -> list[str]:
        """`class_00001` is category 1 of the original dataset."""
        names = []
        for folder in class_folders:
            match = re.fullmatch(r"class_(\d{5})", folder)
            if not match or not 1 <= int(match[1]) <= len(_NAMES):
                raise ClarelError(
                    f"{self.CAPTIONS_ARCHIVE}: {folder!r} is not one of class_00001 to class_00102"
                )
            names.append(_NAMES[int(match[1]) - 1])
        return names


def _numbers(path: Path, names: Sequence[str], most: int) -> np.ndarray:
    """The variables of a file one after the other, whole numbers from 1 to `most`, int [n]."""
    variables = read_mat(path, names)
    for name in names:
        if name not in variables:
            raise ClarelError(f"{path} has no {name}; is it the public file?")
    values = np.concatenate([np.ravel(variables[name]) for name in names])
    if values.dtype.kind not in "iuf" or not values.size:
        raise ClarelError(f"{path} must hold numbers")
    wrong = values[~((values >= 1) & (values <= most) & (np.floor(values) == values))]
    if wrong.size:
        raise ClarelError(f"{path} has {wrong[0]}, but the numbers are from 1 to {most}")
    return values.astype(np.int64)
