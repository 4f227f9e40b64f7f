"""The real CUB files, where they are: CLAREL_DATA names the folder that holds `cub/`."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.reporting.dataset_report import dataset_report
from clarel_tf.storage.word_vectors import load_word_vectors

DATA = Path(os.environ.get("CLAREL_DATA", "nowhere"))
pytestmark = pytest.mark.skipif(
    not (DATA / "cub" / "features.mat").exists(), reason="CLAREL_DATA does not hold real CUB files"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    builder = get_builder("cub", "custom", str(tmp_path_factory.mktemp("data")))
    return builder, load_splits(builder, str(DATA / "cub"))


# tests/data/test_zero_shot_builders.py has small files of the same kind, value by value.
@pytest.mark.slow
def test_counts_are_those_of_the_paper(built):
    builder, splits = built
    counts = {name: (len(split), len(np.unique(split.labels))) for name, split in splits.items()}
    assert counts == {
        "train": (4700, 100),
        "val_seen": (1175, 100),
        "val_unseen": (2946, 50),
        "trainval": (7057, 150),
        "test_seen": (1764, 150),
        "test_unseen": (2967, 50),
    }
    assert len(class_names(builder)) == 200
    assert "001.Black_footed_Albatross" in class_names(builder)


@pytest.mark.slow
def test_every_value_comes_back(built):
    builder, splits = built
    raw = scipy.io.loadmat(DATA / "cub" / "features.mat")
    rows = {
        "/".join(cell[0].removesuffix(".jpg").split("/")[-2:]): row
        for row, cell in enumerate(raw["image_files"].ravel())
    }
    all_names = class_names(builder)
    for split in splits.values():
        index = [rows[image_id] for image_id in split.image_ids]
        np.testing.assert_array_equal(split.image_features, raw["features"].T[index])
        np.testing.assert_array_equal(split.labels, raw["labels"].ravel()[index] - 1)
        assert all(len(captions) == 10 for captions in split.captions)
        names = [all_names[label] for label in split.labels]
        assert names == [image_id.split("/")[0] for image_id in split.image_ids]


@pytest.mark.slow
def test_report_tells_of_the_overlap_and_the_vectors(built):
    builder, splits = built
    vectors = DATA / "word_vectors" / "glove.6B.100d.subset.txt.gz"
    text = dataset_report(splits, class_names(builder), word_vectors=str(vectors))
    assert "1764 images of test_seen are also used for validation" in text
    assert "has 3549 of the 4327 words of trainval" in text


def test_real_word2vec_binary():
    path = DATA / "word_vectors" / "googlenews.300d.subset.bin"
    result = load_word_vectors(path, ["in", "bird", "nosuchword"])
    assert result.matrix.shape == (3, 300)
    assert np.linalg.norm(result.matrix[0]) == pytest.approx(1.0, abs=1e-3)
    assert "nosuchword" in result.missing
