"""Accuracy by the number of captions that a prototype is made of."""

from collections.abc import Sequence

import numpy as np

from clarel_tf.evaluation.measures import CaptionsPoint
from clarel_tf.evaluation.zero_shot import EmbeddedQueries

CAPTION_COUNTS = (10, 50, 100, 200, 400, 1000)
_MOST_BYTES = 1 << 30


class CaptionDraws:
    """Sums of the first 10, 50, ... captions of each class, in several random orders.

    Every draw puts the captions of each class in an order of its own, so the captions of a smaller
    number are among those of a larger one. Captions are summed as they pass by in the stream.
    """

    def __init__(
        self,
        caption_labels: np.ndarray,
        classes: np.ndarray,
        embedding_size: int,
        draws: int | None = None,
        seed: int = 0,
        counts: Sequence[int] = CAPTION_COUNTS,
    ):
        """Plans the draws.

        Args:
          caption_labels: int [M], the class of every caption, in the order of the stream.
          classes: int [C], all classes, sorted.
          draws: how many (default: 5, or what fits in a gibibyte with many classes).
        """
        if draws is None:
            bytes_a_draw = 4 * len(counts) * len(classes) * embedding_size
            draws = int(np.clip(_MOST_BYTES // bytes_a_draw, 1, 5))
        self.counts, self.draws = tuple(counts), draws
        self._rows = np.searchsorted(classes, caption_labels)
        self._available = np.bincount(self._rows, minlength=len(classes))
        # In which of the ranges 0-10, 10-50, ... of each draw a caption falls.
        self._ranges = np.stack(
            [
                np.searchsorted(self.counts, _random_ranks(self._rows, seed, draw), side="right")
                for draw in range(draws)
            ]
        )
        self._sums = np.zeros((draws, len(counts), len(classes), embedding_size), np.float32)
        self._position = 0

    def add(self, embeddings: np.ndarray, instances: np.ndarray) -> None:
        """Takes the next captions of the stream, float32 [b, E]."""
        here = slice(self._position, self._position + len(embeddings))
        for draw in range(self.draws):
            ranges, rows = self._ranges[draw, here], self._rows[here]
            used = np.flatnonzero(ranges < len(self.counts))  # the others are past the last range
            np.add.at(self._sums[draw], (ranges[used], rows[used]), embeddings[used])
        self._position += len(embeddings)

    def prototypes(self, draw: int, count_index: int) -> np.ndarray:
        """float32 [C, E]: prototypes of `counts[count_index]` captions, or of all a class has."""
        sums = self._sums[draw, : count_index + 1].sum(axis=0)
        return sums / self.used(count_index)[:, np.newaxis].astype(np.float32)

    def used(self, count_index: int) -> np.ndarray:
        """int [C]: captions in each of these prototypes."""
        return np.minimum(self._available, self.counts[count_index])

    def curve(self, queries: EmbeddedQueries, alpha: float) -> list[CaptionsPoint]:
        """Mean and standard deviation over the draws of ZSL, u, s and H, for each number."""
        curve = []
        for index, count in enumerate(self.counts):
            scores: dict[str, list[float]] = {"zsl": [], "u": [], "s": [], "h": []}
            for draw in range(self.draws):
                evaluation = queries.evaluate_with(self.prototypes(draw, index))
                for name, value in vars(evaluation.gzsl(alpha)).items():
                    scores[name].append(value)
                scores["zsl"].append(evaluation.zsl())
            point: dict[str, float] = {}
            for name, values in scores.items():
                point[name] = float(np.mean(values))
                point[f"{name}_std"] = float(np.std(values, ddof=1)) if self.draws > 1 else 0.0
            curve.append(CaptionsPoint(count, **point))
        return curve


def _random_ranks(rows: np.ndarray, seed: int, draw: int) -> np.ndarray:
    """Rank of each caption within its class, in a random order, int [M]."""
    order = np.lexsort([np.random.default_rng([seed, draw]).random(len(rows)), rows])
    sizes = np.bincount(rows)
    first = np.cumsum(sizes) - sizes
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) - first[rows[order]]
    return ranks
