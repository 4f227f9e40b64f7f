"""Declarative test of the builder on small files in the public formats."""

import tensorflow_datasets as tfds

from . import flowers_dataset_builder


class FlowersTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = flowers_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ["res101", "custom"]
    SPLITS = {
        "train": 9,
        "val_seen": 3,
        "val_unseen": 4,
        "trainval": 12,
        "test_seen": 4,
        "test_unseen": 4,
    }
    # The same image is in several splits on purpose; `in_test_seen` tells which ones matter.
    OVERLAPPING_SPLITS = ["train", "val_seen", "val_unseen", "trainval", "test_seen"]


if __name__ == "__main__":
    tfds.testing.test_main()
