"""Finds the TFDS builder of a dataset, and loads its splits and class names."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf import datasets
from clarel_tf.data.builders import MarkedBuild
from clarel_tf.data.embedding_builds import record_of
from clarel_tf.data.pictures import StoredPictures
from clarel_tf.data.preparation import prepare
from clarel_tf.data.reading import BUILD_AGAIN, read_descriptions, read_split
from clarel_tf.data.schema import SPLITS
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError, brief


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
            f"unknown dataset {name!r} (--dataset); {datasets_folder} has: "
            + (", ".join(there) or "none")
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
            f"dataset {name!r} has no config {config!r} (--config); it has: "
            + (", ".join(configs) or "none")
        )
    try:
        return builder_class(data_dir=data_dir, config=config or None)
    except Exception as error:  # several libraries read its JSON and text files here
        if isinstance(error, ClarelError):
            raise
        raise ClarelError(
            f"cannot read the dataset {name!r} in {data_dir or 'the default data_dir'} "
            f"({brief(error)}); if a file there is damaged, {BUILD_AGAIN}"
        ) from error


def load_splits(
    builder: tfds.core.DatasetBuilder, manual_dir: str | None = None
) -> dict[str, Split]:
    """Reads all splits of a dataset, and builds it first if necessary.

    Example:

    >>> splits = clarel_tf.load_splits(clarel_tf.get_builder("demo"))
    >>> sorted(splits)
    ['test_seen', 'test_unseen', 'train', 'trainval', 'val_seen', 'val_unseen']
    """
    prepare(builder, manual_dir)
    absent = [name for name in SPLITS if name not in builder.info.splits]
    optional = builder.OPTIONAL_SPLITS if isinstance(builder, MarkedBuild) else ()
    if damaged := [name for name in absent if name not in optional]:
        raise ClarelError(
            f"dataset {builder.name!r} in {builder.data_path} lacks the splits "
            f"{', '.join(damaged)}; look at what is in that folder, and {BUILD_AGAIN}"
        )
    splits = {name: read_split(builder, name) for name in SPLITS if name not in absent}
    for name in absent:
        splits[name] = dataclasses.replace(
            splits["train"].select(np.zeros(len(splits["train"]), bool)), name=name
        )
    data_dir = os.path.abspath(builder.data_dir_root)
    backbone = record_of(builder.data_path)
    described = read_descriptions(builder)
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
            f"cannot read {builder.data_path}/features.json ({brief(error)}); {BUILD_AGAIN}"
        ) from error
    if built != len(label.names):
        raise ClarelError(
            f"the dataset in {builder.data_path} has {built} classes, but label.labels.txt has "
            f"{len(label.names)} names; {BUILD_AGAIN}"
        )
    return label.names
