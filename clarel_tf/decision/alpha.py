"""The seen-unseen rescaling: distances to seen classes are multiplied by 1 + alpha.

Only the nearest seen and the nearest unseen class of an image matter. So four numbers per image
determine the effect of any alpha, and a whole curve costs no more than one distance matrix.
"""

from typing import NamedTuple

import numpy as np

from clarel_tf.decision.rule import rescaled


class NearestClasses(NamedTuple):
    """The nearest seen and the nearest unseen class of N images.

    Without any class of a kind, its labels are -1 and its distances infinite.

    Attributes:
      seen, unseen: int [N], labels.
      seen_distance, unseen_distance: float64 [N].
    """

    seen: np.ndarray
    seen_distance: np.ndarray
    unseen: np.ndarray
    unseen_distance: np.ndarray

    def predict(self, alpha: float) -> np.ndarray:
        """The class with the smallest d_alpha, int [N]; of equally near classes, the seen one."""
        # In single precision and by the rule's own function, as the served graph does it.
        seen = rescaled(self.seen_distance.astype(np.float32), np.float32(1), np.float32(alpha))
        takes_seen = seen <= self.unseen_distance.astype(np.float32)
        return np.where(takes_seen, self.seen, self.unseen)

    def turning_points(self) -> np.ndarray:
        """For each image, the alpha above which its answer is the unseen class, float [N]."""
        return self.unseen_distance / self.seen_distance - 1.0


def nearest_classes(
    distances: np.ndarray, classes: np.ndarray, is_seen: np.ndarray
) -> NearestClasses:
    """Reduces a distance matrix to the nearest seen and unseen class of each image.

    Args:
      distances: float [N, C].
      classes: int [C], label of each column.
      is_seen: bool [C], true for classes of the training split; both kinds must occur.
    """
    sides = []
    for chosen in (is_seen, ~is_seen):
        columns = np.flatnonzero(chosen)
        best = distances[:, columns].argmin(axis=1)
        nearest = distances[np.arange(len(distances)), columns[best]]
        # In double precision, so that an alpha of any type gives the same answer.
        sides += [classes[columns][best], nearest.astype(np.float64)]
    return NearestClasses(*sides)


def alpha_grid(*images: NearestClasses, points: int = 201) -> np.ndarray:
    """Candidate values of alpha, sorted, the first of them 0.

    They are quantiles of the turning points, so each step changes the answer of about the same
    number of images. The grid does not depend on the scale of the distances.
    """
    turning = np.concatenate([side.turning_points() for side in images])
    turning = turning[(turning > 0) & np.isfinite(turning)]
    if not turning.size:
        return np.zeros(1)
    grid = np.quantile(turning, np.linspace(0.0, 1.0, points - 1))
    return np.unique(np.concatenate([[0.0], grid]))
