"""Measures of single classes and confused pairs: by hand, and against plain loops."""

from collections import Counter

import numpy as np
import pytest

from clarel_tf.decision.prototypes import Prototypes
from clarel_tf.evaluation.class_measures import (
    AnsweredImages,
    class_measures,
    confused_pairs,
    confusions,
)
from clarel_tf.evaluation.example_records import ClassMeasures, Confusion
from clarel_tf.evaluation.measures import Measures
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json
from tests.conftest import make_split

NAMES = ["auk", "bee-eater", "coot", "dunlin", "eider"]


def prototypes() -> Prototypes:
    counts = np.array([30, 20, 10, 40, 2])
    return Prototypes(np.arange(5), np.zeros((5, 2), np.float32), counts)


def answers() -> AnsweredImages:
    """Classes 0 and 1 are seen, 2 and 3 unseen; 4 is known by sentences and has no images."""
    pairs = [
        *[(0, 0), (0, 0), (0, 0), (0, 2)],
        *[(1, 1), (1, 4)],
        *[(2, 2), (2, 3), (2, 3), (2, 0), (2, 3)],
        *[(3, 2), (3, 3)],
    ]
    labels, predicted = np.array(pairs).T
    ids = np.array([f"{NAMES[label]} {number}" for number, label in enumerate(labels)])
    return AnsweredImages(ids, labels, predicted, labels < 2)


def test_each_class_by_hand():
    training = np.array([0, 0, 1, 1, 1])
    assert class_measures(answers(), training, prototypes(), NAMES) == [
        ClassMeasures("auk", True, 2, 30, 4, 75.0, 75.0, "coot", 25.0),
        ClassMeasures("bee-eater", True, 3, 20, 2, 50.0, 100.0, "eider", 50.0),
        ClassMeasures("coot", False, 0, 10, 5, 20.0, pytest.approx(100 / 3), "dunlin", 60.0),
        ClassMeasures("dunlin", False, 0, 40, 2, 50.0, 25.0, "coot", 50.0),
    ]


def test_a_class_that_is_always_right_is_mistaken_for_none():
    right = answers()._replace(predicted=answers().labels)
    for one in class_measures(right, np.array([0, 1]), prototypes(), NAMES):
        assert (one.accuracy, one.precision, one.mistaken_for) == (100.0, 100.0, None)
    never = answers()._replace(predicted=np.zeros(13, int))
    assert [one.precision for one in class_measures(never, np.array([0]), prototypes(), NAMES)] == [
        *(pytest.approx(400 / 13), None, None, None)
    ]


def test_confused_pairs_by_hand():
    training = make_split("trainval", [0, 1, 1], first_id=900)
    found = confused_pairs(answers(), training, np.array([0, 1]), NAMES)
    assert found == [
        # The other way, 50 %, is the same pair.
        Confusion(
            *("coot", "dunlin", 60.0, 50.0, False, False),
            images=["coot 7", "coot 8", "coot 10"],
            predicted_images=["dunlin 12", "dunlin 11"],  # the right answer first
        ),
        Confusion(
            *("coot", "auk", 20.0, 25.0, False, True),
            images=["coot 9"],
            predicted_images=["auk 0", "auk 1", "auk 2"],
        ),
        # No image of that class was tested or trained on.
        Confusion("bee-eater", "eider", 50.0, None, True, False, ["bee-eater 5"], []),
        Confusion(
            "auk", "coot", 25.0, 20.0, True, False, ["auk 3"], ["coot 6", "coot 7", "coot 8"]
        ),
    ]


def test_a_class_without_test_images_is_shown_by_training_images():
    few = AnsweredImages(np.array(["x"]), np.array([2]), np.array([1]), np.array([False]))
    training = make_split("trainval", [0, 1, 1], first_id=900)
    (pair,) = confused_pairs(few, training, np.array([0, 1]), NAMES)
    assert pair.predicted_images == ["image_0901", "image_0902"] and pair.percent_back is None


def test_confusions_are_shares_of_the_true_class():
    labels = np.array([0, 0, 0, 0, 1, 1])
    # Of both ways of a pair the more frequent one counts; of equal ones the lower label's.
    assert confusions(np.array([0, 1, 1, 2, 1, 0]), labels) == [(0, 1, 50.0), (0, 2, 25.0)]
    assert confusions(np.array([0, 0, 0, 1, 0, 0]), labels) == [(1, 0, 100.0)]
    assert confusions(labels, labels) == []


def test_many_classes_equal_plain_loops():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 40, 300)
    predicted = np.where(rng.random(300) < 0.5, labels, rng.integers(0, 40, 300))
    of_all = AnsweredImages(np.arange(300).astype(str), labels, predicted, labels < 20)
    everything = Prototypes(np.arange(40), np.zeros((40, 1), np.float32), np.ones(40, int))
    names = [str(label) for label in range(40)]
    for one in class_measures(of_all, labels, everything, names):
        given = [
            str(p) for p, label in zip(predicted, labels, strict=True) if str(label) == one.name
        ]
        owners = [str(n) for n, p in zip(labels, predicted, strict=True) if str(p) == one.name]
        assert one.images == one.training_images == len(given)
        assert one.accuracy == pytest.approx(100 * given.count(one.name) / len(given))
        assert one.precision == pytest.approx(100 * owners.count(one.name) / len(owners))
        wrong = Counter(name for name in given if name != one.name)
        assert wrong[one.mistaken_for] == max(wrong.values(), default=0)
        assert one.mistaken_percent == pytest.approx(
            100 * max(wrong.values(), default=0) / len(given)
        )


def test_the_classes_of_a_run_average_to_its_scores(finished_run, splits):
    path = finished_run / "evaluation.json"
    measures, results = (
        from_json(Measures, read_json(path), path),
        RunFolder(finished_run).read_results(),
    )
    for is_seen, expected in ((True, results.gzsl.s), (False, results.gzsl.u)):
        rows = [one.accuracy for one in measures.classes if one.is_seen == is_seen]
        assert np.mean(rows) == pytest.approx(expected)
    assert [one.name for one in measures.classes] == [f"kind {label}" for label in range(8)]
    for label, one in enumerate(measures.classes):
        own = [split for split in splits.values() if label in split.labels]
        texts = {
            (image, number)
            for split in own
            if split.name in ("trainval", "test_seen", "test_unseen")
            for row, image in enumerate(split.image_ids)
            if split.labels[row] == label
            for number in range(len(split.captions[row]))
        }
        assert one.sentences == len(texts)
        assert one.training_images == np.count_nonzero(splits["trainval"].labels == label)
