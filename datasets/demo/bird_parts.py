"""Draws the parts of a bird, each from one attribute."""

import functools

import numpy as np

from .bird import (
    BILL,
    BREAST_BAND,
    BROW,
    CHEEK,
    CREST,
    DARK,
    IRIS,
    PALE,
    TAIL_BAND,
    Bird,
    lower_side,
    upper_head,
)
from .shapes import Colour, Pen, curve, loop, mix

# Upper and lower half of a bill. "hooked" is drawn as a curve.
_BILLS = {
    "short": (
        [(0.43, 0.44), (0.60, 0.375), (0.43, 0.365)],
        [(0.43, 0.37), (0.58, 0.372), (0.43, 0.325)],
    ),
    "long": (
        [(0.42, 0.43), (0.68, 0.385), (0.92, 0.34), (0.42, 0.365)],
        [(0.42, 0.37), (0.68, 0.36), (0.90, 0.335), (0.42, 0.325)],
    ),
    "hooked": (
        [(0.40, 0.48), (0.58, 0.49), (0.71, 0.40), (0.70, 0.20), (0.63, 0.32), (0.42, 0.34)],
        [(0.42, 0.35), (0.60, 0.32), (0.56, 0.26), (0.42, 0.29)],
    ),
    "conical": (
        [(0.38, 0.54), (0.58, 0.46), (0.73, 0.34), (0.42, 0.35)],
        [(0.42, 0.36), (0.70, 0.335), (0.56, 0.24), (0.41, 0.22)],
    ),
}
_SHORT_TAIL = np.array([(-0.36, 0.02), (-0.66, -0.14), (-0.68, -0.24), (-0.36, -0.24)])
_FORKED_TAIL = (
    np.array([(-0.36, 0.02), (-0.7, -0.13), (-0.94, -0.15), (-0.78, -0.25), (-0.4, -0.2)]),
    np.array([(-0.36, -0.05), (-0.60, -0.28), (-0.86, -0.63), (-0.54, -0.40), (-0.36, -0.25)]),
)
_WING = (  # upper and lower edge, from shoulder to tip
    np.array([(0.16, 0.12), (0.03, 0.19), (-0.18, 0.07), (-0.43, -0.06), (-0.74, -0.22)]),
    np.array([(0.16, 0.12), (0.15, -0.04), (-0.04, -0.15), (-0.36, -0.20), (-0.74, -0.22)]),
)
_UNDERSIDE = [(0.2, 0.2), (0.12, 0.0), (-0.22, -0.12), (-0.47, -0.15)]  # its edge to the back


def draw_body(pen: Pen, bird: Bird) -> None:
    """Draws everything but the legs, from the back to the front."""
    outline = bird.outline()
    _draw_tail(pen, bird)
    _draw_bill(pen, bird)
    _draw_crest(pen, bird)
    pen.area(outline, bird.tones["back"])
    edge = curve(np.concatenate([bird.head((0.44, 0.34), (0.3, 0.27)), _UNDERSIDE]))
    pen.area(np.concatenate([lower_side(outline), edge]), bird.tones["belly"])
    _draw_marks(pen, bird)
    edge = curve(bird.head((0.02, 0.35), (0.13, 0.23), (0.31, 0.29), (0.455, 0.36)))
    pen.area(np.concatenate([upper_head(outline), edge]), bird.tones["crown"])
    _draw_eye(pen, bird)
    _draw_wing(pen, bird)


def draw_relief(pen: Pen, bird: Bird) -> None:
    """Draws how far body and wing stand out, for the light."""
    pen.area(bird.outline(), 150)
    pen.area(_on_wing(0, 1, 0, 1), 255)


def draw_legs(pen: Pen, bird: Bird, hips: np.ndarray, feet: np.ndarray, unit: float) -> None:
    """Draws two legs with toes, in pixels, from hips [2, 2] to feet [2, 2].

    Args:
      unit: pixels of a body length.
    """
    for hip, foot, shadow in zip(hips, feet, (0.25, 0.0), strict=True):
        colour = mix(bird.legs, DARK, shadow)
        heel = (hip + foot) / 2 + np.sign(hip - foot) * (0.035 * unit, 0)
        pen.stroke(np.stack([hip, heel, foot]), 0.062 * unit, colour)
        for toe in ((-0.11, 0.035), (0.05, 0.06), (0.14, 0.03)):
            pen.stroke(np.stack([foot, foot + np.array(toe) * unit]), 0.05 * unit, colour)


def _draw_tail(pen: Pen, bird: Bird) -> None:
    value = bird.shown["tail"] or "short"
    darker, lighter = mix(bird.tail, DARK, 0.1), mix(bird.tail, PALE, 0.1)
    strength = float(np.clip(abs(bird.look[TAIL_BAND]) * 0.4, 0, 0.7))
    band = mix(bird.tail, PALE if bird.look[TAIL_BAND] > 0 else DARK, strength)
    if value == "short":
        pen.area(loop(_SHORT_TAIL), darker)
        pen.stroke(0.98 * _SHORT_TAIL[1:3], 0.04, band)
    elif value == "forked":
        for feather, colour in zip(_FORKED_TAIL, (darker, lighter), strict=True):
            pen.area(feather, colour)
    else:
        root = np.array([-0.38, -0.1])
        for number, angle in enumerate(np.linspace(-0.45, 1.15, 6)):
            along = -0.6 * np.array([np.cos(angle), np.sin(angle)])
            across = 0.17 * np.array([along[1], -along[0]])
            end = 0.87 * along
            tip = root + np.stack([end - across, along, end + across])
            pen.area(np.concatenate([root[None], tip]), lighter if number % 2 else darker)
            pen.area(tip, band)


def _draw_bill(pen: Pen, bird: Bird) -> None:
    value = bird.shown["bill"] or "short"
    upper, lower = (bird.head(*half) for half in _BILLS[value])
    horn = float(np.clip(0.3 + 0.3 * bird.look[BILL], 0, 0.8))
    colour = mix((52, 48, 50), (214, 150, 60), horn)
    pen.area(lower, mix(colour, PALE, 0.35))
    pen.area(curve(upper) if value == "hooked" else upper, colour)


def _draw_crest(pen: Pen, bird: Bird) -> None:
    height = 0.16 * float(np.clip(bird.look[CREST], 0, 1.5))
    if height > 0.04:
        middle, tip = (0.2, 0.58 + 0.6 * height), (-0.02, 0.56 + height)
        tuft = bird.head((0.36, 0.54), middle, tip, (0.06, 0.46))
        pen.area(tuft, mix(bird.tones["crown"], DARK, 0.12))


def _draw_marks(pen: Pen, bird: Bird) -> None:
    """Draws a band on the breast and a spot on the cheek."""
    if bird.look[BREAST_BAND] > 0.6:
        band = [(0.49, 0.04), (0.36, -0.03), (0.2, 0.03), (0.2, 0.07), (0.36, 0.02)]
        pen.area(np.array(band), mix(bird.tones["belly"], DARK, 0.6))
    cheek = bird.look[CHEEK]
    red, green, blue = np.clip(128 + 90 * cheek[:1] + 30 * cheek, 20, 240).astype(int).tolist()
    spot = bird.head((0.39, 0.27), (0.31, 0.285), (0.24, 0.24), (0.32, 0.205))
    pen.area(loop(spot), (red, green, blue))


def _draw_eye(pen: Pen, bird: Bird) -> None:
    centre, radius = bird.head((0.345, 0.425))[0], 0.052 * bird.head_scale
    if bird.look[BROW] > 0.3:
        pen.stroke(bird.head((0.42, 0.465), (0.32, 0.5), (0.17, 0.45)), 0.03, PALE)
    iris = mix(PALE, (230, 160, 40), float(np.clip(bird.look[IRIS], 0, 1)))
    pen.disc(centre, 1.3 * radius, iris)
    pen.disc(centre, radius, DARK)
    pen.disc(centre + 0.017, 0.32 * radius, (255, 255, 255))


def _draw_wing(pen: Pen, bird: Bird) -> None:
    value, colour = bird.shown["wings"], bird.wings
    shape = _on_wing(0, 1, 0, 1)
    pen.area(shape - (0.01, 0.022), mix(colour, DARK, 0.5))  # its shadow
    pen.area(shape, colour)
    if value == "plain":
        _draw_feathers(pen, colour)
    elif value == "barred":
        for start in (0.22, 0.42, 0.62):
            pen.area(_on_wing(start, start + 0.09, 0.04, 0.96), PALE)
    elif value == "spotted":
        for number, along in enumerate(np.linspace(0.18, 0.78, 7).tolist()):
            for across in (0.22, 0.52, 0.82) if number % 2 else (0.36, 0.67):
                pen.disc(_on_wing(along, along, across, across)[0], 0.021, PALE)
    elif value == "striped":
        for across in (0.08, 0.32, 0.56, 0.80):
            pen.area(_on_wing(0.06, 0.9, across, across + 0.11), mix(colour, PALE, 0.8))


def _draw_feathers(pen: Pen, colour: Colour) -> None:
    for across in (0.35, 0.65):
        line = _on_wing(0.55, 0.97, across, across)
        pen.stroke(line[: len(line) // 2], 0.012, mix(colour, DARK, 0.4))


@functools.cache
def _on_wing(start: float, end: float, top: float, bottom: float) -> np.ndarray:
    """A piece of the wing [N, 2].

    Along the wing it goes from `start` to `end`, where 0 is the shoulder and 1 the tip. Across the
    wing it goes from `top` to `bottom`, where 0 is the upper edge and 1 the lower edge.
    """
    edges = [curve(edge) for edge in _WING]
    rows = np.linspace(start, end, 12) * (len(edges[0]) - 1)
    upper, lower = (
        np.stack([np.interp(rows, np.arange(len(edge)), edge[:, k]) for k in (0, 1)], axis=1)
        for edge in edges
    )
    across = lower - upper
    return np.concatenate([upper + top * across, (upper + bottom * across)[::-1]])
