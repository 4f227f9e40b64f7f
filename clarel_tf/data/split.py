"""One split of a dataset, in memory."""

import dataclasses
import hashlib

import numpy as np

from clarel_tf.data.pictures import Pictures
from clarel_tf.images.backbone_record import BackboneRecord


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a dataset, in memory.

    Attributes:
      name: the split's name, for messages.
      image_ids: str [N].
      image_features: float32 [N, D].
      labels: int64 [N], index into the dataset's class names.
      captions: N lists of sentences, in UTF-8 bytes; one may be empty.
      descriptions: sentences that describe a class and no image, by label. A class without images
        has nothing else.
      data_dir: where the dataset was read from, if it was; the run notes it.
      backbone: the network that made the features, if that is known; the run notes it.
      pictures: reads the pictures of the images, if the split comes from a dataset.

    Example:

    >>> split = clarel_tf.Split(
    ...     "train", np.array(["x", "y"]), np.eye(2, dtype=np.float32), np.array([0, 1]),
    ...     [[b"a red bird"], [b"a blue bird"]],
    ... )
    >>> len(split.select(split.labels == 1))
    1
    """

    name: str
    image_ids: np.ndarray
    image_features: np.ndarray
    labels: np.ndarray
    captions: list[list[bytes]]
    descriptions: dict[int, list[bytes]] = dataclasses.field(default_factory=dict)
    data_dir: str = ""
    backbone: BackboneRecord | None = None
    pictures: Pictures | None = dataclasses.field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, keep: np.ndarray) -> "Split":
        """The instances where `keep`, bool [N], is true, with the descriptions of their classes."""
        labels = self.labels[keep]
        left = set(labels.tolist())
        return dataclasses.replace(
            self,
            image_ids=self.image_ids[keep],
            image_features=self.image_features[keep],
            labels=labels,
            captions=[own for own, kept in zip(self.captions, keep, strict=True) if kept],
            descriptions={key: own for key, own in self.descriptions.items() if key in left},
        )

    def classes(self) -> np.ndarray:
        """Labels of all classes that have images or a description here, int64 [C], sorted."""
        return np.union1d(self.labels, np.array(list(self.descriptions), np.int64))

    def descriptions_without_images(self) -> dict[int, list[bytes]]:
        """The descriptions of classes that have no images here."""
        there = set(self.labels.tolist())
        return {key: own for key, own in self.descriptions.items() if key not in there}

    def all_captions(self) -> list[bytes]:
        """Every sentence once: the captions of the images, then the descriptions by label."""
        flat = [caption for own in self.captions for caption in own]
        return flat + [
            text for label in sorted(self.descriptions) for text in self.descriptions[label]
        ]

    def caption_labels(self) -> np.ndarray:
        """The class of each sentence of `all_captions`, int64 [M]."""
        described = sorted(self.descriptions)
        labels = np.concatenate([self.labels, np.array(described, np.int64)])
        counts = [len(own) for own in self.captions]
        counts += [len(self.descriptions[label]) for label in described]
        return np.repeat(labels, np.array(counts, np.int64))

    def with_borrowed_captions(self) -> "Split":
        """A copy in which images without captions have some of their class, for training.

        They are drawn from all sentences of the class by a hash of the image's id, as many as an
        image with captions has at most. Prototypes are not made of this copy: there, each sentence
        counts once.
        """
        without = [number for number, own in enumerate(self.captions) if not own]
        if not without:
            return self
        texts, labels = self.all_captions(), self.caption_labels()
        most = max(map(len, self.captions)) or min(10, len(texts))
        captions = list(self.captions)
        for number in without:
            of_class = np.flatnonzero(labels == self.labels[number])
            key = hashlib.sha256(str(self.image_ids[number]).encode("utf-8")).digest()
            drawn = np.random.default_rng(list(key)).permutation(of_class)[:most]
            captions[number] = [texts[row] for row in np.sort(drawn)]
        return dataclasses.replace(self, captions=captions)

    def fingerprints(self) -> dict[str, str]:
        """Hashes of the images with their classes, of the features and of the captions.

        The hashes do not depend on the order of the images.
        """
        order = np.argsort(self.image_ids)
        names = [f"{self.image_ids[i]}\t{self.labels[i]}" for i in order]
        captions = [b"\n".join(self.captions[i]) for i in order]
        # Nothing is added without descriptions: fingerprints of older runs stay valid.
        for label in sorted(self.descriptions):
            captions.append(b"\n".join([b"%d" % label, *self.descriptions[label]]))
        return {
            "images": _short_hash("\n".join(names).encode("utf-8")),
            "features": _short_hash(np.ascontiguousarray(self.image_features[order]).tobytes()),
            "captions": _short_hash(b"\n\n".join(captions)),
        }


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
