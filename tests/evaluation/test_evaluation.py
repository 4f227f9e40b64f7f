"""Prototypes, protocols and the whole evaluation against slow loops."""

import dataclasses

import keras
import numpy as np
import pytest

from clarel_tf.data.protocols import apply_protocol
from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.prototypes import make_prototypes, means_without_own_captions
from clarel_tf.decision.selected import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.zero_shot import embed_queries
from clarel_tf.experiments.training_phase import build_model
from clarel_tf.models.vocabulary import build_vocabulary
from tests.conftest import make_split
from tests.helpers.independent_check import discriminants_of


def embedded(labels, sums, counts, images=None) -> EmbeddedSplit:
    sums = np.array(sums, np.float32)
    images = np.zeros_like(sums) if images is None else np.array(images, np.float32)
    return EmbeddedSplit(np.array(labels), images, sums, np.array(counts))


def test_prototype_is_the_mean_of_all_captions_of_a_class():
    # Class 4 has captions (1, 0) and (3, 0) of one image, and (2, 9) of another, in another split.
    first = embedded([4, 7], [[4, 0], [0, 5]], [2, 1])
    second = embedded([4], [[2, 9]], [1])
    prototypes = make_prototypes([first, second])
    assert prototypes.classes.tolist() == [4, 7]
    np.testing.assert_allclose(prototypes.means(), [[2, 3], [0, 5]])


def test_a_class_without_captions_is_named():
    with pytest.raises(ValueError, match="class 5"):
        make_prototypes([embedded([4, 5], [[1, 1], [0, 0]], [1, 0])])


def test_own_captions_are_taken_out_exactly():
    rng = np.random.default_rng(0)
    captions = [rng.normal(size=(count, 3)).astype(np.float32) for count in (1, 4, 2, 3)]
    labels = [0, 0, 0, 1]  # class 1 has one image: nothing is left without its captions
    images = rng.normal(size=(4, 3))
    split = embedded(labels, [c.sum(axis=0) for c in captions], [1, 4, 2, 3], images)
    [(part, means, has_others)] = means_without_own_captions(split, make_prototypes([split]))
    assert part == slice(0, 4096)
    for i in range(3):
        others = np.concatenate([captions[j] for j in range(3) if j != i])
        np.testing.assert_allclose(means[i], others.mean(axis=0), atol=1e-6)
    assert has_others.tolist() == [True, True, True, False]


def test_a_head_or_discriminants_of_other_classes_are_refused(splits, small_config):
    support = splits["trainval"]
    words = build_vocabulary(c for captions in support.captions for c in captions)
    model = build_model(small_config, words, support, num_classes=5)
    with pytest.raises(ClarelError, match="has 5 classes, but 6 of"):
        embed_queries(
            model,
            splits["test_seen"],
            splits["test_unseen"],
            [support],
            RuleSettings(head_evidence=0.5),
        )
    with pytest.raises(ClarelError, match="images of every seen class"):
        embed_queries(
            model,
            splits["test_seen"],
            splits["test_unseen"],
            [splits["train"]],
            RuleSettings(discriminant_evidence=0.5),
        )


def slow_evaluation(model, seen, unseen, support, alpha, leave_own_out, settings):
    """Everything by loops over images, classes and captions."""
    captions: dict[int, list[tuple[str, np.ndarray]]] = {}
    for split in [seen, unseen, support]:
        for image_id, label, own in zip(split.image_ids, split.labels, split.captions, strict=True):
            for vector in model.embed_texts([sentence.decode() for sentence in own]):
                captions.setdefault(int(label), []).append((image_id, vector))

    def prototype(label, without):
        return np.mean(
            [vector for image_id, vector in captions[label] if image_id != without], axis=0
        )

    trained_on = sorted(set(support.labels.tolist()))
    score_of = discriminants_of(
        model.embed_images(support.image_features),
        support.labels,
        {label: prototype(label, None) for label in trained_on},
        settings.discriminant_evidence,
    )

    def accuracy(split, classes):
        right: dict[int, list[bool]] = {}
        for image_id, features, label in zip(
            split.image_ids, split.image_features, split.labels, strict=True
        ):
            z = model.embed_images(features[None])[0]
            without = image_id if leave_own_out else None
            places = {c: prototype(c, without) for c in classes}
            distances = {c: np.linalg.norm(z - p) - score_of(p)(z) for c, p in places.items()}
            odds = np.exp(model.image_classifier(z[None]).numpy()[0].astype(float))
            for c in set(classes) & set(trained_on):
                likelihood = odds[trained_on.index(c)] / odds.sum()
                doubt = -settings.head_evidence * np.log(likelihood)
                distances[c] = (1 + alpha) * (distances[c] + doubt)
            right.setdefault(int(label), []).append(min(distances, key=distances.get) == label)
        return 100 * np.mean([np.mean(hits) for hits in right.values()])

    return (
        accuracy(unseen, set(unseen.labels.tolist())),
        accuracy(unseen, captions),
        accuracy(seen, captions),
    )


@pytest.mark.parametrize(
    ("alpha", "leave_own_out", "settings"),
    [
        (0.0, False, RuleSettings()),
        (0.05, False, RuleSettings()),
        (0.05, True, RuleSettings()),
        (0.05, True, RuleSettings(head_evidence=0.7)),
        (0.05, False, RuleSettings(discriminant_evidence=0.8)),
        (0.05, True, RuleSettings(head_evidence=0.3, discriminant_evidence=0.8)),
    ],
)
def test_evaluation_equals_slow_loops(splits, small_config, alpha, leave_own_out, settings):
    keras.utils.set_random_seed(2)
    seen, unseen, support = (splits[name] for name in ("test_seen", "test_unseen", "trainval"))
    words = build_vocabulary(c for captions in support.captions for c in captions)
    model = build_model(small_config, words, support, num_classes=6)
    # An untrained model, but with text and image scales that are alike, so that nothing is trivial.
    model.image_tower.head.kernel.assign(model.image_tower.head.kernel * 0.1)
    queries = embed_queries(model, seen, unseen, [support], settings)
    evaluation = queries.evaluate(leave_own_out)
    zsl, u, s = slow_evaluation(model, seen, unseen, support, alpha, leave_own_out, settings)
    assert evaluation.zsl() == pytest.approx(zsl)
    assert evaluation.gzsl(alpha).u == pytest.approx(u)
    assert evaluation.gzsl(alpha).s == pytest.approx(s)


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
    shuffled = dataclasses.replace(
        split,
        image_ids=split.image_ids[order],
        image_features=split.image_features[order],
        labels=split.labels[order],
        captions=[split.captions[i] for i in order],
    )
    assert shuffled.fingerprints() == split.fingerprints()
    relabelled = dataclasses.replace(split, labels=split.labels[::-1])
    assert relabelled.fingerprints()["images"] != split.fingerprints()["images"]
    reworded = dataclasses.replace(split, captions=split.captions[1:] + split.captions[:1])
    assert reworded.fingerprints()["captions"] != split.fingerprints()["captions"]
    changed = split.image_features.copy()
    changed[3, 2] += 1e-6
    assert dataclasses.replace(split, image_features=changed).fingerprints() != split.fingerprints()
