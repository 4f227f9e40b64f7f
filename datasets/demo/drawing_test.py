"""What the drawn birds show: every attribute, where it belongs, the same on every run."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from . import bird, contact_sheet, drawing, world

PLAIN = {
    "crown": "red",
    "back": "blue",
    "belly": "white",
    "wings": "plain",
    "bill": "short",
    "size": "medium",
    "tail": "short",
    "legs": "dark",
}
NO_LOOK = np.zeros(bird.LOOK_SIZE)
SEEDS = range(12)  # poses to both sides in all scenes


def draw(seed: int = 0, look: np.ndarray = NO_LOOK, **shown: str | None) -> np.ndarray:
    return drawing.draw({**PLAIN, **shown}, look, np.random.default_rng(seed))


def changed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pixels that differ clearly, bool [SIZE, SIZE]."""
    return (np.abs(a.astype(int) - b).max(axis=2)) > 24


def centre(mask: np.ndarray) -> np.ndarray:
    """Mean row and column of a mask."""
    return np.argwhere(mask).mean(axis=0)


def nearest_colour(pixels: np.ndarray) -> str:
    """The value whose colour is nearest to the median of pixels [N, 3]."""
    median = np.median(pixels, axis=0)
    return min(bird.PLUMAGE, key=lambda value: np.abs(median - np.array(bird.PLUMAGE[value])).sum())


def test_a_picture_is_a_function_of_bird_and_seed():
    first = draw(3)
    draw(4, wings="spotted")  # leaves nothing behind
    assert first.shape == (drawing.SIZE, drawing.SIZE, 3) and first.dtype == np.uint8
    assert np.array_equal(first, draw(3))
    assert changed(first, draw(4)).mean() > 0.1


def test_another_process_draws_the_same_bytes():
    program = (
        "import hashlib; from clarel_tf.datasets.demo.contact_sheet import contact_sheet;"
        "print(hashlib.sha256(contact_sheet(4, 2).tobytes()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    own = hashlib.sha256(contact_sheet.contact_sheet(4, 2).tobytes()).hexdigest()
    assert run.stdout.strip() == own


def test_the_drawing_knows_every_value_of_the_world():
    for part, values in world.ATTRIBUTES.items():
        pictures = [draw(**{part: value}) for value in (*values, None)]
        for i, picture in enumerate(pictures):
            for other in pictures[:i]:
                assert changed(picture, other).sum() > 30, part


@pytest.mark.parametrize("part", ["crown", "back", "belly"])
@pytest.mark.parametrize("value", sorted(bird.PLUMAGE))
def test_a_part_has_its_colour(part, value):
    other = "orange" if value == "green" else "green"
    for seed in SEEDS:
        picture = draw(seed, **{part: value})
        region = changed(picture, draw(seed, **{part: other}))
        if part == "back":  # wing and tail are darker shades of it
            region &= ~changed(picture, draw(seed, **{part: value, "wings": "barred"}))
        assert region.sum() > 150
        found = nearest_colour(picture[region])
        # A shadow makes grey of white; in the shade, brown and black are near.
        assert found in {value, {"white": "grey", "brown": "black"}.get(value, value)}


def test_each_part_is_where_it_belongs():
    for seed in SEEDS:
        plain = draw(seed)
        places = {
            part: changed(plain, draw(seed, **{part: value}))
            for part, value in {
                "crown": "green",
                "belly": "black",
                "wings": "barred",
                "bill": "hooked",
                "tail": "forked",
                "legs": "yellow",
            }.items()
        }
        row = {part: centre(mask)[0] for part, mask in places.items()}
        column = {part: centre(mask)[1] for part, mask in places.items()}
        assert row["crown"] < row["wings"] < row["legs"]
        assert row["crown"] < row["belly"] < row["legs"]
        # Bill, belly, wings and tail follow each other, from whichever side.
        along = [column[part] for part in ("bill", "belly", "wings", "tail")]
        assert along in (sorted(along), sorted(along, reverse=True))
        for part in ("crown", "belly", "legs"):
            for other in ("wings", "tail"):
                assert not (places[part] & places[other]).sum() > 12


def test_size_is_the_area_of_the_bird():
    for seed in SEEDS:
        areas = [
            changed(draw(seed, size=size, belly="white"), draw(seed, size=size, belly="red")).sum()
            for size in ("small", "medium", "large")
        ]
        assert areas[0] * 1.15 < areas[1] and areas[1] * 1.15 < areas[2]


@pytest.mark.parametrize("tail", ["forked", "fan"])
def test_the_whole_bird_is_inside_the_picture(tail):
    inside = np.zeros((drawing.SIZE, drawing.SIZE), bool)
    inside[1:-1, 1:-1] = True
    for seed in range(40):
        long = {"size": "large", "bill": "long", "tail": tail}
        picture = draw(seed, **long)
        for part, value in {"back": "yellow", "crown": "green", "legs": "yellow"}.items():
            region = changed(picture, draw(seed, **{**long, part: value}))
            assert not (region & ~inside).any()


@pytest.mark.parametrize("part", ["crown", "belly"])
def test_leaves_cover_a_hidden_part(part):
    for seed in SEEDS:
        shown, hidden = draw(seed, **{part: "red"}), draw(seed, **{part: None})
        region = changed(shown, draw(seed, **{part: "blue"}))
        red, green, blue = hidden[region].astype(int).T
        assert ((green > red + 8) & (green > blue + 8)).mean() > 0.4
        assert (red > green + 40).mean() < 0.1  # nothing of its colour is left


def test_the_look_adds_marks_and_leaves_the_attributes():
    for seed in SEEDS:
        plain = draw(seed)
        marked = draw(seed, look=np.random.default_rng(seed + 50).normal(size=bird.LOOK_SIZE))
        assert 0.0005 < changed(plain, marked).mean() < 0.05
