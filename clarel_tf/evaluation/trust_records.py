"""Records of how far answers can be trusted: calibration, rejection, new classes.

All measures are in percent unless their name says otherwise.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class CalibrationErrors:
    """Expected calibration error with temperature 1 and with the fitted temperatures.

    Attributes:
      calibration_error_seen, calibration_error_unseen: with the fitted temperatures, of the images
        of seen and of unseen classes alone; older runs lack them.
    """

    calibration_error_before: float
    calibration_error_after: float
    calibration_error_seen: float | None = None
    calibration_error_unseen: float | None = None


@dataclasses.dataclass(frozen=True)
class ReliabilityBin:
    """Images whose answers are about as probable: mean probability, percent of right answers."""

    probability: float
    accuracy: float
    images: int


@dataclasses.dataclass(frozen=True)
class Reliability:
    """A reliability diagram, without its empty bins, and the expected calibration error."""

    error: float
    bins: list[ReliabilityBin]


@dataclasses.dataclass(frozen=True)
class StrangerPoint:
    """How well a score tells images whose class is on offer from strangers of one kind.

    Attributes:
      auroc: in percent; 50 is chance.
      rejected: percent of the strangers beyond the score that 95 % of the other images are within.
    """

    score: str
    kind: str
    auroc: float
    rejected: float


@dataclasses.dataclass(frozen=True)
class StrangerMeasures:
    """Rejection: scores compared, and what the threshold does.

    Attributes:
      accepted: percent of images that the threshold accepts with their class on offer.
      rejected: percent of strangers that it rejects, by kind.
      scores: every score with every kind of stranger.
    """

    accepted: float
    rejected: dict[str, float]
    scores: list[StrangerPoint]


@dataclasses.dataclass(frozen=True)
class DistanceScale:
    """How the distances d_alpha of a model's training images are scaled.

    Attributes:
      own: mean distance of an image to its own class.
      rival: mean distance of an image to the nearest class that is not its own.
      gap: mean difference between that and the next such class.
      length: mean length of an embedded image.
      classes: number of classes that the model was trained on.
    """

    own: float
    rival: float
    gap: float
    length: float
    classes: int


@dataclasses.dataclass(frozen=True)
class NewClassPoint:
    """What a class of so many sentences gets right, with standard deviations over the draws.

    Attributes:
      recall: percent of the class's images that are given to it, mean over the classes.
      precision: percent of the images given to new classes that are theirs.
      harmonic_mean: of recall and precision.
    """

    sentences: int
    recall: float
    recall_std: float
    precision: float
    precision_std: float
    harmonic_mean: float


@dataclasses.dataclass(frozen=True)
class EmptyDescriptionPoint:
    """Percent of all test images that a class with an empty description takes.

    Attributes:
      kind: of the sentences.
      taken: mean over the descriptions of this kind.
      most: of a single description.
    """

    kind: str
    sentences: int
    taken: float
    most: float


@dataclasses.dataclass(frozen=True)
class NewClassMeasures:
    """New classes by one rule, with real and with empty descriptions."""

    real: list[NewClassPoint]
    empty: list[EmptyDescriptionPoint]
