"""The form of all datasets of this project: examples, splits, class names, random order."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow_datasets as tfds

from clarel_tf.errors import ClarelError

# A further split of a dataset: sentences that describe classes and no image, one row a class.
DESCRIPTIONS = "descriptions"
# What training and evaluation read. The picture is left where it is; and datasets that were built
# before there were pictures do not have it.
READ_ALWAYS = ("image_id", "image_features", "captions", "label")
SPLITS = ("train", "val_seen", "val_unseen", "trainval", "test_seen", "test_unseen")


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
            "image": tfds.features.Tensor(
                shape=(),
                dtype=np.bytes_,
                doc="A small JPEG of the image; no bytes if the dataset has no pictures.",
            ),
        }
    )


def make_example(
    image_id: str,
    features: np.ndarray,
    captions: Sequence[str],
    label: int,
    in_test_seen: bool,
    jpeg: bytes = b"",
) -> dict[str, object]:
    """The example of an image; features are float32 [D]."""
    return {
        "image_id": image_id,
        "image_features": features,
        "captions": captions,
        "label": label,
        "in_test_seen": in_test_seen,
        "image": jpeg,
    }


def make_description(sentences: Sequence[str], label: int) -> dict[str, object]:
    """The example of a class that sentences describe; it has no image."""
    return make_example("", np.zeros(0, np.float32), sentences, label, False)


class OnlyFeatures(tfds.decode.PartialDecoding):
    """Reads some of the features of an example; its base class warns of its own code."""

    def __init__(self, names: Iterable[str]):
        super().__init__(dict.fromkeys(names, True))
        self._names = tuple(names)

    def extract_features(self, features: tfds.features.FeaturesDict) -> tfds.features.FeaturesDict:
        return tfds.features.FeaturesDict({name: features[name] for name in self._names})


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
    """The names of all classes, each checked by `checked_name`, and no two of them alike."""
    for number, name in enumerate(names, 1):
        checked_name(name, f"{place}: the name of class {number}, {name!r},")
    for first, second in alike(names):
        how = (
            f"have the same name {names[first]!r}"
            if names[first] == names[second]
            else f"are called {names[first]!r} and {names[second]!r}, which differ only in case "
            "or spaces"
        )
        raise ClarelError(f"{place}: classes {first + 1} and {second + 1} {how}; rename one")
    return list(names)


def alike(names: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of names that differ in nothing but case, spaces and the way an accent is encoded."""
    first: dict[str, int] = {}
    pairs = []
    for number, name in enumerate(names):
        key = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        if first.setdefault(key, number) != number:
            pairs.append((first[key], number))
    return pairs


def stable_order(names: Iterable[str], seed: int) -> list[str]:
    """`names` in a random order that depends only on the seed and the names.

    The order follows from a hash. Random generators may change between versions; a hash does not,
    so a split cut by this order is the same on every machine.
    """

    def key(name: str) -> bytes:
        return hashlib.sha256(f"{seed}:{name}".encode()).digest()

    return sorted(names, key=key)
