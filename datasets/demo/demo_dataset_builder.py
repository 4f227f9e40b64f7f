"""The demo dataset: a synthetic world with the features and splits of the real datasets."""

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.data.builders import MarkedBuild
from clarel_tf.data.schema import example_features

from . import world as demo_world

TRAIN_CLASSES, VALIDATION_CLASSES, UNSEEN_CLASSES = 50, 15, 15
IMAGES_PER_CLASS = 30


class Builder(MarkedBuild, tfds.core.GeneratorBasedBuilder):
    """Generates the demo dataset; nothing is downloaded."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}

    def _info(self) -> tfds.core.DatasetInfo:
        classes = demo_world.make_classes(demo_world.World(), _number_of_classes())
        width = demo_world.World().feature_size
        return self.dataset_info_from_configs(
            features=example_features(
                [demo_world.class_name(i, values) for i, values in enumerate(classes, start=1)],
                width,
            ),
            supervised_keys=None,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager):
        del dl_manager
        return {name: self._generate_examples(name) for name in split_members()}

    def _generate_examples(self, split: str):
        world = demo_world.World()
        camera = demo_world.Camera(world)
        classes = demo_world.make_classes(world, _number_of_classes())
        members = split_members()
        test_seen = set(members["test_seen"].tolist())
        for number in members[split].tolist():
            label = number // IMAGES_PER_CLASS
            instance = demo_world.make_instance(world, camera, classes[label], number)
            yield (
                number,
                {
                    "image_id": f"demo_{number:05d}",
                    "image_features": instance.features,
                    "captions": instance.captions,
                    "label": label,
                    "in_test_seen": number in test_seen,
                    "image": b"",
                },
            )


def _number_of_classes() -> int:
    return TRAIN_CLASSES + VALIDATION_CLASSES + UNSEEN_CLASSES


def split_members() -> dict[str, np.ndarray]:
    """Image numbers of each split, related to each other as in the public zero-shot splits.

    A fifth of the images of each seen class is test_seen. As in the public splits, the training and
    validation splits are drawn from all images of their classes, including those of test_seen.
    """
    rng = np.random.default_rng(20)
    images = np.arange(_number_of_classes() * IMAGES_PER_CLASS).reshape(-1, IMAGES_PER_CLASS)
    images = rng.permuted(images, axis=1)
    seen, unseen = images[:-UNSEEN_CLASSES], images[-UNSEEN_CLASSES:]
    fifth = IMAGES_PER_CLASS // 5
    train_pool = rng.permuted(seen[:TRAIN_CLASSES], axis=1)
    members = {
        "train": train_pool[:, fifth:],
        "val_seen": train_pool[:, :fifth],
        "val_unseen": seen[TRAIN_CLASSES:],
        "trainval": seen[:, fifth:],
        "test_seen": seen[:, :fifth],
        "test_unseen": unseen,
    }
    return {name: np.sort(numbers, axis=None) for name, numbers in members.items()}
