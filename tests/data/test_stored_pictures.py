"""Pictures in a dataset: kept beside the features, read on demand, absent in older datasets."""

import sys

import tensorflow_datasets as tfds

from clarel_tf.data import schema
from clarel_tf.data.loading import get_builder, load_splits
from clarel_tf.experiments.phases import all_images
from tests.helpers.pairs_data import build, make_data, write_folder
from tests.helpers.pictures import encoded, picture

JPEG = encoded(picture(), "JPEG") + b"\0"  # any bytes are kept as they are


def builder_module():
    return sys.modules[type(get_builder("pairs")).__module__]


def build_with(monkeypatch, tmp_path, change) -> tfds.core.DatasetBuilder:
    """A dataset whose examples are changed before they are written."""
    make = schema.make_example
    rows = make_data(4, 3, range(1, 3), width=2)
    monkeypatch.setattr(builder_module(), "make_example", lambda *args: change(make(*args)))
    return build(write_folder(tmp_path / "mine", rows), tmp_path / "data")


def test_pictures_are_read_by_the_ids_of_images(monkeypatch, tmp_path):
    def change(example):
        is_first = example["image_id"].endswith("_0.jpg")
        return {**example, "image": JPEG} if is_first else example

    splits = load_splits(build_with(monkeypatch, tmp_path, change))
    split = splits["trainval"]
    ids = [name for name in split.image_ids if name.endswith("_0.jpg")]
    assert split.pictures.read([*split.image_ids, "no such image"]) == dict.fromkeys(ids, JPEG)
    assert split.pictures.read([ids[0]]) == {ids[0]: JPEG}
    assert split.pictures.read([]) == {}


def test_the_pictures_of_all_splits_are_read_as_one(demo_data_dir):
    splits = load_splits(get_builder("demo", "small", str(demo_data_dir)))
    ids = {name: str(split.image_ids[-1]) for name, split in splits.items()}
    found = all_images(splits).pictures.read([*ids.values(), "no such image"])
    assert found == {
        image: splits[name].pictures.read([image])[image] for name, image in ids.items()
    }


def test_a_dataset_without_the_field_still_loads(monkeypatch, tmp_path):
    features = schema.example_features

    def older(*args):
        return tfds.features.FeaturesDict(
            {name: one for name, one in features(*args).items() if name != "image"}
        )

    with monkeypatch.context() as before:
        before.setattr(builder_module(), "example_features", older)
        build_with(
            before,
            tmp_path,
            lambda example: {name: one for name, one in example.items() if name != "image"},
        )
    split = load_splits(get_builder("pairs", data_dir=str(tmp_path / "data")))["trainval"]
    assert len(split) and split.pictures.read(split.image_ids) == {}
