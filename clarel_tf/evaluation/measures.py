"""`Measures`, the record of every measure of a model on the test splits (`evaluation.json`).

All measures are in percent unless their name says otherwise.
"""

import dataclasses

from clarel_tf.decision.selected import Selected
from clarel_tf.evaluation.example_records import (
    CaptionExample,
    ClassMeasures,
    Confusion,
    Example,
)
from clarel_tf.evaluation.records import ScoresAtAlpha
from clarel_tf.evaluation.trust_records import (
    CalibrationErrors,
    NewClassMeasures,
    Reliability,
    StrangerMeasures,
)


@dataclasses.dataclass(frozen=True)
class AveragePrecision:
    """AP@50 of the unseen classes among their own images, and of all classes among all images."""

    unseen: float
    all: float


@dataclasses.dataclass(frozen=True)
class CaptionsPoint:
    """Mean and standard deviation over draws, for one number of captions per prototype."""

    captions: int
    zsl: float
    zsl_std: float
    u: float
    u_std: float
    s: float
    s_std: float
    h: float
    h_std: float


@dataclasses.dataclass(frozen=True)
class SeenUnseenCurve:
    """Pairs of u and s over all alpha."""

    u: list[float]
    s: list[float]


@dataclasses.dataclass(frozen=True)
class Measures:
    """`evaluation.json`: every measure of a model on the test splits.

    Attributes:
      selected: what the rule used.
      prototypes: scores by the kind of prototypes: `all` captions, `leave_own_out`, and
        `captions_alone` for the rule of the paper where more than captions was asked.
      retrieval: recall by split, direction and k.
      calibration, reliability: errors, and diagrams of `all`, `seen` and `unseen` test images.
      strangers: rejection of images whose class is not on offer.
      new_classes: by the rule, `all`, and by the paper's rule, `captions_alone`.
      confusions: pairs of classes, those of unseen images first, the most confused ones of each
        kind first.
      examples: images with the captions nearest to them.
      classes: the classes with test images, in the order of their labels; older files lack them.
      caption_examples: captions with the images nearest to them; older files lack them.
    """

    selected: Selected
    prototypes: dict[str, ScoresAtAlpha]
    ap_at_50: AveragePrecision
    retrieval: dict[str, dict[str, dict[str, float]]]
    calibration: CalibrationErrors
    reliability: dict[str, Reliability]
    strangers: StrangerMeasures
    captions_curve: list[CaptionsPoint]
    new_classes: dict[str, NewClassMeasures]
    seen_unseen_curve: SeenUnseenCurve
    confusions: list[Confusion]
    examples: list[Example]
    classes: list[ClassMeasures] = dataclasses.field(default_factory=list)
    caption_examples: list[CaptionExample] = dataclasses.field(default_factory=list)
