"""Embeds whole splits; captions are processed in blocks and never all in memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import tqdm

from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.models.embedder import Embedder
from clarel_tf.models.vocabulary import tokenize_captions


class ClassSentences(NamedTuple):
    """Sentences that describe K classes and no image.

    Attributes:
      labels: int64 [K].
      sums: float32 [K, E], sum of the embedded sentences of each class.
      counts: int64 [K].
    """

    labels: np.ndarray
    sums: np.ndarray
    counts: np.ndarray


class EmbeddedSplit(NamedTuple):
    """A split in the joint space.

    Attributes:
      labels: int64 [N].
      images: float32 [N, E].
      caption_sums: float32 [N, E], sum of the embedded captions of each instance.
      caption_counts: int64 [N].
      described: the descriptions of the split, if it has any.
    """

    labels: np.ndarray
    images: np.ndarray
    caption_sums: np.ndarray
    caption_counts: np.ndarray
    described: ClassSentences | None = None

    def classes(self) -> np.ndarray:
        """Labels of all classes that have images or a description here, int64 [C], sorted."""
        described = [] if self.described is None else [self.described.labels]
        return np.unique(np.concatenate([self.labels, *described]))


class CaptionReader(Protocol):
    """An object that receives every embedded caption once."""

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Receives captions, float32 [b, E], and their instance numbers, int64 [b].

        The number is -1 for sentences of a description. These come last in a split.
        """


def embed_captions(
    model: Embedder, split: Split, block: int = 4096
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (embeddings, float32 [b, E]; instance of each, int64 [b]), in order of instances."""
    counts = np.array([len(own) for own in split.captions], np.int64)
    instances = np.repeat(np.arange(len(split)), counts)
    flat = [caption for own in split.captions for caption in own]
    progress = tqdm.tqdm(
        total=len(flat), desc=f"captions of {split.name}", unit="caption", leave=False, disable=None
    )
    with progress:
        for start in range(0, len(flat), block):
            token_ids = tokenize_captions([flat[start : start + block]], model.text_tower).token_ids
            yield model.embed_token_ids(token_ids), instances[start : start + block]
            progress.update(len(token_ids))


def embed_split(
    model: Embedder, split: Split, readers: Sequence[CaptionReader] = ()
) -> EmbeddedSplit:
    """Embeds the images and captions of a split; `readers` receive each embedded caption."""
    images = model.embed_images(split.image_features)
    _refuse_overflow(images, split)
    embedded = sum_captions(split.labels, images, embed_captions(model, split), readers)
    return embedded._replace(described=_embed_descriptions(model, split, readers))


def _embed_descriptions(
    model: Embedder, split: Split, readers: Sequence[CaptionReader]
) -> ClassSentences | None:
    if not split.descriptions:
        return None
    labels = np.array(sorted(split.descriptions), np.int64)
    counts = np.array([len(split.descriptions[label]) for label in labels.tolist()])
    embeddings = model.embed_texts(split.all_captions()[-int(counts.sum()) :])
    for reader in readers:
        reader.add(embeddings, np.full(len(embeddings), -1))
    return ClassSentences(labels, np.add.reduceat(embeddings, np.cumsum(counts) - counts), counts)


def _refuse_overflow(images: np.ndarray, split: Split) -> None:
    """Raises ClarelError if a squared length is not finite: distances would be NaN.

    Args:
      images: float32 [N, E].
    """
    with np.errstate(over="ignore", invalid="ignore"):
        bad = np.flatnonzero(~np.isfinite(np.einsum("ij,ij->i", images, images)))
    if bad.size:
        raise ClarelError(
            f"split {split.name!r}: image '{split.image_ids[bad[0]]}' has no finite embedding "
            f"({bad.size} of {len(images)} images); its features are far larger than those of the "
            "training images, or training went wrong"
        )


def sum_captions(
    labels: np.ndarray,
    images: np.ndarray,
    stream: Iterable[tuple[np.ndarray, np.ndarray]],
    readers: Sequence[CaptionReader] = (),
) -> EmbeddedSplit:
    """An `EmbeddedSplit` from embedded images and a stream of embedded captions.

    Args:
      labels: int64 [N].
      images: float32 [N, E].
      stream: as yielded by `embed_captions`.
    """
    sums = np.zeros_like(images)
    counts = np.zeros(len(labels), np.int64)
    for embeddings, instances in stream:
        # Captions come in the order of their instances, so those of an instance are adjacent.
        first = np.flatnonzero(np.diff(instances, prepend=-1))
        sums[instances[first]] += np.add.reduceat(embeddings, first, axis=0)
        counts[instances[first]] += np.diff(first, append=len(instances))
        for reader in readers:
            reader.add(embeddings, instances)
    return EmbeddedSplit(labels, images, sums, counts)


def merged(splits: Sequence[EmbeddedSplit]) -> EmbeddedSplit:
    """Several embedded splits as one; descriptions are left out."""
    return EmbeddedSplit(
        np.concatenate([split.labels for split in splits]),
        np.concatenate([split.images for split in splits]),
        np.concatenate([split.caption_sums for split in splits]),
        np.concatenate([split.caption_counts for split in splits]),
    )
