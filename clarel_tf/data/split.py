"""One split of a dataset, in memory."""

import dataclasses
import hashlib

import numpy as np


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a dataset, in memory.

    Attributes:
      name: the split's name, for messages.
      image_ids: str [N].
      image_features: float32 [N, D].
      labels: int64 [N], index into the dataset's class names.
      captions: N lists of sentences, in UTF-8 bytes.

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

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, keep: np.ndarray) -> "Split":
        """The instances where `keep`, bool [N], is true."""
        return Split(
            self.name,
            self.image_ids[keep],
            self.image_features[keep],
            self.labels[keep],
            [captions for captions, kept in zip(self.captions, keep, strict=True) if kept],
        )

    def fingerprints(self) -> dict[str, str]:
        """Hashes of the images with their classes, of the features and of the captions.

        The hashes do not depend on the order of the images.
        """
        order = np.argsort(self.image_ids)
        names = [f"{self.image_ids[i]}\t{self.labels[i]}" for i in order]
        captions = [b"\n".join(self.captions[i]) for i in order]
        return {
            "images": _short_hash("\n".join(names).encode("utf-8")),
            "features": _short_hash(np.ascontiguousarray(self.image_features[order]).tobytes()),
            "captions": _short_hash(b"\n\n".join(captions)),
        }


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
