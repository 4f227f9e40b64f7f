"""How much is let into a decision besides the captions."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class EvidenceWeights(NamedTuple):
    """The settings of that name; with both at 0 captions alone decide, as in the paper.

    Attributes:
      head: of the image head's log-probabilities (`head_evidence.py`).
      discriminants: of the discriminants of the known classes (`discriminants.py`).
    """

    head: float = 0.0
    discriminants: float = 0.0

    @classmethod
    def of(cls, chosen: Mapping[str, Any]) -> "EvidenceWeights":
        """As `named` wrote them; a run that is older than one of them did without it."""
        return cls(chosen.get("head_evidence", 0.0), chosen.get("discriminant_evidence", 0.0))

    def named(self) -> dict[str, float]:
        """By the names of the settings, for files."""
        return {"head_evidence": self.head, "discriminant_evidence": self.discriminants}
