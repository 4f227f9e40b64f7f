"""Prototypes, protocols and the whole evaluation against slow loops."""

import dataclasses

import keras
import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.evaluation import evaluate
from clarel_tf.experiment import build_model
from clarel_tf.protocol import apply_protocol
from clarel_tf.prototypes import class_prototypes
from clarel_tf.vocabulary import build_vocabulary
from tests.conftest import make_split


def test_prototype_is_the_mean_of_all_captions_of_a_class():
    embeddings = np.array([[1, 0], [3, 0], [0, 5], [9, 9]], np.float32)
    prototypes = class_prototypes(embeddings, np.array([4, 4, 7, 8]), np.array([4, 7]))
    # Class 4: ((1, 0) + (3, 0)) / 2; class 7: (0, 5); class 8 is not wanted.
    np.testing.assert_array_equal(prototypes, [[2, 0], [0, 5]])


def test_a_class_without_captions_is_named():
    with pytest.raises(ValueError, match="class 5"):
        class_prototypes(np.zeros((1, 2), np.float32), np.array([4]), np.array([4, 5]))


def slow_evaluation(model, seen, unseen, support, alpha):
    """Everything by loops over images, classes and captions."""
    captions: dict[int, list[np.ndarray]] = {}
    for split in [seen, unseen, support]:
        for label, sentences in zip(split.labels, split.captions, strict=True):
            embedded = model.embed_texts([s.decode() for s in sentences])
            captions.setdefault(int(label), []).extend(embedded)
    prototypes = {label: np.mean(vectors, axis=0) for label, vectors in captions.items()}
    trained_on = set(support.labels.tolist())

    def accuracy(split, classes):
        right: dict[int, list[bool]] = {}
        for features, label in zip(split.image_features, split.labels, strict=True):
            z = model.embed_images(features[None])[0]
            distances = {
                c: np.linalg.norm(z - prototypes[c]) * (1 + alpha if c in trained_on else 1)
                for c in classes
            }
            right.setdefault(int(label), []).append(min(distances, key=distances.get) == label)
        return 100 * np.mean([np.mean(hits) for hits in right.values()])

    return (
        accuracy(unseen, set(unseen.labels.tolist())),
        accuracy(unseen, prototypes),
        accuracy(seen, prototypes),
    )


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_evaluation_equals_slow_loops(splits, small_config, alpha):
    keras.utils.set_random_seed(2)
    seen, unseen, support = (splits[name] for name in ("test_seen", "test_unseen", "trainval"))
    words = build_vocabulary(c for captions in support.captions for c in captions)
    model = build_model(small_config, words, support, num_classes=6)
    # An untrained model, but with text and image scales that are alike, so that nothing is trivial.
    model.image_tower.head.kernel.assign(model.image_tower.head.kernel * 0.1)
    evaluation = evaluate(model, seen, unseen, [support])
    zsl, u, s = slow_evaluation(model, seen, unseen, support, alpha)
    assert evaluation.zsl() == pytest.approx(zsl)
    assert evaluation.gzsl(alpha)["u"] == pytest.approx(u)
    assert evaluation.gzsl(alpha)["s"] == pytest.approx(s)


def with_overlap(splits):
    """As in public splits: two test_seen images are also in train, and one in val_unseen."""
    test = splits["test_seen"]
    changed = dict(splits)
    for name, which in (("train", [0, 1]), ("val_unseen", [4])):
        ids = splits[name].image_ids.copy()
        ids[: len(which)] = test.image_ids[which]
        changed[name] = dataclasses.replace(splits[name], image_ids=ids)
    return changed


def test_clean_protocol_takes_every_test_image_out_of_validation(splits):
    overlapping = with_overlap(splits)
    clean = apply_protocol(overlapping, "clean")
    for name in ("train", "val_seen", "val_unseen"):
        assert not np.isin(clean[name].image_ids, splits["test_seen"].image_ids).any()
    assert len(clean["train"]) == len(splits["train"]) - 2
    assert len(clean["val_unseen"]) == len(splits["val_unseen"]) - 1
    paper = apply_protocol(overlapping, "paper")
    assert all(len(paper[name]) == len(overlapping[name]) for name in paper)
    assert clean["train"].fingerprints() != paper["train"].fingerprints()


def test_training_on_test_data_is_refused(splits):
    leaky = {**splits, "trainval": splits["test_seen"]}
    with pytest.raises(ClarelError, match="both in trainval and in test_seen"):
        apply_protocol(leaky, "clean")
    leaky = {**splits, "trainval": make_split("trainval", [0, 6], 900)}
    with pytest.raises(ClarelError, match="class 6 is both in trainval and in test_unseen"):
        apply_protocol(leaky, "paper")


def test_fingerprints_do_not_depend_on_the_order(splits):
    split = splits["train"]
    order = np.random.default_rng(0).permutation(len(split))
    shuffled = split.select(order)
    shuffled = dataclasses.replace(
        split,
        image_ids=split.image_ids[order],
        image_features=split.image_features[order],
    )
    assert shuffled.fingerprints() == split.fingerprints()
    changed = split.image_features.copy()
    changed[3, 2] += 1e-6
    assert dataclasses.replace(split, image_features=changed).fingerprints() != split.fingerprints()
