"""The pictures of a built dataset, read on demand."""

import dataclasses
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from clarel_tf.data.split import Split

_WANTED = ("image_id", "image")


class Pictures(Protocol):
    """What reads the pictures of a split."""

    def read(self, image_ids: Collection[str]) -> dict[str, bytes]:
        """The pictures of these images by their ids; without those that have none."""


@dataclasses.dataclass(frozen=True)
class JoinedPictures:
    """The pictures of several splits; one that is in two of them is read once."""

    parts: tuple[Pictures, ...]

    @classmethod
    def of(cls, splits: Iterable["Split"]) -> "JoinedPictures":
        """Those of the splits that have any."""
        return cls(tuple(split.pictures for split in splits if split.pictures is not None))

    def read(self, image_ids: Collection[str]) -> dict[str, bytes]:
        """The pictures of these images by their ids; without those that have none."""
        found: dict[str, bytes] = {}
        for part in self.parts:
            found |= part.read(set(image_ids) - found.keys())
        return found


@dataclasses.dataclass(frozen=True)
class StoredPictures:
    """The small JPEG files that a split keeps beside its features; none is held in memory.

    Attributes:
      builder: the TFDS builder of the dataset.
      split: name of the split.
    """

    builder: Any
    split: str

    def read(self, image_ids: Collection[str]) -> dict[str, bytes]:
        """The pictures of these images by their ids; without those that have none.

        One pass over the files of the split, so ask for many at once.
        """
        wanted = {image_id.encode() for image_id in image_ids}
        if not wanted or not self._has_pictures():
            return {}
        from clarel_tf.data.schema import OnlyFeatures  # late: `Split` is used without TFDS too

        examples = self.builder.as_dataset(split=self.split, decoders=OnlyFeatures(_WANTED))
        found = {}
        for example in examples.as_numpy_iterator():
            if example["image_id"] in wanted and example["image"]:
                found[example["image_id"].decode()] = example["image"]
                if len(found) == len(wanted):
                    break
        return found

    def _has_pictures(self) -> bool:
        """False for a dataset that was built before there were pictures."""
        import tensorflow_datasets as tfds

        # The features of a builder are those of its code; this file says what was built.
        built = tfds.features.FeatureConnector.from_config(self.builder.data_path)
        return "image" in built
