"""How much is let into a decision besides the captions."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class EvidenceWeights(NamedTuple):
    """`head_evidence` and `discriminant_evidence`; at 0 captions alone decide, as in the paper.

    Attributes:
      head: of the image head's log-probabilities, in units of distance (`head_evidence.py`).
      discriminants: as a share of how distances vary (`discriminants.py`).
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
