"""The settings of the decision rule, and the values that it takes from validation data."""

import dataclasses
import math
from typing import Any

from clarel_tf.errors import ClarelError

# The threshold of rejection without validation images to choose it on: no distance is larger.
ACCEPT_ALL = 1e30


@dataclasses.dataclass(frozen=True)
class RuleSettings:
    """The settings of the decision rule; the defaults are the paper's rule.

    Attributes:
      head_evidence: weight of the image head's log-probabilities, in units of distance.
      discriminant_evidence: weight of LDA, as a share of the variation of distances.
    """

    head_evidence: float = 0.0
    discriminant_evidence: float = 0.0

    @classmethod
    def of(cls, values: Any) -> "RuleSettings":
        """The settings among the attributes of a config or of results."""
        fields = dataclasses.fields(RuleSettings)
        return RuleSettings(**{field.name: getattr(values, field.name) for field in fields})

    @property
    def is_of_the_paper(self) -> bool:
        """True if only the distances to the prototypes decide, as in the paper."""
        return RuleSettings.of(self) == RuleSettings()


@dataclasses.dataclass(frozen=True)
class NoneThreshold:
    """An image that is stranger than `distance` belongs to none of the classes.

    Strangeness (`strangers.py`) is in units of distance. With the defaults, which runs of older
    versions have, it is the distance of the nearest class.

    Attributes:
      distance: the threshold.
      accepted: percent of validation images that pass it with their class on offer.
      rejected: percent of validation images that do not pass it without their class on offer.
      lead: weight of the lead of the nearest class over the second.
      length: weight of the length of an embedded image.
      unlikeliness: weight of what is beyond `usual` in the unlikeliness of an embedded image.
      usual: see `unlikeliness`.
      doubt: weight of the image head's doubt in a nearest class that is a seen one.
    """

    distance: float
    accepted: float
    rejected: float
    lead: float = 0.0
    length: float = 0.0
    unlikeliness: float = 0.0
    usual: float = 0.0
    doubt: float = 0.0


@dataclasses.dataclass(frozen=True)
class DescriptionSettings:
    """How far descriptions of new classes are trusted, see `descriptions.py`.

    The defaults are for runs of older versions, which did not fit them.

    Attributes:
      share: of the reference images, that a class may take.
      typical_ratio: how far an unseen prototype lies from the mean prototype, squared, relative to
        a seen one.
    """

    share: float = 0.02
    typical_ratio: float = 0.6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selected(RuleSettings):
    """What was selected for a model on validation data, with the settings of its rule.

    Attributes:
      alpha: the rescaling of distances to seen classes.
      alpha_interval: [low, high], 95 % interval by resampled validation classes; runs of older
        versions lack it.
      temperature: of the softmax over -d_alpha, if the nearest class is a seen one.
      temperature_unseen: the same if it is any other; None if it does not matter which it is.
      none_of_these: the threshold of rejection.
      alpha_captions_alone, alpha_captions_alone_interval: the same of the paper's rule.
      descriptions: of new classes, by the rule and by the paper's rule.
    """

    alpha: float
    temperature: float
    none_of_these: NoneThreshold
    alpha_interval: list[float] | None = None
    temperature_unseen: float | None = None
    alpha_captions_alone: float | None = None
    alpha_captions_alone_interval: list[float] | None = None
    descriptions: DescriptionSettings = DescriptionSettings()
    descriptions_captions_alone: DescriptionSettings = DescriptionSettings()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > -1):
            raise ClarelError(f"alpha is {self.alpha:g}; it must be a number above -1")
        for temperature in self.temperatures:
            if not (math.isfinite(temperature) and temperature > 0):
                raise ClarelError(f"temperature is {temperature:g}; it must be a positive number")
        for name, value in vars(self.none_of_these).items():
            # The two shares are of validation images, and there may be none.
            if math.isnan(value) and name not in ("accepted", "rejected"):
                raise ClarelError(f"{name} of none_of_these is not a number")

    @property
    def rule(self) -> RuleSettings:
        """The settings of the decision rule."""
        return RuleSettings.of(self)

    @property
    def lacks_validation(self) -> bool:
        """True if there was no validation image to choose alpha, temperatures and threshold on."""
        return math.isnan(self.none_of_these.accepted)

    @property
    def temperatures(self) -> tuple[float, float]:
        """(temperature if the nearest class is a seen one, temperature if it is any other)."""
        unseen = self.temperature_unseen
        return self.temperature, self.temperature if unseen is None else unseen
