"""Batches: no instance twice, a pure function of seed and step, captions drawn as asked."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.caption_tower import CaptionTower
from clarel_tf.models.vocabulary import UNKNOWN_ID, tokenize_captions
from clarel_tf.training.batches import captions_by_instance, training_batches
from tests.conftest import make_split

SPLIT = make_split("train", [3, 5, 3, 5, 9, 9, 3, 5], captions=4)
CLASSES = np.array([3, 5, 9])
TOWER = CaptionTower(["a", "bird", "number", *"012345678"], 6)


def batches(split=SPLIT, **changes):
    arguments = {"batch_size": 4, "captions": 2, "seed": 7, "first_step": 0, "steps": 30}
    dataset = training_batches(split, CLASSES, TOWER, **{**arguments, **changes})
    return list(dataset.as_numpy_iterator())


def instances_of(batch, split=SPLIT) -> list[int]:
    """Which instances a batch holds, found by their features."""
    matches = (batch["image_features"][:, None] == split.image_features[None]).all(axis=2)
    assert (matches.sum(axis=1) == 1).all()
    return matches.argmax(axis=1).tolist()


def test_no_instance_twice_in_a_batch_and_all_are_drawn_evenly():
    counts = np.zeros(len(SPLIT))
    for batch in batches(steps=400):
        instances = instances_of(batch)
        assert len(set(instances)) == 4
        counts[instances] += 1
    # 400 batches of 4 out of 8: 200 each, with a standard deviation of 10.
    assert (abs(counts - 200) < 50).all()


def test_features_captions_and_labels_stay_together():
    by_instance = captions_by_instance(tokenize_captions(SPLIT.captions, TOWER), len(SPLIT), 0)
    for batch in batches():
        for row, instance in enumerate(instances_of(batch)):
            assert CLASSES[batch["label"][row]] == SPLIT.labels[instance]
            own = {tuple(ids) for ids in by_instance[instance]}
            assert {tuple(ids) for ids in batch["token_ids"][row]} <= own


def test_word_dropout_makes_words_unknown_and_changes_nothing_else():
    plain, dropped = batches(steps=200), batches(steps=200, word_dropout=0.25)
    words = unknown = 0
    for before, after in zip(plain, dropped, strict=True):
        np.testing.assert_array_equal(before["image_features"], after["image_features"])
        # Colours are not in the vocabulary: only words that were known can get lost.
        known = before["token_ids"] > UNKNOWN_ID
        changed = before["token_ids"] != after["token_ids"]
        assert not changed[~known].any() and (after["token_ids"][changed] == UNKNOWN_ID).all()
        words, unknown = words + known.sum(), unknown + changed.sum()
    # 200 batches of 4 x 2 captions with 4 known words: 6400, so a deviation of half a percent.
    assert words == 6400
    assert unknown / words == pytest.approx(0.25, abs=0.025)


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])


def test_a_batch_depends_on_seed_and_step_alone():
    whole = batches()
    assert_same(whole, batches())
    assert_same(whole[11:], batches(first_step=11))
    other = batches(seed=8)
    assert any((a["label"] != b["label"]).any() for a, b in zip(whole, other, strict=True))


def test_all_captions_or_as_many_as_there_are():
    assert batches(captions=0)[0]["token_ids"].shape == (4, 4, 6)
    assert batches(captions=3)[0]["token_ids"].shape == (4, 3, 6)
    assert batches(captions=99)[0]["token_ids"].shape == (4, 4, 6)


def test_captions_are_drawn_without_replacement():
    letters = ["0 0", "1 1", "2 2", "3 3"]
    split = dataclasses.replace(SPLIT, captions=[[t.encode() for t in letters]] * 8)
    drawn = [tuple(sorted(row[:, 0])) for batch in batches(split) for row in batch["token_ids"]]
    assert all(len(set(pair)) == 2 for pair in drawn)
    assert len(set(drawn)) == 6  # every pair out of four


def test_instances_with_few_captions_give_all_they_have():
    captions = [[b"0"], [b"1", b"2", b"3", b"4"]] * 4
    split = dataclasses.replace(SPLIT, captions=captions)
    for batch in batches(split, captions=3):
        for row, instance in enumerate(instances_of(batch, split)):
            present = batch["token_ids"][row, :, 0] != 0
            assert present.sum() == (1 if instance % 2 == 0 else 3)


def test_the_graph_is_traced_once():
    dataset = training_batches(
        SPLIT, CLASSES, TOWER, batch_size=4, captions=2, seed=0, first_step=0, steps=5
    )
    assert dataset.element_spec["token_ids"] == tf.TensorSpec([4, 2, 6], tf.int32)


def test_classes_are_drawn_evenly_with_as_many_instances_as_asked():
    counts = np.zeros(len(SPLIT))
    for batch in batches(steps=400, instances_per_class=2):
        instances = instances_of(batch)
        assert len(set(instances)) == 4
        assert sorted(np.bincount(batch["label"], minlength=3)) == [0, 2, 2]
        counts[instances] += 1
    # 400 batches with 2 of 3 classes, 267 each; classes 3 and 5 give 2 of 3 instances (178 each),
    # class 9 gives both. Standard deviations are 10.
    expected = np.where(SPLIT.labels == 9, 267, 178)
    assert (abs(counts - expected) < 50).all()


def test_few_or_small_classes_still_fill_a_batch():
    # Two instances of class 9 are all it has: 3 + 3 + 2 = 8.
    for batch in batches(batch_size=8, instances_per_class=4):
        assert sorted(instances_of(batch)) == list(range(8))
    for batch in batches(batch_size=7, instances_per_class=2):
        # At the first turn each class gives 2; what is missing comes from a second turn.
        assert sorted(np.bincount(batch["label"])) == [2, 2, 3]


def test_class_balanced_batches_depend_on_seed_and_step_alone():
    whole = batches(instances_per_class=2)
    assert_same(whole[11:], batches(first_step=11, instances_per_class=2))
    whole = batches(instances_per_class=2, similar_classes=3.0)
    assert_same(whole[11:], batches(first_step=11, instances_per_class=2, similar_classes=3.0))


def test_impossible_requests_are_named():
    with pytest.raises(ClarelError, match="batch_size is 9, but split 'train' has only 8"):
        batches(batch_size=9)
    split = dataclasses.replace(SPLIT, captions=[[b"0"]] * 4 + [[], [], [b"0"], [b"0"]])
    with pytest.raises(ClarelError, match="'image_0004' has no caption, and neither has its class"):
        batches(split)


def test_an_image_without_captions_is_trained_with_those_of_its_class():
    own = [[b"0"]] * 4 + [[b"6", b"7", b"8"], [], [b"0"], [b"0"]]
    split = dataclasses.replace(SPLIT, captions=own, descriptions={9: [b"9"]})
    borrowed = split.with_borrowed_captions().captions[5]
    assert len(borrowed) == 3 and set(borrowed) < {b"6", b"7", b"8", b"9"}
    given = dataclasses.replace(split, captions=[*own[:5], borrowed, *own[6:]])
    assert_same(batches(split), batches(given))
