"""Pictures of the birds of the demo, drawn from their attributes."""

import functools
from collections.abc import Mapping

import numpy as np
from PIL import Image, ImageFilter

from .bird import Bird, individual
from .bird_parts import draw_body, draw_legs, draw_relief
from .scenery import SCENES, background, draw_cover, draw_perch
from .shapes import Pen

SIZE = 160  # pixels of a picture on a side
_FINE = 3  # shapes are drawn larger by this factor, then averaged, for smooth edges
_UNITS = {"small": 58.0, "medium": 70.0, "large": 78.0}  # pixels of a body length

# Circles in the bird's coordinates that leaves cover if an attribute is hidden: centre, radius.
_COVERS = {
    "crown": [((0.3, 0.44), 0.16), ((0.14, 0.42), 0.16)],
    "back": [((0.0, 0.28), 0.1), ((-0.25, 0.1), 0.1), ((-0.45, -0.05), 0.1)],
    "belly": [((0.38, 0.08), 0.15), ((0.28, -0.2), 0.18), ((0.0, -0.32), 0.15)],
    "wings": [((0.0, 0.03), 0.15), ((-0.25, -0.08), 0.15)],
    "bill": [((0.62, 0.38), 0.12)],
    "tail": [((-0.65, -0.2), 0.14), ((-0.85, -0.35), 0.14)],
    "legs": [((-0.08, -0.56), 0.08), ((0.05, -0.62), 0.1), ((0.18, -0.56), 0.08)],
}


def draw(shown: Mapping[str, str | None], look: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A picture of a bird, uint8 [SIZE, SIZE, 3].

    Args:
      shown: a value for each attribute of the world. None is hidden: leaves cover that part, and a
        bird of hidden size has any size.
      look: float [LOOK_SIZE], marks that no attribute names.
      rng: decides pose, place, scene, tones and light. The same state gives the same picture.
    """
    bird = individual(shown, look, rng)
    scene = SCENES[rng.integers(len(SCENES))]
    any_unit, scale = rng.uniform(_UNITS["small"], _UNITS["large"]), rng.uniform(0.97, 1.03)
    unit = scale * (_UNITS[shown["size"]] if shown["size"] else any_unit)
    matrix, origin = _pose(bird, unit, rng)

    # Premultiplied alpha: averaging gives edges their right colours.
    shapes, reliefs = Image.new("RGBa", (SIZE * _FINE,) * 2), Image.new("L", (SIZE, SIZE))
    bird_pen = Pen(shapes, matrix * _FINE, origin * _FINE)
    pen = Pen(shapes, np.eye(2) * _FINE, np.zeros(2))
    relief_pen = Pen(reliefs, np.eye(2), np.zeros(2))

    hips = np.array([(0.13, -0.3), (-0.03, -0.3)]) @ matrix + origin
    ground = hips[:, 1].max() + bird.leg_length * unit
    feet = np.stack([hips[:, 0] + (0.03 * unit, -0.03 * unit), [ground, ground]], axis=1)
    draw_perch(pen, relief_pen, scene, feet.mean(axis=0), SIZE, rng)
    draw_legs(pen, bird, hips, feet, unit)
    draw_body(bird_pen, bird)
    draw_relief(Pen(reliefs, matrix, origin), bird)
    for part, circles in _COVERS.items():
        if shown[part] is None:
            for centre, radius in circles:
                at = bird.head(centre) if part in ("crown", "bill") else np.array([centre])
                draw_cover(pen, (at @ matrix + origin)[0], radius * unit, rng)

    horizon = float(np.clip((ground + rng.uniform(-12, 4)) / SIZE, 0.4, 0.95))
    behind = background(scene, SIZE, horizon, rng)
    return _photograph(shapes.reduce(_FINE), behind, _light(reliefs, 0.07 * unit), rng)


def _pose(bird: Bird, unit: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Matrix and origin of the bird's coordinates, such that all of it is inside the picture."""
    tilt, side = rng.uniform(-0.05, 0.22), rng.choice((-1.0, 1.0))
    turn = np.array([(np.cos(tilt), np.sin(tilt)), (-np.sin(tilt), np.cos(tilt))])
    matrix = unit * turn @ np.diag((side, -1.0))
    # The longest tails and bills and the highest crest, so that values do not move the bird.
    tails, bill = [(-0.97, -0.05), (-0.96, -0.20), (-0.86, -0.63)], (0.95, 0.36)
    crest, feet = bird.head((-0.02, 0.8))[0], (0.05, -0.36 - bird.leg_length)
    extent = np.array([*tails, bill, crest, feet]) @ matrix
    low, high = 4 - extent.min(axis=0), SIZE - 6 - extent.max(axis=0)
    slack = np.maximum(high - low, 0) / 2
    return matrix, (low + high) / 2 + rng.uniform(-0.7, 0.7, 2) * slack


def _light(reliefs: Image.Image, width: float) -> np.ndarray:
    """Light from above on what stands out, float32 [SIZE, SIZE] from -1 to 1."""
    smooth = np.asarray(reliefs.filter(ImageFilter.GaussianBlur(width)), np.float32) / 255
    step = max(2, round(width))
    light = np.zeros_like(smooth)
    light[step:-step] = smooth[2 * step :] - smooth[: -2 * step]
    return light


def _photograph(
    shapes: Image.Image, behind: Image.Image, light: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Shapes before a background, with light, exposure, tint and grain."""
    front = np.asarray(shapes, np.float32)
    opacity, light = front[..., 3:] / 255, light[..., None]
    pixels = front[..., :3] * (1 + 0.5 * light)
    pixels += opacity * (22 * np.maximum(light, 0))
    pixels += np.asarray(behind, np.float32) * (1 - opacity)
    pixels *= (rng.uniform(0.92, 1.06) * (1 + 0.015 * rng.normal(size=3))).astype(np.float32)
    row, column = rng.integers(SIZE, size=2)
    pixels += _grain()[row : row + SIZE, column : column + SIZE]
    return np.clip(pixels, 0, 255, out=pixels).astype(np.uint8)


@functools.cache
def _grain() -> np.ndarray:
    """Noise of a camera, larger than a picture, which takes a piece of it."""
    noise = np.random.default_rng(0).normal(size=(2 * SIZE, 2 * SIZE, 1)) * 2
    return noise.astype(np.float32)
