"""A small synthetic world of birds: classes, pictures and captions.

Everything is generated from one seed. Splits and file formats are defined elsewhere.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from .bird import LOOK_SIZE
from .drawing import draw

_COLOURS = {
    "red": ("red", "crimson", "scarlet"),
    "orange": ("orange", "rusty"),
    "yellow": ("yellow", "golden"),
    "green": ("green", "olive"),
    "blue": ("blue", "azure"),
    "brown": ("brown", "chestnut"),
    "grey": ("grey", "ashy"),
    "black": ("black", "jet black"),
    "white": ("white", "snowy"),
}

# attribute -> value -> the ways people word it. A class is one value of each attribute.
ATTRIBUTES: dict[str, dict[str, tuple[str, ...]]] = {
    "crown": _COLOURS,
    "back": _COLOURS,
    "belly": _COLOURS,
    "wings": {
        "plain": ("plain", "unmarked"),
        "barred": ("barred", "with white bars"),
        "spotted": ("spotted", "speckled"),
        "striped": ("striped", "streaked"),
    },
    "bill": {
        "short": ("short", "stubby"),
        "long": ("long", "slender"),
        "hooked": ("hooked", "curved"),
        "conical": ("conical", "cone shaped"),
    },
    "size": {
        "small": ("small", "tiny", "little"),
        "medium": ("medium sized", "mid sized"),
        "large": ("large", "big"),
    },
    "tail": {
        "short": ("short", "stubby"),
        "forked": ("forked", "notched"),
        "fan": ("fan shaped", "broad"),
    },
    "legs": {
        "dark": ("dark", "black"),
        "pink": ("pink", "rosy"),
        "yellow": ("yellow", "pale"),
    },
}

_PART_WORDS = {
    "crown": ("crown", "head", "cap"),
    "back": ("back", "upper side"),
    "belly": ("belly", "breast", "underside"),
    "wings": ("wings", "wing feathers"),
    "bill": ("bill", "beak"),
    "tail": ("tail", "tail feathers"),
    "legs": ("legs", "feet"),
}
_BIRD_WORDS = ("bird", "songbird", "animal")
_OPENINGS = (
    "this {bird} has",
    "a {bird} with",
    "the {bird} has",
    "{bird} that has",
    "this is a {bird} with",
)


@dataclasses.dataclass(frozen=True)
class World:
    """The difficulty of the world; probabilities are per attribute of an instance or caption."""

    seed: int = 2020
    other_value: float = 0.12  # an instance shows a value other than that of its class
    hidden: float = 0.10  # an attribute cannot be seen on the image
    mistake: float = 0.04  # a caption names a wrong value


@dataclasses.dataclass(frozen=True)
class Instance:
    """One image: its picture, uint8 [SIZE, SIZE, 3], and its captions."""

    picture: np.ndarray
    captions: list[str]


def make_classes(world: World, count: int) -> np.ndarray:
    """Unique combinations of values, int [count, attributes].

    Each value of an attribute occurs about equally often, so several classes share it and an unseen
    class is another combination of values that occur in seen classes.
    """
    rng = np.random.default_rng([world.seed, 0])
    while True:
        columns = [
            rng.permutation(np.arange(count) % len(values)) for values in ATTRIBUTES.values()
        ]
        classes = np.stack(columns, axis=1)
        if len(np.unique(classes, axis=0)) == count:
            return classes


def named(values: Sequence[int | None]) -> dict[str, str | None]:
    """The names of values, by attribute; None is hidden."""
    return {
        part: None if value is None else list(of_part)[value]
        for (part, of_part), value in zip(ATTRIBUTES.items(), values, strict=True)
    }


def class_name(number: int, values: np.ndarray) -> str:
    """A readable name with some of the values, such as `007.small_red_crowned_blue_backed`."""
    shown = named(values.tolist())
    return f"{number:03d}.{shown['size']}_{shown['crown']}_crowned_{shown['back']}_backed"


def look_of_class(world: World, values: np.ndarray) -> np.ndarray:
    """What all images of a class show and no caption mentions, float [LOOK_SIZE]."""
    return np.random.default_rng([world.seed, 3, *values]).normal(size=LOOK_SIZE)


def make_instance(world: World, values: np.ndarray, number: int) -> Instance:
    """Instance number `number` of the world, of the class with these values.

    The picture has a random generator of its own, so a change of the drawing leaves the captions.
    """
    rng = np.random.default_rng([world.seed, 2, number])
    shown: list[int | None] = []
    for of_part, value in zip(ATTRIBUTES.values(), values.tolist(), strict=True):
        if rng.random() < world.other_value:
            value = int(rng.integers(len(of_part)))
        shown.append(None if rng.random() < world.hidden else value)
    pose = np.random.default_rng([world.seed, 4, number])
    picture = draw(named(shown), look_of_class(world, values), pose)
    return Instance(picture, [_write_caption(world, shown, rng) for _ in range(10)])


def _write_caption(world: World, shown: list[int | None], rng: np.random.Generator) -> str:
    """A sentence that mentions two to four visible attributes, in random wording."""

    def pick(options):
        return options[rng.integers(len(options))]

    visible = [i for i, value in enumerate(shown) if value is not None]
    mentioned = rng.permutation(visible)[: rng.integers(2, 5)]
    size_word, phrases = "", []
    for index in mentioned:
        part, of_part = list(ATTRIBUTES.items())[index]
        value = rng.integers(len(of_part)) if rng.random() < world.mistake else shown[index]
        wording = pick(list(of_part.values())[value])
        if part == "size":
            size_word = wording + " "
        elif wording.startswith("with "):
            phrases.append(f"{pick(_PART_WORDS[part])} {wording}")
        else:
            phrases.append(f"{pick(('a ', ''))}{wording} {pick(_PART_WORDS[part])}")
    opening = pick(_OPENINGS).format(bird=size_word + pick(_BIRD_WORDS))
    if not phrases:
        return opening.replace(" has", "").replace(" with", "").replace(" that", "")
    if len(phrases) > 1:
        phrases[-2:] = [f"{phrases[-2]} and {phrases[-1]}"]
    return f"{opening} {', '.join(phrases)}{pick(('.', ''))}"
