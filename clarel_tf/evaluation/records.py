"""Records of what an experiment selects and scores; `results.json` and its neighbours.

All measures are in percent unless their name says otherwise.
"""

import dataclasses
from typing import Any

from clarel_tf.decision.selected import Selected
from clarel_tf.evaluation.trust_records import CalibrationErrors, DistanceScale, StrangerMeasures


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


@dataclasses.dataclass(frozen=True)
class SizeOfTest:
    """How many images and classes a test has."""

    images: int
    seen_classes: int
    unseen_classes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results(ModelOrigin, Selected, Scores):
    """`results.json`: the one test of a run.

    Attributes:
      alpha_on_validation: alpha before it was carried over to the final model.
      validation, alpha_curve: as in `Selection`.
      calibration, strangers: of the test images; older runs lack them.
      test_size: older runs lack it.

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
    test_size: SizeOfTest | None = None
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
