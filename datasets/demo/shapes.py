"""Smooth shapes on a Pillow image: curves through points, and a pen with its own coordinates."""

import functools

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]


@functools.cache
def _weights(steps: int) -> np.ndarray:
    """Catmull-Rom weights of the four points around a segment, float [steps, 4]."""
    t = np.arange(steps)[:, None] / steps
    return np.concatenate(
        [
            -0.5 * t + t**2 - 0.5 * t**3,
            1 - 2.5 * t**2 + 1.5 * t**3,
            0.5 * t + 2 * t**2 - 1.5 * t**3,
            -0.5 * t**2 + 0.5 * t**3,
        ],
        axis=1,
    )


def loop(points: np.ndarray, steps: int = 6) -> np.ndarray:
    """A closed smooth curve through points [N, 2], sampled as float [N * steps, 2].

    Row i * steps is point i.
    """
    around = np.concatenate([points[-1:], points, points[:2]])
    return _sampled(around, steps)


def curve(points: np.ndarray, steps: int = 6) -> np.ndarray:
    """An open smooth curve through points [N, 2], sampled as float [(N - 1) * steps + 1, 2]."""
    before, after = 2 * points[0] - points[1], 2 * points[-1] - points[-2]
    around = np.concatenate([before[None], points, after[None]])
    return np.concatenate([_sampled(around, steps), points[-1:]])


def _sampled(around: np.ndarray, steps: int) -> np.ndarray:
    """The curve from the second of the points to the last but one."""
    windows = np.lib.stride_tricks.sliding_window_view(around, 4, axis=0)  # [N, 2, 4]
    return (windows @ _weights(steps).T).transpose(0, 2, 1).reshape(-1, 2)


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """A colour between `a` (share 0) and `b` (share 1)."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


class Pen:
    """Draws on an image, in coordinates of its own.

    The pixel of a point is `point @ matrix + origin`. A colour is that of the image's mode.
    """

    def __init__(self, image: Image.Image, matrix: np.ndarray, origin: np.ndarray):
        self._draw = ImageDraw.Draw(image)
        self._matrix, self._origin = matrix, origin
        self._unit = float(np.sqrt(abs(np.linalg.det(matrix))))

    def place(self, points: np.ndarray) -> np.ndarray:
        """Pixels of points [N, 2] or [2]."""
        return points @ self._matrix + self._origin

    def area(self, points: np.ndarray, colour: Colour | int) -> None:
        """Fills a polygon [N, 2]."""
        self._draw.polygon(self.place(points).ravel().tolist(), fill=_opaque(colour))

    def stroke(self, points: np.ndarray, width: float, colour: Colour | int) -> None:
        """Draws a line through points [N, 2]."""
        pixels = max(1, round(width * self._unit))
        self._draw.line(self.place(points).ravel().tolist(), fill=_opaque(colour), width=pixels)

    def disc(self, centre: np.ndarray, radius: float, colour: Colour | int) -> None:
        """Fills a circle around a point [2]."""
        x, y = self.place(centre).tolist()
        r = radius * self._unit
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=_opaque(colour))


def _opaque(colour: Colour | int) -> tuple[int, int, int, int] | int:
    return colour if isinstance(colour, int) else (*colour, 255)
