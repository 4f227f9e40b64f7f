"""Declarative test of the builder, and the facts about the splits."""

from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.loading import get_builder, load_splits

from . import demo_dataset_builder


class DemoTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = demo_dataset_builder.Builder
    EXAMPLE_DIR = Path(__file__).parent  # nothing is read
    SPLITS = {
        "train": 50 * 24,
        "val_seen": 50 * 6,
        "val_unseen": 15 * 30,
        "trainval": 65 * 24,
        "test_seen": 65 * 6,
        "test_unseen": 15 * 30,
    }
    # The same image is in several splits on purpose, as in the public zero-shot splits.
    OVERLAPPING_SPLITS = ["train", "val_seen", "val_unseen", "trainval", "test_seen"]
    SKIP_CHECKSUMS = True


def test_splits_relate_as_the_public_ones_do(tmp_path):
    builder = get_builder("demo", data_dir=str(tmp_path))
    splits = load_splits(builder)
    ids = {name: set(split.image_ids) for name, split in splits.items()}
    assert not ids["train"] & ids["val_seen"]
    assert not ids["trainval"] & ids["test_seen"]
    validation = ids["train"] | ids["val_seen"] | ids["val_unseen"]
    assert validation == ids["trainval"] | ids["test_seen"]
    assert ids["train"] & ids["test_seen"]  # the overlap that the clean protocol takes out
    labels = {name: set(split.labels) for name, split in splits.items()}
    assert not labels["trainval"] & labels["test_unseen"]
    assert not labels["train"] & labels["val_unseen"]

    features = splits["train"].image_features
    assert np.isfinite(features).all() and features.dtype == np.float32
    assert all(len(captions) == 10 for captions in splits["train"].captions)
    for example in builder.as_dataset(split="train").take(50).as_numpy_iterator():
        assert example["in_test_seen"] == (example["image_id"].decode() in ids["test_seen"])


if __name__ == "__main__":
    tfds.testing.test_main()
