"""A small synthetic world of birds: classes, image features and captions.

Everything is generated from one seed. Splits and file formats are defined elsewhere.
"""

import dataclasses

import numpy as np

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
    feature_size: int = 128
    background_size: int = 24
    look_size: int = 16
    look: float = 0.7  # strength of the look of a class, which no caption mentions
    other_value: float = 0.12  # an instance shows a value other than that of its class
    hidden: float = 0.10  # an attribute cannot be seen on the image
    mistake: float = 0.04  # a caption names a wrong value
    noise: float = 0.25  # standard deviation of the noise on the features


@dataclasses.dataclass(frozen=True)
class Instance:
    """One image: its features, float32 [D], and its captions."""

    features: np.ndarray
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


def class_name(number: int, values: np.ndarray) -> str:
    """A readable name with some of the values, such as `007.small_red_crowned_blue_backed`."""
    named = {
        part: list(of_part)[value]
        for (part, of_part), value in zip(ATTRIBUTES.items(), values, strict=True)
    }
    return f"{number:03d}.{named['size']}_{named['crown']}_crowned_{named['back']}_backed"


class Camera:
    """Turns visible attributes into features: a fixed random two-layer network, plus noise."""

    def __init__(self, world: World):
        self._world = world
        rng = np.random.default_rng([world.seed, 1])
        visible = sum(len(values) for values in ATTRIBUTES.values())
        inputs = visible + world.look_size + world.background_size
        hidden = 4 * world.feature_size
        self._first = rng.normal(size=(inputs, hidden)) * 0.7
        self._second = rng.normal(size=(hidden, world.feature_size)) / np.sqrt(hidden)

    def photograph(
        self, shown: list[int | None], look: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Features of an instance with these values; None is a hidden value.

        `look`, float [look_size], is shared by all images of a class.
        """
        parts = []
        for values, value in zip(ATTRIBUTES.values(), shown, strict=True):
            part = np.zeros(len(values))
            if value is not None:
                part[value] = rng.uniform(0.7, 1.3)
            parts.append(part)
        background = rng.normal(size=self._world.background_size) * 0.3
        hidden = np.tanh(np.concatenate([*parts, look, background]) @ self._first)
        features = np.maximum(hidden @ self._second, 0.0)
        return (features + rng.normal(size=features.shape) * self._world.noise).astype(np.float32)


def make_instance(world: World, camera: Camera, values: np.ndarray, number: int) -> Instance:
    """Instance number `number` of the world, of the class with these values."""
    rng = np.random.default_rng([world.seed, 2, number])
    shown: list[int | None] = []
    for of_part, value in zip(ATTRIBUTES.values(), values, strict=True):
        if rng.random() < world.other_value:
            value = rng.integers(len(of_part))
        shown.append(None if rng.random() < world.hidden else int(value))
    look = np.random.default_rng([world.seed, 3, *values]).normal(size=world.look_size)
    features = camera.photograph(shown, world.look * look, rng)
    return Instance(features, [_write_caption(world, shown, rng) for _ in range(10)])


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
