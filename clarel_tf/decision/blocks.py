"""The decision rule on arrays of any length, a block of images at a time."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.decision.inputs import Classes
from clarel_tf.decision.rule import DecisionRule

# Distances in a block: memory does not grow with the number of images.
_MOST_DISTANCES = 1 << 24
_PAIRS = 128  # in a block


class OwnDistances(NamedTuple):
    """Replacements for the distances of N images to their own classes.

    Attributes:
      columns: int64 [N], column of each image's class; -1 if it is not among the classes.
      distances: float32 [N].
    """

    columns: Any
    distances: Any


def on_blocks(rule: DecisionRule) -> "BlockRule":
    """The `BlockRule` of a rule; cached, because tracing its graphs takes time.

    All rules of the paper have the same graphs: how far descriptions are trusted has its effect in
    the inputs for classes.
    """
    return _cached_blocks(_OF_THE_PAPER if rule.is_of_the_paper else rule)


_OF_THE_PAPER = DecisionRule()


@functools.lru_cache(maxsize=4)
def _cached_blocks(rule: DecisionRule) -> "BlockRule":
    return BlockRule(rule)


class BlockRule:
    """A decision rule, applied to any number of images in blocks."""

    def __init__(self, rule: DecisionRule, most_distances: int = _MOST_DISTANCES):
        self._rule, self._most_distances = rule, most_distances
        self._graphs: dict[Any, Callable[..., Any]] = {}

    def distances(
        self, embeddings: np.ndarray, classes: Classes
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (first row, d, float32 [n, C]) for blocks of images, float32 [N, E]."""
        for part in self._parts(embeddings, classes):
            block = tf.constant(embeddings[part])
            yield part.start, self._in_graph(self._distances_to, block, classes).numpy()

    def nearest(
        self, embeddings: np.ndarray, classes: Classes, own: OwnDistances | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of C classes for each of N images, float32 [N, E].

        Returns:
          (number of the class, int64 [N]; its distance d, float32 [N]).
        """
        best = np.empty(len(embeddings), np.int64)
        distance = np.empty(len(embeddings), np.float32)
        for part in self._parts(embeddings, classes):
            here = own and OwnDistances(*(tf.constant(field[part]) for field in own))
            block = tf.constant(embeddings[part])
            found = self._in_graph(self._nearest_of, block, classes, here)
            best[part], distance[part] = (value.numpy() for value in found)
        return best, distance

    def of_pairs(
        self, embeddings: np.ndarray, prototypes: np.ndarray, head_columns: np.ndarray
    ) -> np.ndarray:
        """The distance d of image i to class i, float32 [N].

        Args:
          embeddings, prototypes: float32 [N, E].
          head_columns: int32 [N], as in `Classes`.
        """
        given = embeddings, prototypes, head_columns.astype(np.int32)
        found = np.empty(len(embeddings), np.float32)
        for start in range(0, len(found), _PAIRS):
            part = slice(start, start + _PAIRS)
            arguments = (tf.constant(array[part]) for array in given)
            found[part] = self._in_graph(self._distances_of_pairs, *arguments).numpy()
        return found

    def _in_graph(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function` as a graph, traced once for any number of images and classes."""
        flat = tf.nest.flatten(arguments)
        tensors = [tensor for tensor in flat if tensor is not None]
        specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in tensors]
        key = function.__name__, tuple(tensor is None for tensor in flat), tuple(specs)
        if key not in self._graphs:

            def graph(*given: tf.Tensor) -> Any:
                left = iter(given)
                whole = [None if tensor is None else next(left) for tensor in flat]
                return function(*tf.nest.pack_sequence_as(arguments, whole))

            made = tf.function(graph, specs, autograph=False)
            self._graphs[key] = made.get_concrete_function()
        return self._graphs[key](*tensors)

    def _parts(self, embeddings: np.ndarray, classes: Classes) -> Iterator[slice]:
        step = max(1, self._most_distances // max(1, len(classes.prototypes)))
        for start in range(0, len(embeddings), step):
            yield slice(start, start + step)

    def _distances_to(self, embeddings: tf.Tensor, classes: Classes) -> tf.Tensor:
        return self._rule.distances(self._rule.look_at(embeddings), classes)

    def _nearest_of(
        self, embeddings: tf.Tensor, classes: Classes, own: OwnDistances | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        distances = self._distances_to(embeddings, classes)
        if own is not None:
            rows = tf.where(own.columns >= 0)
            places = tf.concat([rows, tf.gather(own.columns, rows)], axis=1)
            values = tf.gather_nd(own.distances, rows)
            distances = tf.tensor_scatter_nd_update(distances, places, values)
        return tf.argmin(distances, axis=1), tf.reduce_min(distances, axis=1)

    def _distances_of_pairs(
        self, embeddings: tf.Tensor, prototypes: tf.Tensor, head_columns: tf.Tensor
    ) -> tf.Tensor:
        classes = self._rule.describe(prototypes)
        if self._rule.asks_head:
            classes = classes._replace(head_columns=head_columns)
        # By the same operations as all other distances; the others of this small block are unused.
        return tf.linalg.diag_part(self._rule.distances(self._rule.look_at(embeddings), classes))
