"""Reads the examples of a built dataset; an error names the damaged file."""

import contextlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from clarel_tf.data.schema import DESCRIPTIONS, READ_ALWAYS, OnlyFeatures
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError, brief

BUILD_AGAIN = "delete the dataset's folder in data_dir, and it is built again"


def read_split(builder: tfds.core.DatasetBuilder, name: str) -> Split:
    """Reads a split; ClarelError names a damaged file."""
    with _named_damage(builder, name):
        return _load_split(builder, name)


def read_descriptions(builder: tfds.core.DatasetBuilder) -> dict[int, list[bytes]]:
    """Sentences that describe classes, by label."""
    if DESCRIPTIONS not in builder.info.splits:
        return {}
    with _named_damage(builder, DESCRIPTIONS):
        examples = _examples(builder, DESCRIPTIONS).as_numpy_iterator()
        return {int(one["label"]): list(one["captions"]) for one in examples}


@contextlib.contextmanager
def _named_damage(builder: tfds.core.DatasetBuilder, name: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, OSError, UnicodeDecodeError) as error:
        found = _damaged_file(builder, name)
        where = found or f"split {name!r} in {builder.data_path}"
        raise ClarelError(f"cannot read {where} ({brief(error)}); {BUILD_AGAIN}") from error


def _damaged_file(builder: tfds.core.DatasetBuilder, name: str) -> str | None:
    """The first file of a split with unreadable or missing records."""
    split = builder.info.splits[name]
    for path, length in zip(split.filepaths, split.shard_lengths, strict=True):
        try:
            if sum(1 for _ in tf.data.TFRecordDataset(str(path))) != length:
                return str(path)
        except tf.errors.OpError:
            return str(path)
    return None


def _load_split(builder: tfds.core.DatasetBuilder, name: str) -> Split:
    dataset = _examples(builder, name)
    if builder.info.features["image_features"].shape[0] is None:
        dataset = _with_known_width(dataset)
    blocks = list(dataset.ragged_batch(1024).as_numpy_iterator())
    if not blocks:
        raise ClarelError(f"dataset {builder.name!r}: split {name!r} is empty")

    def column(key: str) -> np.ndarray:
        return np.concatenate([block[key] for block in blocks])

    features = column("image_features").astype(np.float32, copy=False)
    image_ids = np.array([image_id.decode("utf-8") for image_id in column("image_id")])
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise ClarelError(
            f"dataset {builder.name!r}, split {name!r}: the features of image "
            f"'{image_ids[bad[0]]}' are not finite ({bad.size} such images); "
            f"correct the features and build the dataset again ({builder.data_path})"
        )
    captions = [list(row) for block in blocks for row in block["captions"]]
    return Split(name, image_ids, features, column("label"), captions)


def _examples(builder: tfds.core.DatasetBuilder, split: str) -> tf.data.Dataset:
    """The examples of a split, without their pictures."""
    return builder.as_dataset(split=split, decoders=OnlyFeatures(READ_ALWAYS))


def _with_known_width(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset with the width of its features set: without it, batches would be ragged."""
    width = next((len(first["image_features"]) for first in dataset.take(1)), 0)

    def ensure(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features = tf.ensure_shape(example["image_features"], [width])
        return {**example, "image_features": features}

    return dataset.map(ensure)
