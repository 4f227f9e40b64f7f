"""What was selected with one model, carried over to another that was trained on more images.

The losses look at differences of distances. These have the same unit in both models, but their
level is free, and it rises while training goes on: the mean image and the mean caption drift apart,
which adds the same to all distances. How much of this there is, and how far the classes lie apart,
is read off the training images of each model. And a model that learns from more classes generalises
better: by C ** (-1/3) for C times as many classes, as was found one level down (docs/lab_notes.md).
"""

import dataclasses
import math

import numpy as np

from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.prototypes import own_class_distance
from clarel_tf.decision.selected import ACCEPT_ALL, Selected
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.ranked import distance_scale
from clarel_tf.evaluation.records import Selection
from clarel_tf.evaluation.trust_records import DistanceScale
from clarel_tf.evaluation.zero_shot import EmbeddedQueries

_LEARNING = 1.0 / 3.0


def selected_for(
    queries: EmbeddedQueries, training: EmbeddedSplit, selection: Selection, transfer: str
) -> Selected:
    """The selected values for the model that embedded `queries` and its training images."""
    level = own_class_distance([training], queries.prototypes)
    # The models are compared at the same head start.
    alpha = carry_over(selection, level, transfer).alpha
    scale = distance_scale(queries, training, alpha)
    carried = carry_over(selection, level, transfer, int(np.count_nonzero(queries.is_seen)))
    return carry_over_probabilities(carried, selection, scale)


def carry_over(
    selection: Selection, level: float, transfer: str, classes: int | None = None
) -> Selected:
    """The selected values for another model that was trained like it on more images.

    With "value" everything stays as it was selected, as in the paper. With "offset" differences
    stay: alpha times the level, the head start of unseen classes, and the height of the threshold
    above the level (of an older run; otherwise see `carry_over_probabilities`). The head start gets
    smaller the more classes the other model learned from.

    Args:
      level: `own_class_distance` of the other model's training images.
      transfer: "value" or "offset".
      classes: that the other model was trained on; as many as the first one by default.
    """
    # Runs from before anything but captions could be asked do not name it.
    by_captions = selection.alpha_captions_alone
    kept = Selected(
        alpha=selection.alpha,
        temperature=selection.temperature,
        temperature_unseen=selection.temperature_unseen,
        none_of_these=selection.none_of_these,
        **vars(selection.rule),
        alpha_interval=selection.alpha_interval,
        alpha_captions_alone=selection.alpha if by_captions is None else by_captions,
        alpha_captions_alone_interval=selection.alpha_captions_alone_interval,
        descriptions=selection.descriptions,
        descriptions_captions_alone=selection.descriptions_captions_alone,
    )
    if transfer == "value" or selection.none_of_these.distance == ACCEPT_ALL:
        return kept
    before, none = selection.distance_level, selection.none_of_these
    if before is None:
        raise ClarelError("the selection has no distance_level, which alpha_transfer=offset needs")
    assert kept.alpha_captions_alone is not None  # set above
    scale = selection.distance_scale  # older runs lack it
    factor = before / level * (_generalises(scale.classes, classes) if scale and classes else 1.0)
    return dataclasses.replace(
        kept,
        alpha=kept.alpha * factor,
        alpha_interval=_scaled(kept.alpha_interval, factor),
        alpha_captions_alone=kept.alpha_captions_alone * factor,
        alpha_captions_alone_interval=_scaled(kept.alpha_captions_alone_interval, factor),
        none_of_these=dataclasses.replace(none, distance=none.distance + level - before),
    )


def carry_over_probabilities(
    carried: Selected, selection: Selection, scale: DistanceScale
) -> Selected:
    """Temperatures and threshold, carried over to the model that `carried` is for.

    Both models are compared on their own training images.

    The threshold moves with the mean distance of an image to its own class and to the nearest other
    one: training pulls the one down and pushes the other up, by an amount that differs between the
    models, and in their mean this cancels. The mean length of embedded images counts as it does in
    the threshold's score.

    Temperatures are multiplied by the geometric mean of two estimates. One is the ratio of the gaps
    between the two nearest classes other than the own one; it depends much on which classes are on
    offer. The other is that distances of new images vary less if there were more classes to learn
    from.

    Args:
      carried: as `carry_over` gives it.
      scale: of the model that `carried` is for, with the head start of the first one.
    """
    before, none = selection.distance_scale, selection.none_of_these
    if before is None:  # a run of an older version
        return carried
    gaps = scale.gap / before.gap if before.gap > 0 and scale.gap > 0 else 1.0
    factor = math.sqrt(gaps * _generalises(before.classes, scale.classes))
    moved = (scale.own - before.own + scale.rival - before.rival) / 2
    moved -= none.length * (scale.length - before.length)
    unseen = selection.temperature_unseen
    return dataclasses.replace(
        carried,
        temperature=selection.temperature * factor,
        temperature_unseen=None if unseen is None else unseen * factor,
        none_of_these=dataclasses.replace(none, distance=none.distance + moved),
    )


def _generalises(before: int, classes: int) -> float:
    """By how much distances of new images vary less with `classes` than with `before` classes."""
    return (before / classes) ** _LEARNING


def _scaled(interval: list[float] | None, factor: float) -> list[float] | None:
    return interval and [factor * end for end in interval]
