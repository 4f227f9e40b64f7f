"""Oxford Flowers 102: image features, ten captions an image, the proposed zero-shot splits.

tfds build datasets/flowers --manual_dir=FOLDER
"""

import re
from pathlib import Path

from clarel_tf.data.zero_shot.builder import ZeroShotBuilder
from clarel_tf.errors import ClarelError

# The names of the 102 categories, in the order of their numbers in the original dataset.
_NAMES = (Path(__file__).parent / "class_names.txt").read_text(encoding="utf-8").splitlines()


class Builder(ZeroShotBuilder):
    """Builds the dataset from the public files."""

    SPLITS_ARCHIVE = "cvpr18xian.zip"
    SPLITS_FOLDER = "cvpr18xian/data/FLO"
    SPLITS_URL = "http://datasets.d2.mpi-inf.mpg.de/xian/cvpr18xian.zip"
    CAPTIONS_ARCHIVE = "cvpr2016_flowers.tar.gz"
    CAPTIONS_FOLDER = "cvpr2016_flowers/text_c10"
    CAPTIONS_SOURCE = "https://github.com/reedscot/cvpr2016"
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put cvpr2016_flowers.tar.gz (captions, linked from https://github.com/reedscot/cvpr2016) into
    the manual folder, and cvpr18xian.zip (features and splits,
    http://datasets.d2.mpi-inf.mpg.de/xian/cvpr18xian.zip; fetched if it is not there). The folders
    that the archives unpack to do as well. Config `custom` also needs features.mat or features.npz.
    """

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
