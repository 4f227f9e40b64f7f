"""Records of what an evaluation measures; `results.json` and its neighbours are made of them.

All measures are in percent unless their name says otherwise. NaN, null in the files, stands for
what the data cannot tell: data without images of unseen classes has no ZSL, u and H.
"""

import dataclasses
from typing import Any

from clarel_tf.decision.selected import Selected


@dataclasses.dataclass(frozen=True)
class ZslScores:
    """Accuracy of unseen images against the unseen classes alone."""

    top1: float


@dataclasses.dataclass(frozen=True)
class GzslScores:
    """Accuracies of unseen and of seen images against all classes, and their harmonic mean."""

    u: float
    s: float
    h: float


@dataclasses.dataclass(frozen=True)
class AlphaPoint:
    """u, s and H at one alpha."""

    alpha: float
    u: float
    s: float
    h: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """The measures of one model by one rule: at the selected alpha, at 0, and over all alpha."""

    zsl: ZslScores
    gzsl: GzslScores
    gzsl_alpha0: GzslScores
    ausuc: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoresAtAlpha(Scores):
    """The same, with the alpha that was selected."""

    alpha: float


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
      rival: mean distance of an image to the nearest class that is not its own.
      gap: mean difference between that and the next such class.
      length: mean length of an embedded image.
    """

    rival: float
    gap: float
    length: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationScores(Scores, CalibrationErrors):
    """The measures on the validation splits; runs of 0.1 may lack those by captions alone."""

    zsl_captions_alone: ZslScores | None = None
    gzsl_captions_alone: GzslScores | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection(Selected):
    """`validation/selection.json`: what was selected with a model of the training split.

    Attributes:
      distance_level: mean distance of a training image to its class, see `carry_over`.
      distance_scale: see `carry_over_probabilities`; older runs lack it.
      strangers: rejection on validation data; older runs lack it.
      validation: the measures that go with it.
      alpha_curve: u, s and H for every candidate of alpha.
    """

    distance_level: float | None = None  # runs of 0.1 may lack it
    distance_scale: DistanceScale | None = None
    strangers: StrangerMeasures | None = None
    validation: ValidationScores
    alpha_curve: list[AlphaPoint]


@dataclasses.dataclass(frozen=True)
class WordVectorUse:
    """Which word vectors a model used: the file, if any, and for how many words."""

    file: str | None
    frozen: bool
    words: int
    missing: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOrigin:
    """Where a tested model comes from.

    Attributes:
      seed: of the model, or of the first model of an ensemble.
      seeds: of the models of an ensemble; None for a single model.
      fingerprints: of the splits, the word vectors and whatever else the result depends on.
    """

    seed: int
    steps: int
    word_vectors: WordVectorUse
    fingerprints: dict[str, Any]
    seeds: list[int] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results(ModelOrigin, Selected, Scores):
    """`results.json`: the one test of a run.

    Attributes:
      alpha_on_validation: alpha before it was carried over to the final model.
      validation, alpha_curve: as in `Selection`.
      calibration, strangers: of the test images; older runs lack them.

    Example:

    >>> results = clarel_tf.RunFolder("runs/demo").read_results()
    >>> isinstance(results, clarel_tf.Results)
    True
    >>> print(f"H {results.gzsl.h:.0f}, ZSL {results.zsl.top1:.0f}")  # doctest: +ELLIPSIS
    H ..., ZSL ...
    """

    dataset: str
    dataset_config: str
    protocol: str
    alpha_on_validation: float | None = None
    zsl_captions_alone: ZslScores | None = None
    gzsl_captions_alone: GzslScores | None = None
    calibration: CalibrationErrors | None = None
    strangers: StrangerMeasures | None = None
    validation: ValidationScores
    alpha_curve: list[AlphaPoint]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinalModel(Selected):
    """`final/final.json`: a model of all images, with what was carried over to it.

    Attributes:
      images, classes: that it was trained on, those of the test splits included.
    """

    seed: int
    steps: int
    images: int
    classes: int


@dataclasses.dataclass(frozen=True)
class AveragePrecision:
    """AP@50 of the unseen classes among their own images, and of all classes among all images."""

    unseen: float
    all: float


@dataclasses.dataclass(frozen=True)
class CaptionsPoint:
    """Mean and standard deviation over draws, with prototypes of so many captions."""

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
    """Percent of all test images that a class takes whose sentences say nothing.

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
    """New classes by one rule: real descriptions, and such as say nothing."""

    real: list[NewClassPoint]
    empty: list[EmptyDescriptionPoint]


@dataclasses.dataclass(frozen=True)
class SeenUnseenCurve:
    """Pairs of u and s over all alpha."""

    u: list[float]
    s: list[float]


@dataclasses.dataclass(frozen=True)
class Confusion:
    """A pair of classes, and the percent of the true one's images that the other gets."""

    true: str
    predicted: str
    percent: float


@dataclasses.dataclass(frozen=True)
class ExampleCaption:
    """A caption near to an image; `own` if it is one of the image's captions."""

    text: str
    class_name: str
    own: bool


@dataclasses.dataclass(frozen=True)
class Example:
    """An image with its class, the class that it was given to, and the nearest captions."""

    image_id: str
    class_name: str
    predicted: str
    right: bool
    captions: list[ExampleCaption]


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
