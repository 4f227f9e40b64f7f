"""Finding builders, reading splits, and what is wrong with them, on builders made for the test."""

import logging
from pathlib import Path

import numpy as np
import pytest

from clarel_tf.data.loading import class_names, get_builder, load_splits
from clarel_tf.data.schema import checked_class_names
from clarel_tf.errors import ClarelError

BUILDER = """
import numpy as np
import tensorflow_datasets as tfds

class Builder(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="plain"), tfds.core.BuilderConfig(name="nan")]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({
                "image_id": tfds.features.Text(),
                "image_features": tfds.features.Tensor(shape=(3,), dtype=np.float32),
                "captions": tfds.features.Sequence(tfds.features.Text()),
                "label": tfds.features.ClassLabel(names=["wren", "crow"]),
                "in_test_seen": np.bool_,
            }),
        )

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(name) for name in SPLITS}

    def _generate_examples(self, split):
        for i in range(3):
            features = np.full(3, i, np.float32)
            if self.builder_config.name == "nan" and split == "test_seen" and i == 2:
                features[1] = np.nan
            yield i, {
                "image_id": f"{split}-{i}", "image_features": features, "label": i % 2,
                "captions": [f"caption {k} of {i}" for k in range(i)], "in_test_seen": False,
            }
"""
ALL_SPLITS = ["train", "val_seen", "val_unseen", "trainval", "test_seen", "test_unseen"]


def make_builder_folder(folder: Path, name: str, splits=ALL_SPLITS) -> Path:
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    code = f"SPLITS = {splits!r}\n{BUILDER}"
    (package / f"{name}_dataset_builder.py").write_text(code)
    return folder


def test_reads_values_and_captions_of_differing_number(tmp_path):
    folder = make_builder_folder(tmp_path / "datasets", "birds_a")
    builder = get_builder("birds_a", "plain", str(tmp_path / "data"), folder)
    splits = load_splits(builder)
    assert list(splits) == ALL_SPLITS
    train = splits["train"]
    order = np.argsort(train.image_ids)
    assert train.image_ids[order].tolist() == ["train-0", "train-1", "train-2"]
    np.testing.assert_array_equal(train.image_features[order][:, 0], [0, 1, 2])
    assert train.labels[order].tolist() == [0, 1, 0]
    captions = [train.captions[i] for i in order]
    assert captions == [[], [b"caption 0 of 1"], [b"caption 0 of 2", b"caption 1 of 2"]]
    assert class_names(builder) == ["wren", "crow"]


def test_a_feature_that_is_not_finite_is_named(tmp_path):
    folder = make_builder_folder(tmp_path / "datasets", "birds_b")
    builder = get_builder("birds_b", "nan", str(tmp_path / "data"), folder)
    with pytest.raises(ClarelError, match="split 'test_seen': the features of image 'test_seen-2'"):
        load_splits(builder)


def test_a_missing_split_is_named(tmp_path):
    folder = make_builder_folder(tmp_path / "datasets", "birds_c", ALL_SPLITS[:-1])
    builder = get_builder("birds_c", "plain", str(tmp_path / "data"), folder)
    with pytest.raises(ClarelError, match=r"'birds_c' in .* lacks the splits test_unseen"):
        load_splits(builder)


@pytest.mark.parametrize("name", ["eagles", "../demo", "", "de mo"])
def test_unknown_dataset(name):
    with pytest.raises(ClarelError, match=r"unknown dataset .* has: .*demo"):
        get_builder(name)


def test_unknown_config():
    with pytest.raises(ClarelError, match=r"has no config 'large' \(--config\); it has: small"):
        get_builder("demo", "large")


def test_class_names_that_look_like_one():
    assert checked_class_names(["wren", "crow"], "names") == ["wren", "crow"]
    with pytest.raises(ClarelError, match="classes 1 and 3 are called 'Red wren' and 'red  wren'"):
        checked_class_names(["Red wren", "crow", "red  wren"], "names")


def test_a_dataset_that_is_not_built_yet_is_no_warning_and_a_damaged_one_is(tmp_path, caplog):
    builder = get_builder("pairs", "birds", str(tmp_path))
    absl = logging.getLogger("absl")
    absl.addHandler(caplog.handler)
    try:
        assert not builder.is_prepared()
        assert not caplog.records
        Path(builder.data_path).mkdir(parents=True)  # as if dataset_info.json were lost
        assert not builder.is_prepared()
    finally:
        absl.removeHandler(caplog.handler)
    assert "has no dataset_info.json" in caplog.text
