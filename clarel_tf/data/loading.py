"""Finds a dataset's TFDS builder, builds the dataset if necessary, and reads its splits."""

import contextlib
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from clarel_tf import datasets
from clarel_tf.data.builders import BUILD_KIND, MarkedBuild
from clarel_tf.data.embedding_builds import record_of
from clarel_tf.data.pictures import StoredPictures
from clarel_tf.data.schema import DESCRIPTIONS, READ_ALWAYS, SPLITS, OnlyFields
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError, brief
from clarel_tf.storage import files, ownership

# Files that TFDS writes during a build, under temporary and final names.
_BUILD_FILES = re.compile(
    r"(incomplete\.[0-9a-fA-F]{32}\.)?([^/]+\.tfrecord[^/]*|bucket_[^/]+\.tmp|dataset_info\.json|"
    r"features\.json|raw_files\.json|backbone\.json|[^/]+\.labels\.txt)"
)
_BUILD_AGAIN = "delete the dataset's folder in data_dir, and it is built again"


def get_builder(
    name: str,
    config: str = "",
    data_dir: str | None = None,
    datasets_folder: Path = datasets.FOLDER,
) -> tfds.core.DatasetBuilder:
    """The TFDS builder in `datasets_folder/name`, as `tfds build` finds it.

    Args:
      datasets_folder: has a folder for each dataset; by default that of this project.

    Example:

    >>> clarel_tf.get_builder("demo").name
    'demo'
    """
    script = datasets_folder / name / f"{name}_dataset_builder.py"
    if not name.isidentifier() or not script.is_file():
        there = sorted(path.parent.name for path in datasets_folder.glob("*/*_dataset_builder.py"))
        raise ClarelError(
            f"unknown dataset {name!r}; {datasets_folder} has: {', '.join(there) or 'none'}"
        )
    module, find = f"{name}.{name}_dataset_builder", tfds.core.community.builder_cls_from_module
    if datasets_folder == datasets.FOLDER:
        builder_class = find(f"clarel_tf.datasets.{module}")
    else:
        with tfds.core.utils.add_sys_path(datasets_folder):
            builder_class = find(module)
    configs = builder_class.builder_configs
    if config and builder_class.get_builder_config(config) is None:
        raise ClarelError(
            f"dataset {name!r} has no config {config!r}; it has: {', '.join(configs) or 'none'}"
        )
    try:
        return builder_class(data_dir=data_dir, config=config or None)
    except Exception as error:  # several libraries read its JSON and text files here
        if isinstance(error, ClarelError):
            raise
        raise ClarelError(
            f"cannot read the dataset {name!r} in {data_dir or 'the default data_dir'} "
            f"({brief(error)}); if a file there is damaged, {_BUILD_AGAIN}"
        ) from error


def prepare(builder: tfds.core.DatasetBuilder, manual_dir: str | None = None) -> None:
    """Builds the dataset if it is not built yet.

    Args:
      manual_dir: folder with the raw files, for datasets that need them. ClarelError if the dataset
        is built already, of other files.
    """
    if builder.is_prepared():
        if isinstance(builder, MarkedBuild):
            builder.compare_raw_files(manual_dir)
        return
    needs_files = builder.MANUAL_DOWNLOAD_INSTRUCTIONS
    if needs_files and not manual_dir:
        raise ClarelError(
            f"dataset {_full_name(builder)!r} is not built yet in {builder.data_dir_root}"
            f"{_built_ones(builder)}; give the folder with its raw files as "
            f"--manual_dir. {needs_files}"
        )
    if isinstance(builder, MarkedBuild):
        if needs_files:
            manual_dir = os.fspath(builder.checked_manual_dir(manual_dir))
        else:
            builder.compare_raw_files(manual_dir)
    with files.writing_in(builder.data_path, "the dataset's folder"), _only_builder(builder):
        if builder.is_prepared():  # another process has built it meanwhile
            builder.info.read_from_directory(builder.data_path)
            if isinstance(builder, MarkedBuild):
                builder.compare_raw_files(manual_dir)
            return
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(manual_dir=manual_dir)
        )


def _full_name(builder: tfds.core.DatasetBuilder) -> str:
    """Name and config, as the flags name them."""
    config = builder.builder_config
    return f"{builder.name}/{config.name}" if config else builder.name


def _built_ones(builder: tfds.core.DatasetBuilder) -> str:
    """The configs of the same dataset that are built, for a message."""
    if "://" in os.fspath(builder.data_path) or not builder.builder_config:
        return ""
    found = Path(builder.data_path).parent.parent.glob(f"*/{builder.version}/dataset_info.json")
    names = ", ".join(sorted(path.parent.parent.name for path in found))
    return f" (built there, by --config: {names})" if names else ""


@contextlib.contextmanager
def _only_builder(builder: tfds.core.DatasetBuilder) -> Iterator[None]:
    """Holds the lock for building a dataset, and removes leftovers of a killed build."""
    if "://" in os.fspath(builder.data_path):  # cloud storage: no locks, and only TFDS deletes
        yield
        return
    folder = Path(builder.data_path).parent
    folder.mkdir(parents=True, exist_ok=True)
    with files.only_process(folder, "the dataset's folder", wait=True):
        for leftover in folder.glob(f"incomplete.??????_{builder.version}"):
            _remove_leftover(leftover)
        yield


def _remove_leftover(folder: Path) -> None:
    """Removes the leftovers of a killed build if the folder holds nothing else."""
    if folder.is_symlink():
        return
    if not os.listdir(folder):
        folder.rmdir()
    elif ownership.is_abandoned(folder, BUILD_KIND):
        try:
            ownership.delete_own(folder, _BUILD_FILES, "the unfinished dataset")
            folder.rmdir()
        except ClarelError as error:
            print(f"{error}; the build continues", file=sys.stderr)


def load_splits(
    builder: tfds.core.DatasetBuilder, manual_dir: str | None = None
) -> dict[str, Split]:
    """Reads all splits of a dataset, and builds it first if necessary.

    Example:

    >>> splits = clarel_tf.load_splits(clarel_tf.get_builder("demo"))
    >>> {name: len(split) for name, split in splits.items() if name.startswith("test")}
    {'test_seen': 390, 'test_unseen': 450}
    """
    prepare(builder, manual_dir)
    absent = [name for name in SPLITS if name not in builder.info.splits]
    optional = builder.OPTIONAL_SPLITS if isinstance(builder, MarkedBuild) else ()
    if damaged := [name for name in absent if name not in optional]:
        raise ClarelError(
            f"dataset {builder.name!r} in {builder.data_path} lacks the splits "
            f"{', '.join(damaged)}; look at what is in that folder, and {_BUILD_AGAIN}"
        )
    splits = {name: _load_intact_split(builder, name) for name in SPLITS if name not in absent}
    for name in absent:
        splits[name] = dataclasses.replace(
            splits["train"].select(np.zeros(len(splits["train"]), bool)), name=name
        )
    data_dir = os.path.abspath(builder.data_dir_root)
    backbone = record_of(builder.data_path)
    described = _descriptions(builder)
    homes = _homes_of_classes(splits)
    return {
        name: dataclasses.replace(
            splits[name],
            data_dir=data_dir,
            backbone=backbone,
            pictures=None if name in absent else StoredPictures(builder, name),
            descriptions={
                label: sentences
                for label, sentences in described.items()
                if name in homes.get(label, ("test_unseen",))
            },
        )
        for name in SPLITS
    }


def _descriptions(builder: tfds.core.DatasetBuilder) -> dict[int, list[bytes]]:
    """Sentences that describe classes, by label."""
    if DESCRIPTIONS not in builder.info.splits:
        return {}
    with _named_damage(builder, DESCRIPTIONS):
        examples = _examples(builder, DESCRIPTIONS).as_numpy_iterator()
        return {int(one["label"]): list(one["captions"]) for one in examples}


def _homes_of_classes(splits: dict[str, Split]) -> dict[int, tuple[str, ...]]:
    """The splits in which a description of each class counts, so that no phase has it twice.

    A class without images is like one of `test_unseen`.
    """
    homes = dict.fromkeys(splits["val_unseen"].labels.tolist(), ("val_unseen", "trainval"))
    return homes | dict.fromkeys(splits["train"].labels.tolist(), ("train", "trainval"))


def class_names(builder: tfds.core.DatasetBuilder) -> list[str]:
    """Names of the classes, in the order of their labels.

    Example:

    >>> len(clarel_tf.class_names(clarel_tf.get_builder("demo")))
    80
    """
    label = builder.info.features["label"]
    if not builder.is_prepared():
        return label.names
    try:
        # This file has the number of classes; label.labels.txt has their names.
        content = json.loads((builder.data_path / "features.json").read_text())
        built = tfds.features.FeatureConnector.from_json(content)["label"].num_classes
    except Exception as error:  # TFDS, protobuf and file systems raise many kinds of exceptions
        raise ClarelError(
            f"cannot read {builder.data_path}/features.json ({brief(error)}); {_BUILD_AGAIN}"
        ) from error
    if built != len(label.names):
        raise ClarelError(
            f"the dataset in {builder.data_path} has {built} classes, but label.labels.txt has "
            f"{len(label.names)} names; {_BUILD_AGAIN}"
        )
    return label.names


def _load_intact_split(builder: tfds.core.DatasetBuilder, name: str) -> Split:
    """Reads a split; ClarelError names a damaged file."""
    with _named_damage(builder, name):
        return _load_split(builder, name)


@contextlib.contextmanager
def _named_damage(builder: tfds.core.DatasetBuilder, name: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, OSError, UnicodeDecodeError) as error:
        found = _damaged_file(builder, name)
        where = found or f"split {name!r} in {builder.data_path}"
        raise ClarelError(f"cannot read {where} ({brief(error)}); {_BUILD_AGAIN}") from error


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
    return builder.as_dataset(split=split, decoders=OnlyFields(READ_ALWAYS))


def _with_known_width(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset with the width of its features set: without it, batches would be ragged."""
    width = next((len(first["image_features"]) for first in dataset.take(1)), 0)

    def ensure(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features = tf.ensure_shape(example["image_features"], [width])
        return {**example, "image_features": features}

    return dataset.map(ensure)
