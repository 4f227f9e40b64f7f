"""What decides between classes besides the distances from their captions."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class DecisionRule(NamedTuple):
    """The settings of these names; as they are by default, the rule is that of the paper.

    Attributes:
      head_evidence: weight of the image head's log-probabilities, in units of distance
        (`head_evidence.py`).
      discriminant_evidence: of the discriminants, as a share of how distances vary
        (`discriminants.py`).
    """

    head_evidence: float = 0.0
    discriminant_evidence: float = 0.0

    @classmethod
    def of(cls, chosen: Mapping[str, Any]) -> "DecisionRule":
        """As `named` wrote it; a run that is older than one of the settings did without it."""
        return cls(**{name: chosen[name] for name in cls._fields if name in chosen})

    def named(self) -> dict[str, float]:
        """By the names of the settings, for files."""
        return self._asdict()

    @property
    def is_of_the_paper(self) -> bool:
        """Whether captions alone decide."""
        return self == DecisionRule()
