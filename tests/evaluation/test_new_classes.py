"""New classes of few sentences: their distances, and what the evaluation says of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.prototypes import CaptionScatter, make_prototypes
from clarel_tf.decision.selected import DescriptionSettings
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.empty_descriptions import Description
from clarel_tf.evaluation.new_classes import NewClassTrial
from clarel_tf.evaluation.stored_classes import description_model
from clarel_tf.evaluation.zero_shot import queries_from
from clarel_tf.models.distances import distances_to_true_means


def test_corrected_distances_by_hand():
    # Squares 25 and 36; a scatter of 18 makes 2 sentences miss by 9, and 1 sentence by 18.
    distances = np.array([[5.0, 6.0]], np.float32)
    expected = [[4.0, np.sqrt(18.0)]]
    excess = np.array([18.0 / 2, 18.0 / 1], np.float32)
    np.testing.assert_allclose(distances_to_true_means(distances, excess), expected, 1e-6)
    # Never below the smallest distance that there is.
    too_much = np.array([100, 100], np.float32)
    assert 0 < distances_to_true_means(distances, too_much).numpy().max() < 1e-5


def test_the_correction_is_right_on_average():
    rng = np.random.default_rng(0)
    true_mean, query = rng.normal(size=64), rng.normal(size=64)
    for n in (1, 2, 10):
        means = (true_mean + rng.normal(size=(4000, n, 64))).mean(axis=1)
        squares = np.square(means - query).sum(axis=1)
        corrected = distances_to_true_means(np.sqrt(squares)[np.newaxis], np.array(64 / n))
        # The scatter of 64 standard normals is 64; the mean of 4000 draws is right within 1 %.
        assert np.square(corrected).mean() == pytest.approx(
            np.square(true_mean - query).sum(), rel=0.01
        )


def test_scatter_by_hand():
    # Class 0 at 0 and 2, class 1 at 5, 5 and 8: squares about their means of 1 and 6 are 2 and 6,
    # over 5 - 2 degrees of freedom.
    captions = np.array([[0.0], [2.0], [5.0], [5.0], [8.0]], np.float32)
    scatter = CaptionScatter()
    scatter.add(captions[:3], np.arange(3))
    scatter.add(captions[3:], np.arange(2))
    labels = np.array([0, 1])
    split = EmbeddedSplit(labels, np.zeros((2, 1)), np.array([[2.0], [18.0]]), np.array([2, 3]))
    assert scatter.result(make_prototypes([split])) == pytest.approx(8 / 3)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.5]))
def test_equals_a_loop_that_takes_classes_out_one_by_one(seed, scatter):
    rng = np.random.default_rng(seed)
    width, alpha = 3, 0.2
    labels = {
        "seen": np.arange(8) % 2,
        "unseen": np.arange(9) % 3 + 2,
        "train": np.arange(6) % 2,
    }
    centres = rng.normal(size=(5, width)) * 2
    captions = {
        name: (centres[own][:, np.newaxis] + rng.normal(size=(len(own), 2, width))).astype("f4")
        for name, own in labels.items()
    }
    images = {
        name: (centres[own] + rng.normal(size=(len(own), width))).astype("f4")
        for name, own in labels.items()
    }
    embedded = [
        EmbeddedSplit(own, images[name], captions[name].sum(axis=1), np.full(len(own), 2))
        for name, own in labels.items()
    ]
    queries = queries_from(*embedded)
    of_captions = np.repeat(np.concatenate(list(labels.values())), 2)
    draws = CaptionDraws(of_captions, np.arange(5), width, draws=1, seed=seed, counts=(1, 3, 99))
    for name in labels:
        flat = captions[name].reshape(-1, width)
        draws.add(flat, np.arange(len(flat)))
    settings = DescriptionSettings(share=0.3, typical_ratio=0.5)
    described = description_model(queries, embedded[2], alpha, scatter, settings)
    rule = queries.rule.with_descriptions(described)
    trial = NewClassTrial(queries._replace(rule=rule), alpha)

    stored = queries.prototypes.means()
    center = (stored[0] + stored[1]) / 2
    counts = queries.prototypes.counts
    typical = 0.5 * np.mean(
        [((stored[c] - center) ** 2).sum() - scatter / counts[c] for c in (0, 1)]
    )
    typical = max(0.0, typical)

    def rivals(image, new, own=None):
        return min(
            np.linalg.norm(image - stored[c]) * (1 + alpha if c < 2 else 1)
            for c in range(5)
            if c not in (new, own)
        )

    for index, point in enumerate(trial.real(draws)):
        shares, hits, taken = [], 0, 0
        for new in (2, 3, 4):
            mean, used = draws.prototypes(0, index)[new], draws.used(index)[new]
            v = min(1.0, ((mean - center) ** 2).sum() / max(typical + scatter / used, 1e-12))

            def distance(image, mean=mean, v=v, used=used):
                square = np.sum((image - mean) ** 2) - v * scatter / used
                return np.sqrt(max(square, 1e-12))

            gains = sorted(
                (
                    rivals(image, new, own) - distance(image)
                    for image, own in zip(images["train"], labels["train"], strict=True)
                ),
                reverse=True,
            )
            place = max(v * v * 0.3 * 6 - 0.5, 0.0)
            low = int(place)
            offset = max(0.0, gains[low] + (place - low) * (gains[low + 1] - gains[low]))
            own_hits = own_images = 0
            for name in ("seen", "unseen"):
                for image, label in zip(images[name], labels[name], strict=True):
                    margin = rivals(image, new) - distance(image) - offset
                    if abs(margin) < 1e-4:
                        return  # too close to call in single precision
                    takes = margin > 0
                    own_hits += takes and label == new
                    own_images += label == new
                    taken += takes
            shares.append(own_hits / own_images)
            hits += own_hits
        assert point.recall == pytest.approx(100 * np.mean(shares))
        assert point.precision == pytest.approx(100 * hits / max(1, taken))
        both = point.recall + point.precision
        expected = 2 * point.recall * point.precision / both if both else 0.0
        assert point.harmonic_mean == pytest.approx(expected)


class Texts:
    """A stand-in for a text tower: each sentence is the point that it names."""

    def embed_texts(self, texts):
        return np.array([[float(x) for x in text.split()] for text in texts], np.float32)


def test_shares_that_empty_descriptions_take_by_hand():
    # Two stored classes on a line at 0 (seen) and 10, images at 0, 4, 6 and 10; without offsets a
    # class at 5 takes the images at 4 and 6, one at 100 none.
    def split(labels, places):
        points = np.array([[place, 0.0] for place in places], np.float32)
        return EmbeddedSplit(np.array(labels), points, points, np.ones(len(labels), int))

    queries = queries_from(split([0, 0], [0.0, 4.0]), split([1, 1], [6.0, 10.0]))
    queries = queries._replace(
        prototypes=queries.prototypes._replace(sums=np.array([[0.0, 0.0], [20.0, 0.0]]))
    )
    descriptions = [
        Description("middle", ("5 0",)),
        Description("middle", ("4 0", "6 0")),
        Description("far", ("100 0",)),
    ]
    found = NewClassTrial(queries, alpha=0.0).empty(Texts(), descriptions)
    shares = {(point.kind, point.sentences): point.taken for point in found}
    assert shares == {("middle", 1): 50.0, ("middle", 2): 50.0, ("far", 1): 0.0}
