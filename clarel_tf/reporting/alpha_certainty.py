"""What validation data tells about alpha, in words."""

from collections.abc import Sequence

from clarel_tf.evaluation.records import AlphaPoint

_ALL = 100.0  # percent


def alpha_certainty(curve: Sequence[AlphaPoint], interval: Sequence[float] | None) -> str:
    """A sentence about how certain the chosen alpha is; empty if there is nothing to say.

    An interval without width is no certainty: it means that no validation image speaks against
    another alpha, or that there are too few of them.

    Args:
      curve: u, s and H on validation data; empty if alpha was not chosen.
      interval: of alpha; runs of older versions lack it.
    """
    if not curve:
        return ""  # `not_measured` says why
    if len(curve) == 1:
        return (
            "alpha: validation data cannot tell, because no alpha above 0 changes the answer for "
            "any validation image"
        )
    all_right = [point.alpha for point in curve if min(point.u, point.s) >= _ALL]
    if len(all_right) > 1:
        return (
            f"alpha: validation data cannot tell, because every alpha from {all_right[0]:.4g} to "
            f"{all_right[-1]:.4g} answers all validation images right"
        )
    if not interval:
        return ""
    low, high = interval
    if low == high:
        return (
            "alpha: without an interval, because every resampling of the validation classes gives "
            "the same value; that shows how few they are, and no certainty"
        )
    return f"alpha: 95 % interval {low:.4g} to {high:.4g}, from resampled validation classes"
