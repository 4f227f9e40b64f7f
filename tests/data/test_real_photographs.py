"""200 real photographs in class folders, from the files to a dataset, with the default network."""

import os
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.data.loading import class_names, load_splits
from clarel_tf.data.zero_shot.captions import read_captions
from tests.helpers.pairs_data import build

DATA = Path(os.environ.get("CLAREL_DATA", "nowhere")) / "cub"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="CLAREL_DATA names no folder with cub/")
def test_real_photographs_become_a_dataset(tmp_path):
    folder = tmp_path / "birds"
    (folder / "captions").mkdir(parents=True)
    (folder / "images").symlink_to(DATA / "photos_sample")
    captions = read_captions(DATA / "cvpr2016_cub.tar.gz", "cvpr2016_cub/text_c10")
    for path in sorted((DATA / "photos_sample").glob("*/*.jpg")):
        name = path.parent.name
        with open(folder / "captions" / f"{name}.txt", "a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in captions[f"{name}/{path.stem}"])
    builder = build(folder, tmp_path / "data")
    assert len(class_names(builder)) == 20
    splits = load_splits(builder)
    train, test = splits["trainval"], splits["test_seen"]
    assert (len(train), len(test), len(splits["test_unseen"])) == (128, 32, 40)
    assert str(train.backbone) == "efficientnet_lite2 at 320 pixels, mirrored"
    sizes = [len(data) for data in test.pictures.read(test.image_ids).values()]
    assert len(sizes) == 32 and min(sizes) > 2_000 and max(sizes) < 16_000

    def normalised(split):
        return split.image_features / np.linalg.norm(split.image_features, axis=1, keepdims=True)

    classes = np.unique(train.labels)
    means = np.stack([normalised(train)[train.labels == label].mean(0) for label in classes])
    found = classes[(normalised(test) @ means.T).argmax(1)]
    assert (found == test.labels).mean() > 0.7  # of 16 classes
