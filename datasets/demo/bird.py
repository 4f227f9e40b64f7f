"""What a drawn bird is: its shape and its colours.

In its own coordinates a bird faces right, y points upwards, and one unit is about the length of its
body.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from .shapes import Colour, loop, mix

PLUMAGE: dict[str, Colour] = {
    "red": (206, 24, 38),
    "orange": (245, 120, 14),
    "yellow": (250, 214, 40),
    "green": (72, 148, 52),
    "blue": (38, 98, 205),
    "brown": (104, 62, 36),
    "grey": (126, 131, 140),
    "black": (30, 29, 34),
    "white": (246, 244, 238),
}
LEGS: dict[str, Colour] = {"dark": (38, 34, 36), "pink": (240, 130, 150), "yellow": (248, 200, 40)}
HIDDEN: Colour = (112, 108, 92)  # of a part that leaves cover
DARK: Colour = (26, 24, 28)
PALE: Colour = (250, 247, 236)

# Numbers of the look: marks of a class that no attribute names.
IRIS, CHEEK, BROW, CREST, TAIL_BAND, BILL, BREAST_BAND, PLUMP = 0, slice(1, 4), 4, 5, 6, 7, 8, 9
LOOK_SIZE = 10

# Scale of the head, how far it is raised, length of the legs. A small bird is round, with a large
# head and short legs, so that its size is visible without a scale beside it.
_BUILD = {"small": (1.42, -0.03, 0.2), "medium": (1.22, 0.02, 0.27), "large": (0.98, 0.13, 0.38)}

_STEPS = 6
_OUTLINE = np.array(
    [
        (0.455, 0.40),  # 0 root of the bill
        (0.42, 0.51),
        (0.28, 0.585),
        (0.12, 0.53),
        (0.02, 0.40),  # 4 nape
        (-0.08, 0.28),
        (-0.26, 0.15),
        (-0.46, -0.02),
        (-0.50, -0.15),  # 8 root of the tail
        (-0.36, -0.32),
        (-0.12, -0.43),  # 10 belly
        (0.14, -0.43),
        (0.37, -0.28),
        (0.48, -0.03),
        (0.465, 0.15),
        (0.46, 0.27),  # 15 chin
    ]
)
_HEAD, _BELLY = [0, 1, 2, 3, 4, 15], slice(10, 13)
_HEAD_CENTRE = np.array([0.26, 0.38])
_FORWARD = np.array([0.25, 1.0])  # how a head is raised


@dataclasses.dataclass(frozen=True)
class Bird:
    """A bird to draw.

    Attributes:
      shown: the value of each attribute; None is hidden, and drawn in some neutral way.
      look: float [LOOK_SIZE], normally distributed.
      tones: the colours of crown, back and belly of this individual.
    """

    shown: Mapping[str, str | None]
    look: np.ndarray
    tones: Mapping[str, Colour]

    def head(self, *points: tuple[float, float]) -> np.ndarray:
        """Points [N, 2] at the head, scaled and raised with it."""
        scale, raised, _ = self._build
        return (np.array(points) - _HEAD_CENTRE) * scale + _HEAD_CENTRE + raised * _FORWARD

    def outline(self) -> np.ndarray:
        """Head and body, a closed curve [N, 2]."""
        points = _OUTLINE.copy()
        points[_HEAD] = self.head(*_OUTLINE[_HEAD])
        points[_BELLY] *= 1 + 0.04 * np.clip(self.look[PLUMP], -1.5, 1.5)
        return loop(points, _STEPS)

    @property
    def head_scale(self) -> float:
        return self._build[0]

    @property
    def leg_length(self) -> float:
        return self._build[2]

    @property
    def legs(self) -> Colour:
        value = self.shown["legs"]
        return LEGS[value] if value else HIDDEN

    @property
    def wings(self) -> Colour:
        return mix(self.tones["back"], DARK, 0.3)

    @property
    def tail(self) -> Colour:
        return mix(self.tones["back"], DARK, 0.22)

    @property
    def _build(self) -> tuple[float, float, float]:
        return _BUILD[self.shown["size"] or "medium"]


def upper_head(outline: np.ndarray) -> np.ndarray:
    """The part of an outline from the bill over the head to the nape."""
    return outline[: 4 * _STEPS + 1]


def lower_side(outline: np.ndarray) -> np.ndarray:
    """The part of an outline from the tail along belly and breast to the bill."""
    return outline[8 * _STEPS :]


def individual(shown: Mapping[str, str | None], look: np.ndarray, rng: np.random.Generator) -> Bird:
    """A bird whose colours are a little lighter or darker than those of its values."""
    tones = {}
    for part in ("crown", "back", "belly"):
        value = shown[part]
        tone = np.array(PLUMAGE[value] if value else HIDDEN) + rng.normal(size=3) * 5
        red, green, blue = np.clip(tone, 0, 255).astype(int).tolist()
        tones[part] = (red, green, blue)
    return Bird(shown, look, tones)
