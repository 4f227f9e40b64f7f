"""Captions for benchmarks: those of CUB if available, otherwise random ones of the same lengths."""

import os
from pathlib import Path
from typing import NamedTuple

import harness  # noqa: F401 - puts the package on the path
import numpy as np

from clarel_tf.data.zero_shot.captions import CAPTIONS_PER_IMAGE, read_captions
from clarel_tf.models.vocabulary import build_vocabulary

CUB_CAPTIONS = 117_880
WORDS = [f"word{i}" for i in range(4000)]


class Corpus(NamedTuple):
    """Captions of images in random order, `CAPTIONS_PER_IMAGE` for each image.

    Attributes:
      sentences: the captions.
      words: their vocabulary, most frequent first.
      source: where they come from, for the title of a table.
    """

    sentences: list[str]
    words: list[str]
    source: str


def load_corpus(captions: int = CUB_CAPTIONS) -> Corpus:
    """At most this many captions, of CUB if the environment variable CLAREL_DATA is set."""
    archive = Path(os.environ.get("CLAREL_DATA", "nowhere")) / "cub" / "cvpr2016_cub.tar.gz"
    if not archive.exists():
        return Corpus(drawn_sentences(captions), WORDS, "drawn captions")
    by_image = list(read_captions(archive, "cvpr2016_cub/text_c10").values())
    words = build_vocabulary(caption for own in by_image for caption in own)
    images = np.random.default_rng(0).permutation(len(by_image))
    images = images[: -(-captions // CAPTIONS_PER_IMAGE)]
    sentences = [caption for image in images for caption in by_image[image]]
    return Corpus(sentences[:captions], words, "CUB captions")


def drawn_sentences(count: int, seed: int = 0) -> list[str]:
    """Random sentences as long as CUB captions, with word frequencies proportional to 1 / rank."""
    rng = np.random.default_rng(seed)
    lengths = drawn_lengths(count, rng)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    drawn = rng.choice(len(WORDS), lengths.sum(), p=weights / weights.sum())
    ends = np.cumsum(lengths)
    return [
        " ".join(WORDS[i] for i in drawn[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


def drawn_lengths(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random caption lengths as in CUB: mean 15.2, median 14, 95th percentile 24, at most 30."""
    return np.clip(np.round(rng.lognormal(np.log(14.4), 0.32, count)), 4, 30).astype(int)
