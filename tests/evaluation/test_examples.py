"""The examples of an evaluation against plain sorting, and against what the export answers."""

import numpy as np
import pytest

from clarel_tf.evaluation.measures import Measures
from clarel_tf.models.saving import load_model
from clarel_tf.serving.client import ServingClient
from clarel_tf.serving.local import LocalTransport
from clarel_tf.storage.files import read_json
from clarel_tf.storage.records import from_json
from tests.conftest import NAMES


@pytest.fixture(scope="module")
def measures(finished_run) -> Measures:
    path = finished_run / "evaluation.json"
    return from_json(Measures, read_json(path), path)


@pytest.fixture(scope="module")
def model(finished_run):
    return load_model(finished_run / "model.keras")


def test_examples_are_of_both_kinds_right_ones_first(measures, splits):
    for name, is_seen, most in (("test_unseen", False, 4), ("test_seen", True, 2)):
        examples = [one for one in measures.examples if one.is_seen == is_seen]
        assert {one.image_id for one in examples} <= set(splits[name].image_ids)
        right = [one.right for one in examples]
        assert right == sorted(right, reverse=True) and len(
            set(one.image_id for one in examples)
        ) == len(right)
        # As many as there are, but not more: both splits have fewer images than candidates.
        hits = sum(
            round(c.accuracy * c.images / 100) for c in measures.classes if c.is_seen == is_seen
        )
        assert right.count(True) == min(most, hits)
        assert right.count(False) == min(most, len(splits[name]) - hits)
        for one in examples:
            row = splits[name].image_ids.tolist().index(one.image_id)
            assert one.class_name == NAMES[splits[name].labels[row]]
            assert one.right == (one.predicted == one.class_name)


def test_answers_are_those_of_the_export(measures, splits, exported_run):
    client = ServingClient(LocalTransport(exported_run))
    for one in measures.examples:
        split = splits["test_seen" if one.is_seen else "test_unseen"]
        row = split.image_ids.tolist().index(one.image_id)
        answer = client.classify(split.image_features[row : row + 1])
        assert [a.class_name for a in one.answers] == [
            str(name) for name in answer["class_name"][0]
        ]
        assert one.predicted == one.answers[0].class_name
        served = 100.0 * np.asarray(answer["probability"][0], float)
        np.testing.assert_allclose([a.probability for a in one.answers], served, atol=0.01)
        assert one.accepted == bool(answer["accepted"][0])


def test_a_wrong_answer_comes_with_an_image_of_the_class_that_it_names(measures, splits):
    label_of = {
        image: NAMES[label]
        for split in splits.values()
        for image, label in zip(split.image_ids.tolist(), split.labels, strict=True)
    }
    wrong = [one for one in measures.examples if not one.right]
    assert wrong
    for one in measures.examples:
        expected = None if one.right else one.predicted
        assert label_of.get(one.predicted_image) == expected


def test_captions_are_the_nearest_of_the_split(measures, splits, model):
    for one in measures.examples:
        split = splits["test_seen" if one.is_seen else "test_unseen"]
        row = split.image_ids.tolist().index(one.image_id)
        image = model.embed_images(split.image_features[row : row + 1])[0]
        rows = [
            (np.linalg.norm(image - model.embed_texts([text])[0]), text.decode(), NAMES[label])
            for own, label in zip(split.captions, split.labels, strict=True)
            for text in own
        ]
        nearest = sorted({row[1]: row for row in sorted(rows, reverse=True)}.values())[:3]
        found = [np.linalg.norm(image - model.embed_texts([c.text])[0]) for c in one.captions]
        # Captions of the same words are equally near, and are there once.
        assert len(one.captions) == len({caption.text for caption in one.captions}) == 3
        np.testing.assert_allclose(found, [distance for distance, _, _ in nearest], atol=1e-5)
        for caption in one.captions:
            assert (caption.text, caption.class_name) in [row[1:] for row in rows]
            if caption.own:
                assert caption.text.encode() in split.captions[row]


def test_images_are_the_nearest_of_a_caption(measures, splits, model):
    kinds = [one.is_seen for one in measures.caption_examples]
    assert kinds == [False] * 4 + [True] * 2
    for one in measures.caption_examples:
        split = splits["test_seen" if one.is_seen else "test_unseen"]
        caption = model.embed_texts([one.text])[0]
        distances = np.linalg.norm(model.embed_images(split.image_features) - caption, axis=1)
        order = [str(split.image_ids[row]) for row in np.argsort(distances)]
        assert [image.image_id for image in one.images] == order[:5] and one.among == len(split)
        own = order[one.rank - 1]
        row = split.image_ids.tolist().index(own)
        assert (
            one.text.encode() in split.captions[row] and NAMES[split.labels[row]] == one.class_name
        )
        assert [image.image_id for image in one.images if image.own] == (
            [own] if one.rank <= 5 else []
        )
