"""Descriptions that say nothing: of which kinds and words they are."""

import collections

from clarel_tf.evaluation.empty_descriptions import (
    COUNTS,
    FOREIGN,
    OWN_KINDS,
    REPEATED,
    empty_descriptions,
)

CAPTIONS = [[b"A red bird!", b"a red crown"], [b"a blue bird"]] * 5


def test_every_kind_has_as_many_draws_of_each_number_of_sentences():
    made = empty_descriptions(CAPTIONS, draws=3)
    counts = collections.Counter((one.kind, len(one.sentences)) for one in made)
    for kind in (*OWN_KINDS, FOREIGN):
        assert [counts[kind, n] for n in COUNTS] == [3] * len(COUNTS)
    assert counts["empty sentence", 1] == 1
    repeated = [one for one in made if one.kind == REPEATED]
    assert repeated and all(len(set(one.sentences)) == 1 for one in repeated)
    own = {one.kind for one in empty_descriptions(CAPTIONS, foreign=False)}
    assert own == {*OWN_KINDS, "empty sentence"}


def test_own_words_are_those_of_the_captions_and_unknown_ones_are_not():
    known = {"a", "red", "bird", "crown", "blue"}
    for one in empty_descriptions(CAPTIONS, draws=20):
        words = {word for sentence in one.sentences for word in sentence.split()}
        if one.kind in ("frequent words", "evenly drawn frequent words", "random words"):
            assert words <= known
        if one.kind == "unknown words":
            assert words and not words & known


def test_frequent_words_follow_their_frequency():
    made = [one for one in empty_descriptions(CAPTIONS, draws=50) if one.kind == "frequent words"]
    words = collections.Counter(
        word for one in made for sentence in one.sentences for word in sentence.split()
    )
    # "a" makes up 3 of 9 words, "crown" 1 of 9.
    assert 2.5 < words["a"] / words["crown"] < 3.6


def test_the_seed_decides():
    assert empty_descriptions(CAPTIONS, seed=1) == empty_descriptions(CAPTIONS, seed=1)
    assert empty_descriptions(CAPTIONS, seed=1) != empty_descriptions(CAPTIONS, seed=2)
