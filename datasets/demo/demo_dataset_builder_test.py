"""Declarative test of the builder, and the facts about images and splits."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds

from clarel_tf.images.loading import load_backbone

from . import world as demo_world
from .demo_dataset_builder import DEFAULT, Builder, DemoConfig, split_members
from .images import make_images

# Few images, so that they are embedded in a moment.
FEW = DemoConfig(name="few", trained=3, tested=1, held_out=1, unseen=2, input_size=32)


class DemoTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = Builder
    BUILDER_CONFIG_NAMES_TO_TEST = [FEW]
    EXAMPLE_DIR = Path(__file__).parent  # nothing is read
    SPLITS = {
        "train": 50 * 3,
        "val_seen": 50 * 2,
        "val_unseen": 15 * 5,
        "trainval": 65 * 3,
        "test_seen": 65 * 1,
        "test_unseen": 15 * 2,
    }
    # The same image is in several splits on purpose, as in the public zero-shot splits.
    OVERLAPPING_SPLITS = ["train", "val_seen", "val_unseen", "trainval", "test_seen"]
    SKIP_CHECKSUMS = True


@pytest.mark.parametrize("config", [DEFAULT, *Builder.OPTIONAL_CONFIGS], ids=lambda c: c.name)
def test_splits_relate_as_the_public_ones_do(config):
    members = split_members(config)
    of_image = config.labels()
    numbers = {name: set(rows.tolist()) for name, rows in members.items()}
    labels = {name: set(of_image[rows].tolist()) for name, rows in members.items()}
    assert not numbers["train"] & numbers["val_seen"]
    assert not numbers["trainval"] & numbers["test_seen"]
    validation = numbers["train"] | numbers["val_seen"] | numbers["val_unseen"]
    assert numbers["trainval"] <= validation
    for name in ("train", "val_seen", "val_unseen"):
        assert numbers[name] & numbers["test_seen"]  # what the clean protocol takes out
        assert numbers[name] - numbers["test_seen"]
    assert not labels["trainval"] & labels["test_unseen"]
    assert not labels["train"] & labels["val_unseen"]
    assert labels["train"] == labels["val_seen"]
    assert labels["trainval"] == labels["test_seen"] == labels["train"] | labels["val_unseen"]
    assert set().union(*numbers.values()) == set(range(len(of_image)))


def test_a_drawing_does_not_change_captions_and_an_image_is_the_same_alone(monkeypatch):
    world = demo_world.World()
    values = demo_world.make_classes(world, 80)[[3, 4, 5]]
    backbone = load_backbone(input_size=32, mirrored=False)
    images = make_images(world, values, backbone)
    assert list(images) == [0, 1, 2]
    assert images[2].jpeg != images[1].jpeg
    monkeypatch.setattr(demo_world, "draw", lambda *_: np.zeros((160, 160, 3), np.uint8))
    for number, image in make_images(world, values, backbone).items():
        assert image.captions == images[number].captions
        assert image.jpeg != images[number].jpeg


if __name__ == "__main__":
    tfds.testing.test_main()
