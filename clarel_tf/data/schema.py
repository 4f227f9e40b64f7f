"""The form of every dataset of this project: features, splits, names, reproducible random order."""

import contextlib
import hashlib
import inspect
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.errors import ClarelError
from clarel_tf.storage import ownership

SPLITS = ("train", "val_seen", "val_unseen", "trainval", "test_seen", "test_unseen")
BUILD_KIND = "dataset"  # in the mark of a dataset's folder


def example_features(
    class_names: Sequence[str] | None = None, feature_size: int | None = None
) -> tfds.features.FeaturesDict:
    """The features of an example.

    Args:
      class_names: None if only the raw data tells them.
      feature_size: width of the image features; None if only the raw data tells it.
    """
    return tfds.features.FeaturesDict(
        {
            "image_id": tfds.features.Text(doc="Unique name of the image."),
            "image_features": tfds.features.Tensor(
                shape=(feature_size,), dtype=np.float32, doc="Pooled features of the image."
            ),
            "captions": tfds.features.Sequence(
                tfds.features.Text(), doc="Sentences that describe the image."
            ),
            "label": tfds.features.ClassLabel(names=class_names, doc="Class of the image."),
            "in_test_seen": tfds.features.Scalar(
                dtype=np.bool_, doc="Whether the image is (also) one of split test_seen."
            ),
        }
    )


class MarkedBuild:
    """A builder that marks the folder it builds in, so that leftovers of a kill are recognised.

    It also tells TFDS where its files are (README.md, checksums.tsv). TFDS would infer that from
    the import name, but in a clone `clarel_tf.datasets` is in another folder.
    """

    data_path: Any  # an attribute of the TFDS builder, another base of the same class

    @tfds.core.utils.classproperty
    @classmethod
    def code_path(cls) -> tfds.core.Path:
        """The file of the builder."""
        return tfds.core.Path(inspect.getfile(cls))

    @classmethod
    def _get_pkg_dir_path(cls) -> tfds.core.Path:
        return cls.code_path.parent

    def _download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        with contextlib.ExitStack() as stack:
            if "://" not in os.fspath(self.data_path):  # cloud storage has no locks
                stack.enter_context(ownership.marked_while_used(Path(self.data_path), BUILD_KIND))
            # A method of the TFDS builder, which comes later among the bases.
            super()._download_and_prepare(*args, **kwargs)  # type: ignore[misc]


def checked_name(name: str, place: str) -> str:
    """The name of a class or an image, if it can be stored as a line of a text file.

    TFDS stores class names in this way. It strips lines and drops blank ones, which would shift
    all later names by one.

    Args:
      place: where the name is, for messages.
    """
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:  # half of a surrogate pair, or bytes that are not UTF-8
        raise ClarelError(f"{place} holds a character that is not Unicode; rename it") from error
    if not name.strip():
        raise ClarelError(f"{place} is empty or blank; give it a name")
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name):
        raise ClarelError(f"{place} holds a line break or another control character; remove it")
    if name != name.strip():
        raise ClarelError(f"{place} begins or ends with a space; remove it")
    return name


def checked_class_names(names: Sequence[str], place: str) -> list[str]:
    """The names of all classes, each checked by `checked_name` and all unique."""
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        checked_name(name, f"{place}: the name of class {number}, {name!r},")
        if first.setdefault(name, number) != number:
            raise ClarelError(
                f"{place}: classes {first[name]} and {number} have the same name {name!r}; "
                "rename one of them"
            )
    return list(names)


class OptionalConfigs:
    """A builder with configs that are built only on request by name.

    `tfds build` without --config builds all of `BUILDER_CONFIGS`, one after the other; those in
    `OPTIONAL_CONFIGS` need files or machines that not everybody has.
    """

    BUILDER_CONFIGS: Sequence[tfds.core.BuilderConfig]
    OPTIONAL_CONFIGS: Sequence[tfds.core.BuilderConfig] = ()

    @tfds.core.utils.classproperty
    @classmethod
    def builder_configs(cls) -> dict[str, tfds.core.BuilderConfig]:
        """All configs by name, for `tfds.builder` and --config."""
        return {config.name: config for config in (*cls.BUILDER_CONFIGS, *cls.OPTIONAL_CONFIGS)}


def stable_order(names: Iterable[str], seed: int) -> list[str]:
    """`names` in a random order that depends only on the seed and the names.

    The order follows from a hash. Random generators may change between versions; a hash does not,
    so a split cut by this order is the same on every machine.
    """

    def key(name: str) -> bytes:
        return hashlib.sha256(f"{seed}:{name}".encode()).digest()

    return sorted(names, key=key)
