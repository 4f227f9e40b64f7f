"""What is around a drawn bird: a blurred background, something to stand on, leaves in front.

All coordinates are pixels of the picture.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from .shapes import Colour, Pen, curve, loop, mix

SCENES = ("sky", "wood", "water", "meadow")
# Colours at the top, at the horizon, of the ground, and of blurred spots: pale, so that the bird
# stands out.
_TINTS: dict[str, tuple[Colour, Colour, Colour, Colour]] = {
    "sky": ((160, 200, 236), (224, 238, 248), (224, 238, 248), (250, 252, 255)),
    "wood": ((158, 182, 146), (208, 222, 186), (178, 194, 156), (234, 242, 210)),
    "water": ((206, 226, 238), (236, 240, 236), (150, 196, 212), (196, 224, 232)),
    "meadow": ((206, 228, 242), (240, 240, 214), (190, 212, 148), (248, 238, 190)),
}
_COARSE = 40  # pixels of a background before it is enlarged


def background(scene: str, size: int, horizon: float, rng: np.random.Generator) -> Image.Image:
    """An RGB image of `size` pixels, out of focus; `horizon` is a share of its height."""
    top, middle, ground, spot = (np.array(tint) for tint in _TINTS[scene])
    row = (np.arange(_COARSE)[:, None] + 0.5) / _COARSE
    colours = top + (middle - top) * np.minimum(row / horizon, 1)
    colours += (ground - middle) * np.clip((row - horizon) * 12, 0, 1)
    column = np.clip(colours, 0, 255).astype(np.uint8)[:, None]
    image = Image.fromarray(np.repeat(column, _COARSE, axis=1))
    draw = ImageDraw.Draw(image, "RGBA")
    height = 0.35 if scene in ("sky", "water") else 1.0  # of clouds, of lights between leaves
    for x, y, width, strength in rng.random((9, 4)).tolist():
        x, y, radius = x * _COARSE, y * _COARSE, 2 + 6 * width
        box = (x - radius, y - radius * height, x + radius, y + radius * height)
        draw.ellipse(box, fill=(*spot.tolist(), round(40 + 80 * strength)))
    image = image.filter(ImageFilter.BoxBlur(0.8))
    return image.resize((size, size), Image.Resampling.BICUBIC)


def draw_perch(
    pen: Pen, relief: Pen, scene: str, foot: np.ndarray, size: int, rng: np.random.Generator
) -> None:
    """Draws what the feet stand on: a stone or a branch."""
    if scene == "water":
        _draw_stone(pen, relief, foot, size, rng)
        return
    if scene == "meadow":
        _draw_grass(pen, float(foot[1]), size, rng)
    _draw_branch(pen, relief, foot, size, rng)


def draw_cover(pen: Pen, centre: np.ndarray, radius: float, rng: np.random.Generator) -> None:
    """Draws leaves that hide a circle."""
    for angle in (np.arange(6 + radius // 2) * 2.4 + rng.uniform(0, 7)).tolist():
        out = np.array([np.cos(angle), np.sin(angle)]) * rng.uniform(0, 0.9) * radius
        turn = rng.uniform(-0.6, 0.6) + np.pi * rng.integers(2)
        _draw_leaf(pen, centre + out, angle + turn, rng)


def _draw_stone(
    pen: Pen, relief: Pen, foot: np.ndarray, size: int, rng: np.random.Generator
) -> None:
    """Draws a stone in rippled water."""
    half, colour = size * rng.uniform(0.2, 0.3), (134, 130, 124)
    for _ in range(5):
        start = (rng.uniform(-0.1, 1) * size, rng.uniform(foot[1] + 0.2 * half, size))
        end = (start[0] + 0.15 * size, start[1])
        pen.stroke(np.array([start, end]), 1.0, (232, 244, 248))
    shape = [(-1, 0.35), (-0.7, 0.08), (-0.1, 0), (0.5, 0.04), (1, 0.4), (0.6, 0.7), (-0.6, 0.7)]
    stone = loop(np.array(shape) * (half, 0.55 * half) + foot)
    pen.area(stone + np.array([0, 3]), mix(colour, (60, 90, 100), 0.6))
    pen.area(stone, colour)
    relief.area(stone, 150)


def _draw_grass(pen: Pen, top: float, size: int, rng: np.random.Generator) -> None:
    """Draws blades from the lower border up to about `top`."""
    for _ in range(22):
        x, y = rng.uniform(0, size), size + 2
        tip = (x + rng.uniform(-8, 8), top + rng.uniform(-7, 9))
        blade = [(x - 1.6, y), tip, (x + 1.6, y)]
        pen.area(np.array(blade), mix((120, 150, 92), (176, 192, 128), rng.random()))


def _draw_branch(
    pen: Pen, relief: Pen, foot: np.ndarray, size: int, rng: np.random.Generator
) -> None:
    """Draws a branch across the picture, with up to three leaves away from the feet."""
    slope, bend = rng.uniform(-0.12, 0.12), rng.uniform(-14, 14)
    x = np.array([-0.1, 0.25, 0.5, 0.75, 1.1]) * size
    aside = x - foot[0]
    line = curve(np.stack([x, foot[1] + slope * aside + bend * (aside / size) ** 2], axis=1))
    down = np.linspace(*rng.permutation([5.4, 3.4]), len(line))[:, None] * (0, 1)
    branch = np.concatenate([line, (line + 2 * down)[::-1]])
    bark = mix((104, 82, 64), (150, 140, 128), 0.6 * rng.random())
    pen.area(branch, bark)
    pen.stroke(line + 1.5 * down, 1.2, mix(bark, (30, 24, 20), 0.4))
    relief.area(branch, 130)
    for _ in range(int(rng.integers(0, 4))):
        root, angle = line[rng.integers(len(line))], rng.uniform(0, 2 * np.pi)
        if abs(root[0] - foot[0]) > 0.2 * size:
            _draw_leaf(pen, root, angle, rng)


def _draw_leaf(pen: Pen, root: np.ndarray, angle: float, rng: np.random.Generator) -> None:
    """Draws one leaf with its rib, from its root in a direction."""
    along = np.array([np.cos(angle), np.sin(angle)]) * rng.uniform(13, 19)
    across = np.array([-along[1], along[0]]) * 0.3
    colour = mix((62, 112, 46), (138, 164, 62), rng.random())
    near, far, tip = root + 0.3 * along, root + 0.7 * along, root + along
    pen.area(np.stack([root, near - across, far - 0.7 * across, tip]), colour)
    half = np.stack([root, near + across, far + 0.7 * across, tip])
    pen.area(half, mix(colour, (240, 250, 190), 0.16))
    pen.stroke(np.stack([root, tip]), 0.8, mix(colour, (30, 50, 20), 0.4))
