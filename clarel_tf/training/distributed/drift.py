"""Detects replicas whose weights have drifted apart.

Every replica applies the same gradients to its own copy of the weights, so the copies should stay
equal up to rounding. TensorFlow does not check that.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.replicas import replica_count, sum_over_replicas
from clarel_tf.training.distributed.distribution import Distribution

# Different machines round differently. Integers must be equal.
_TOLERANCE = 1e-3
_TINY = 1e-6


def drift_check(
    variables: Sequence[keras.Variable], distribution: Distribution
) -> Callable[[int], None]:
    """A function of the step that raises ClarelError on all workers if the replicas differ.

    Args:
      variables: mirrored variables.
    """
    if distribution.replicas == 1:
        return lambda step: None
    compare = distribution.compiled(lambda: _table(variables))
    tolerances = np.array([_TOLERANCE if _is_float(v) else 0.0 for v in variables])

    def check(step: int) -> None:
        projections, norms = distribution.local(compare()).numpy()
        differs = drifted(projections, norms, tolerances)
        if differs.any():
            names = [
                v.path for v, one in zip(variables, np.any(differs, axis=0), strict=True) if one
            ]
            raise ClarelError(_message(step, names, np.flatnonzero(differs.any(axis=1))))

    return check


def drifted(projections: np.ndarray, norms: np.ndarray, tolerances: np.ndarray) -> np.ndarray:
    """True where a copy differs from the median by more than the tolerance: [replicas, V].

    A variable that is finite on no replica does not count as drift: the checkpoint rejects it.

    Args:
      projections: [replicas, V].
      norms: [replicas, V].
      tolerances: [V], relative to the norm.
    """
    is_finite = np.isfinite(projections) & np.isfinite(norms)
    middle, norm = (
        np.ma.median(np.ma.masked_array(table, ~is_finite), axis=0).filled(0.0)
        for table in (projections, norms)
    )
    allowed = tolerances * norm + np.where(tolerances, _TINY, 0.0)
    with np.errstate(invalid="ignore"):
        is_near = np.abs(projections - middle) <= allowed
    return ~(is_near & is_finite) & is_finite.any(axis=0)


def _table(variables: Sequence[keras.Variable]) -> tf.Tensor:
    """Projections and norms of the variables of each replica: float64 [2, replicas, V]."""
    own = tf.stack([_projection_and_norm(v, number) for number, v in enumerate(variables)], axis=1)
    context = tf.distribute.get_replica_context()
    row = tf.range(replica_count())[None, :, None]
    # Each replica fills its own row, so the sum is exact and a NaN stays in its row.
    return sum_over_replicas(
        tf.where(row == context.replica_id_in_sync_group, own[:, None, :], tf.zeros([], tf.float64))
    )


def _projection_and_norm(variable: keras.Variable, number: int) -> tf.Tensor:
    """The sum of the elements with fixed random signs, and the root of their squares: [2]."""
    value = tf.reshape(tf.cast(variable.value, tf.float64), [-1])
    random = tf.random.stateless_uniform(tf.shape(value), seed=[number, 2021], alg="philox")
    signed = tf.where(random < 0.5, -value, value)
    return tf.stack([tf.reduce_sum(signed), tf.norm(value)])


def _is_float(variable: keras.Variable) -> bool:
    return tf.as_dtype(variable.dtype).is_floating


def _message(step: int, names: list[str], replicas: np.ndarray) -> str:
    which = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
    who = ", ".join(map(str, replicas))
    return (
        f"the replicas have drifted apart at or before step {step}: their copies of {which} differ "
        f"(farthest from the median: replica {who}). Nothing was saved after the last good "
        "checkpoint. Look for different or faulty hardware, drivers or libraries on the machines; "
        "the same command continues from the last checkpoint"
    )
