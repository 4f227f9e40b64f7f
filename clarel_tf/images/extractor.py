"""`Extractor`, from files of pictures to features, on all cores."""

import concurrent.futures
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbones import Backbone
from clarel_tf.images.cores import batches_at_once
from clarel_tf.images.decoding import decode_picture
from clarel_tf.images.headers import ANIMATED, BMP_KIND, DAMAGED, NO_MEMORY
from clarel_tf.images.picture_files import read_picture, repacked

BATCH = 8  # larger ones are not faster, and take more memory
Item = TypeVar("Item")
Result = TypeVar("Result")


class Extractor:
    """Reads, decodes and embeds pictures.

    A batch is the work of one thread, and there are as many threads as cores, up to eight: while
    one of them decodes, another one runs the network.

    Attributes:
      backbone: makes the features.
      embed: its method `features`, as one graph.
    """

    def __init__(self, backbone: Backbone):
        self.backbone = backbone
        size = backbone.input_size
        self._decode = _decoder(size)
        self.embed = tf.function(
            backbone.features,
            input_signature=[tf.TensorSpec([None, size, size, 3], tf.float32)],
            autograph=False,
        )

    def pixels(self, path: Path) -> tf.Tensor:
        """The pixels of a file, float32 [S, S, 3]; raises ClarelError if it is no picture."""
        return self.pixels_of(read_picture(path), path)

    def pixels_of(self, contents: bytes, where: str | Path) -> tf.Tensor:
        """As `pixels`, of the contents of a file.

        Args:
          where: what to call it in messages.
        """
        pixels, problem = self._decoded(contents, where)
        if problem in (ANIMATED, BMP_KIND):
            pixels, problem = self._decoded(repacked(contents, where), where)
        if problem:
            raise ClarelError(f"{where} {problem}")
        return pixels

    def batch(self, paths: Sequence[Path]) -> tuple[list[int], np.ndarray, list[str]]:
        """The features of those files that are pictures.

        Returns:
          The places of these files in `paths`, their features, float32 [m, D], and a message for
          each of the other files.
        """
        places, pictures, problems = [], [], []
        for place, path in enumerate(paths):
            try:
                pictures.append(self.pixels(path))
                places.append(place)
            except ClarelError as error:
                problems.append(str(error))
        if not pictures:
            return [], np.zeros((0, self.backbone.feature_width), np.float32), problems
        features = self.embed(tf.stack(pictures)).numpy()
        return places, features, problems

    def batches(
        self, folder: Path, names: Sequence[str]
    ) -> Iterator[tuple[list[str], np.ndarray, list[str]]]:
        """The names of pictures, their features and messages about others, batch by batch.

        Args:
          names: relative paths, in the order in which they are returned.
        """
        work = (names[start : start + BATCH] for start in range(0, len(names), BATCH))
        for batch, (places, features, problems) in in_threads(
            lambda batch: self.batch([folder / name for name in batch]), work
        ):
            yield [batch[place] for place in places], features, problems

    def _decoded(self, contents: bytes, where: str | Path) -> tuple[tf.Tensor, str]:
        try:
            pixels, problem = self._decode(contents)
        except tf.errors.InvalidArgumentError as error:
            raise ClarelError(f"{where} {DAMAGED}") from error
        except tf.errors.ResourceExhaustedError as error:
            raise ClarelError(f"{where} {NO_MEMORY}") from error
        return pixels, problem.numpy().decode()


def in_threads(
    function: Callable[[Item], Result], work: Iterable[Item]
) -> Iterator[tuple[Item, Result]]:
    """Calls a function with each item on all cores; yields items and results in order.

    Few items are requested ahead, so `work` may hold large ones.
    """
    cores, items = batches_at_once(), iter(work)
    with concurrent.futures.ThreadPoolExecutor(cores) as threads:

        def start(item: Item) -> tuple[Item, concurrent.futures.Future]:
            return item, threads.submit(function, item)

        running = deque(start(item) for item in itertools.islice(items, 2 * cores))
        try:
            while running:
                item, future = running.popleft()
                result = future.result()
                running.extend(start(one) for one in itertools.islice(items, 1))
                yield item, result
        finally:
            threads.shutdown(cancel_futures=True)


@functools.cache
def _decoder(size: int) -> Callable[[bytes], tuple[tf.Tensor, tf.Tensor]]:
    """`decode_picture` as a graph."""
    return tf.function(
        lambda contents: decode_picture(contents, size),
        input_signature=[tf.TensorSpec([], tf.string)],
        autograph=False,
    )
