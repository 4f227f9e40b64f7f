"""What the demo dataset stores of a picture."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.images.decoding import decode_pictures
from clarel_tf.images.loading import load_backbone


def test_the_features_are_those_of_the_stored_pictures(demo_data_dir):
    builder = get_builder("demo", "small", data_dir=str(demo_data_dir))
    size = builder.builder_config.input_size
    splits = load_splits(builder)
    tests = set(splits["test_seen"].image_ids)
    examples = list(builder.as_dataset(split="train").take(8).as_numpy_iterator())
    pixels, problems = decode_pictures(tf.constant([one["image"] for one in examples]), size)
    assert not any(problems.numpy())
    backbone = load_backbone(input_size=size, mirrored=False)
    assert splits["trainval"].backbone == backbone.record
    again = backbone.features(pixels).numpy()
    for example, features in zip(examples, again, strict=True):
        assert Image.open(io.BytesIO(example["image"])).size == (160, 160)
        np.testing.assert_allclose(example["image_features"], features, atol=1e-4)
        assert len(example["captions"]) == 10
        assert example["in_test_seen"] == (example["image_id"].decode() in tests)
