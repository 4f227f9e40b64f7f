"""Embeds the pictures of a source into parts, from where an earlier process stopped."""

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbones import Backbone
from clarel_tf.images.extractor import BATCH, Extractor, in_threads
from clarel_tf.images.feature_parts import FeatureParts
from clarel_tf.images.picture_sources import Picture, PictureSource, Stamp
from clarel_tf.images.progress import Progress, Tell
from clarel_tf.images.thumbnails import small_jpeg

# A part is written after so many pictures or seconds, whatever is first: a kill costs no more.
_PART, _PART_SECONDS = 512, 15.0
_NAMED = 5  # broken pictures in a message


class Embedded(NamedTuple):
    """What becomes of a batch of pictures.

    Attributes:
      names: of the m pictures that can be read.
      features: float32 [m, D].
      jpegs: small files of them, or none.
      problems: a message for each of the other pictures.
    """

    names: list[str]
    features: np.ndarray
    jpegs: list[bytes]
    problems: list[str]


def embed(
    source: PictureSource,
    parts: FeatureParts,
    backbone: Backbone,
    tell: Tell = print,
    with_jpegs: bool = False,
) -> tuple[list[str], list[str]]:
    """Embeds those pictures that are not in the parts yet.

    Args:
      tell: gets lines about progress and broken pictures.
      with_jpegs: keeps a small JPEG of each picture too.

    Returns:
      The names of all pictures that can be read, and a message for each of the others.
    """
    stamps = source.stamps()
    todo = parts.missing(stamps)
    if len(todo) < len(stamps):
        tell(f"Continues: {len(stamps) - len(todo):,} of {len(stamps):,} pictures are done")
    if not todo:
        return list(stamps), []
    waiting: list[Embedded] = []
    problems: list[str] = []
    good: set[str] = set()
    progress, written = Progress(len(todo), tell), time.monotonic()
    for batch in embedded_batches(source.pictures(todo), Extractor(backbone), with_jpegs):
        waiting.append(batch)
        good.update(batch.names)
        problems += batch.problems
        for message in batch.problems:
            tell(f"broken: {message}")
        count, seconds = sum(len(one.names) for one in waiting), time.monotonic() - written
        if count >= _PART or (count and seconds >= _PART_SECONDS):
            _write(waiting, stamps, parts)
            waiting, written = [], time.monotonic()
        progress.add(len(batch.names) + len(batch.problems))
    if any(one.names for one in waiting):
        _write(waiting, stamps, parts)
    broken = set(todo) - good
    return [name for name in stamps if name not in broken], problems


def embedded_batches(
    pictures: Iterable[Picture], extractor: Extractor, with_jpegs: bool
) -> Iterator[Embedded]:
    """Embeds pictures in their order, on all cores."""
    rest = iter(pictures)
    work = iter(lambda: list(itertools.islice(rest, BATCH)), [])
    for _, batch in in_threads(lambda batch: _embedded(batch, extractor, with_jpegs), work):
        yield batch


def refuse_broken(problems: list[str], whole: int, remedy: str) -> None:
    """Raises ClarelError if there are messages about broken pictures.

    Args:
      whole: number of all pictures.
    """
    if len(problems) == whole:
        raise ClarelError(f"no picture can be read; the first: {problems[0]}")
    if problems:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise ClarelError(
            f"{len(problems)} of {whole} pictures cannot be read: "
            f"{'; '.join(problems[:_NAMED])}{more}. {remedy}"
        )


def _embedded(pictures: list[Picture], extractor: Extractor, with_jpegs: bool) -> Embedded:
    names, pixels, jpegs, problems = [], [], [], []
    for picture in pictures:
        try:
            contents = picture.read()
            pixels.append(extractor.pixels_of(contents, picture.where))
        except ClarelError as error:
            problems.append(str(error))
            continue
        names.append(picture.name)
        if with_jpegs:
            jpegs.append(small_jpeg(contents, pixels[-1]))
    features = np.zeros((0, extractor.backbone.feature_width), np.float32)
    if pixels:
        features = extractor.embed(tf.stack(pixels)).numpy()
    return Embedded(names, features, jpegs, problems)


def _write(batches: list[Embedded], stamps: dict[str, Stamp], parts: FeatureParts) -> None:
    """Writes batches as one part."""
    names = [name for batch in batches for name in batch.names]
    jpegs = [jpeg for batch in batches for jpeg in batch.jpegs]
    features = np.concatenate([batch.features for batch in batches])
    parts.add({name: stamps[name] for name in names}, features, jpegs)
