"""Descriptions that say nothing about a class, to measure how many images they take."""

import collections
import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from clarel_tf.models.vocabulary import standardize

COUNTS = (1, 2, 5, 10)
# Kinds that are made of the run's own captions; the rule is fitted with these.
OWN_KINDS = ("frequent words", "evenly drawn frequent words", "random words", "unknown words")
FOREIGN = "another world"
REPEATED = "one sentence ten times"

_FREQUENT = 30
_MOST_CAPTIONS = 20_000  # word frequencies need no more
# Sentences of no dataset of this kind: traffic, food, furniture, people, offices, plants, animals.
_FOREIGN_SENTENCES = (
    "a small car with a dented door",
    "the lorry carries gravel to the building site",
    "two slices of toast with melted cheese",
    "a kitchen table with three drawers",
    "the armchair is covered with green velvet",
    "an aeroplane with four propellers stands on the runway",
    "a church tower with a golden clock",
    "the tunnel leads under the railway",
    "a notebook with squared paper",
    "these boots have thick rubber soles",
    "a sheepdog guards the flock",
    "the kitten plays with a ball of wool",
    "a woman in a grey coat waits for the tram",
    "three students read in the library",
    "the ferry leaves at half past six",
    "a pot of tea and a plate of biscuits",
    "the camera takes sharp pictures at night",
    "a ring with a small green stone",
    "a tractor with muddy wheels",
    "the cottage has a thatched roof",
    "a rowing boat lies on the sand",
    "a timetable of all buses of the town",
    "prices rose by three percent last year",
    "please answer this letter before monday",
    "how to replace the battery of a clock",
    "apples, pears and plums in a basket",
    "a daisy with many thin white petals",
    "the leaves of this oak turn brown in autumn",
    "a tulip with a long stem",
    "moss grows on the northern wall",
    "a bookshelf made of pine",
    "a bicycle without a saddle",
    "the candle burns down slowly",
    "a woollen pullover with a high collar",
    "soup with carrots and leeks",
    "a helmet with a scratched visor",
    "the curtain has a pattern of squares",
    "a salmon with silver scales",
    "the donkey carries two baskets",
    "the keys of the piano are yellow with age",
    "a hall full of people who applaud",
    "stir the flour into the warm milk",
    "a tent beside a mountain lake",
    "the museum shows coins and weapons",
    "a traffic light at the crossing",
    "the lid of the box is missing",
    "a letter with a foreign stamp",
    "the printer is out of paper",
)


class Description(NamedTuple):
    """Sentences of a class that does not exist.

    Attributes:
      kind: of the sentences.
      sentences: 1, 2, 5 or 10 of them.
    """

    kind: str
    sentences: tuple[str, ...]


def empty_descriptions(
    captions: Sequence[Sequence[bytes]],
    foreign: bool = True,
    draws: int = 10,
    seed: int = 0,
) -> list[Description]:
    """Empty descriptions of every kind, `draws` for each number of sentences.

    Args:
      captions: of the training images; words and their frequencies come from them.
      foreign: with the kinds that are not made of the run's own words.
    """
    rng = np.random.default_rng(seed)
    makers = _makers(captions, rng)
    if foreign:
        makers[FOREIGN] = lambda: str(rng.choice(_FOREIGN_SENTENCES))
    made = [
        Description(kind, tuple(make() for _ in range(count)))
        for kind, make in makers.items()
        for count in COUNTS
        for _ in range(draws)
    ]
    made.append(Description("empty sentence", ("",)))
    if foreign:
        own = [one for one in made if len(one.sentences) == 1][: draws * len(makers)]
        made += [Description(REPEATED, one.sentences * 10) for one in own]
    return made


def _makers(captions: Sequence[Sequence[bytes]], rng: np.random.Generator) -> dict:
    """Functions that make one sentence of each own kind."""
    counted = _word_counts(caption for own in captions for caption in own)
    words = np.array(sorted(counted), dtype=str)
    top = counted.most_common(_FREQUENT)
    frequent, weights = np.array([word for word, _ in top]), np.array([n for _, n in top], float)
    weights /= weights.sum()
    letters = np.array(list(string.ascii_lowercase))

    def gibberish() -> str:
        return " ".join(
            "".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(rng.integers(1, 10))
        )

    def sentence(choices: np.ndarray, p: np.ndarray | None = None) -> str:
        return " ".join(rng.choice(choices, rng.integers(4, 16), p=p))

    return dict(
        zip(
            OWN_KINDS,
            (
                lambda: sentence(frequent, weights),
                lambda: sentence(frequent),
                lambda: sentence(words),
                gibberish,
            ),
            strict=True,
        )
    )


def _word_counts(captions: Iterable[bytes]) -> collections.Counter[str]:
    flat = list(captions)
    step = 1 + len(flat) // _MOST_CAPTIONS
    split = tf.strings.split(standardize(tf.constant(flat[::step], tf.string)))
    found = split.flat_values.numpy().tolist()
    return collections.Counter(word.decode("utf-8", "replace") for word in found)
