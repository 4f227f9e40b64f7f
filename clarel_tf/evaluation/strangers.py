"""Rejection: how well several scores find images whose class is not on offer.

Three kinds of strangers: images whose own class is taken from the offer; images of unseen classes
when only seen classes are on offer; and images of other things, made from the training features:
noise with their means and deviations, features whose values are permuted within an image, and
features that are each of another image.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clarel_tf.decision.probabilities import Temperatures
from clarel_tf.decision.selected import NoneThreshold
from clarel_tf.decision.strangers import ImageDensity, doubts, strangeness
from clarel_tf.evaluation.calibration import answer_probabilities
from clarel_tf.evaluation.ranked import RankedImages, distances_of
from clarel_tf.evaluation.trust_records import StrangerMeasures, StrangerPoint
from clarel_tf.evaluation.zero_shot import EmbeddedQueries
from clarel_tf.models.embedder import Embedder

ACCEPTED = 0.95  # share of images that are accepted with their class on offer
OWN_CLASS_AWAY, SEEN_CLASSES_ONLY = "own class away", "unseen, seen on offer"

_MOST_IMAGES = 10_000
_FAR_IMAGES = 1000
_LEAD = 1.0
# The weights of the length and of the doubt, in deviations of the strangeness without them.
_LENGTHS = (0.0, 0.125, 0.25, 0.375, 0.5)
_DOUBTS = (0.0, 0.125, 0.25)
# The share of validation images whose unlikeliness is usual, and the weight of what is beyond it,
# in deviations: so large that it decides alone.
_USUAL, _UNLIKELINESS = 0.99, 10.0


class Trial(NamedTuple):
    """Images of one kind: those that should be accepted, and strangers."""

    kind: str
    known: RankedImages
    strangers: RankedImages


def far_features(features: np.ndarray, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Features of no image, float32 [count, D] at most, made from those of images, [N, D]."""
    rng = np.random.default_rng(seed)
    some = features[rng.permutation(len(features))[:count]]
    means, deviations = features.mean(axis=0), features.std(axis=0)
    return {
        "noise": rng.normal(means, deviations, some.shape).astype(np.float32),
        "permuted": rng.permuted(some, axis=1),
        "mixed": rng.permuted(features, axis=0)[: len(some)],
    }


def stranger_trials(
    model: Embedder, queries: EmbeddedQueries, alpha: float, training_features: np.ndarray
) -> list[Trial]:
    """The query images with strangers of every kind.

    Args:
      alpha: of the rule.
      training_features: float32 [N, D], of the training split.
    """
    images = with_doubts(RankedImages.of_queries(queries, alpha, _MOST_IMAGES), model)
    away = images.distances.copy()
    away[np.arange(len(away)), images.own] = np.inf
    trials = [Trial(OWN_CLASS_AWAY, images, images._replace(distances=away))]
    of_seen = images.is_seen[images.own]
    seen_only = images._replace(
        distances=images.distances[:, images.is_seen], is_seen=images.is_seen[images.is_seen]
    )
    if of_seen.any() and not of_seen.all():
        known, strangers = (_rows(seen_only, chosen) for chosen in (of_seen, ~of_seen))
        trials.append(Trial(SEEN_CLASSES_ONLY, known, strangers))
    for kind, features in far_features(training_features, _FAR_IMAGES).items():
        embedded = model.embed_images(features)
        distances = distances_of(queries, embedded, alpha)
        nothing = np.full(len(embedded), -1)
        far = with_doubts(RankedImages(embedded, distances, nothing, images.is_seen), model)
        trials.append(Trial(kind, images, far))
    return trials


def fit_none_threshold(
    trials: list[Trial], density: ImageDensity, temperatures: Temperatures
) -> tuple[NoneThreshold, StrangerMeasures]:
    """The served score with its weights, and the threshold that accepts 95 % of the images.

    The weights of length and doubt are those with the highest mean AUROC of the first two kinds.

    Args:
      trials: of validation images, as `stranger_trials` gives them.
      density: of the training images.
    """
    known = trials[0].known
    plain = NoneThreshold(np.inf, 0.0, 0.0, lead=_LEAD)
    spread = float(served_score(plain, density, known).std())
    lengths = _weights(_LENGTHS, spread, np.linalg.norm(known.embeddings, axis=1))
    doubt, unlikely = known.doubt(), density.unlikeliness(known.embeddings).numpy()
    candidates = [
        dataclasses.replace(
            plain,
            length=length,
            unlikeliness=_UNLIKELINESS * spread / max(float(unlikely.std()), 1e-12),
            usual=float(np.quantile(unlikely, _USUAL)),
            doubt=weight,
        )
        for weight in ([0.0] if doubt is None else _weights(_DOUBTS, spread, doubt))
        for length in lengths
    ]
    near = [
        [_looked_at(images) for images in (one.known, one.strangers)]
        for one in trials
        if one.kind in (OWN_CLASS_AWAY, SEEN_CLASSES_ONLY)
    ]

    def quality(none: NoneThreshold) -> float:
        return sum(
            auroc(*(strangeness(none, density, *looked_at).numpy()[:, 0] for looked_at in both))
            for both in near
        )

    best = max(candidates, key=quality)
    scores = served_score(best, density, known)
    limit = float(np.quantile(scores, ACCEPTED, method="higher"))
    best = dataclasses.replace(best, distance=limit)
    measured = stranger_measures(trials, best, density, temperatures)
    rejected = measured.rejected[OWN_CLASS_AWAY]
    return dataclasses.replace(best, accepted=measured.accepted, rejected=rejected), measured


def stranger_measures(
    trials: list[Trial],
    none: NoneThreshold,
    density: ImageDensity | None,
    temperatures: Temperatures,
) -> StrangerMeasures:
    """Every score with every kind of stranger, and what the threshold does; NaN without images."""
    if not len(trials[0].known.own):
        return StrangerMeasures(math.nan, {}, [])
    points = []
    for kind, known, strangers in trials:
        of_both = (all_scores(images, none, density, temperatures) for images in (known, strangers))
        for (name, accept), reject in zip(*(one.items() for one in of_both), strict=False):
            limit = np.quantile(accept, ACCEPTED, method="higher")
            beyond = 100.0 * float(np.mean(reject[1] > limit))
            points.append(StrangerPoint(name, kind, 100.0 * auroc(accept, reject[1]), beyond))
    accepted = served_score(none, density, trials[0].known) <= none.distance
    return StrangerMeasures(
        100.0 * float(accepted.mean()),
        {
            one.kind: 100.0
            * float(np.mean(served_score(none, density, one.strangers) > none.distance))
            for one in trials
        },
        points,
    )


def served_score(
    none: NoneThreshold, density: ImageDensity | None, images: RankedImages
) -> np.ndarray:
    """The strangeness of N images by the rule that is served, float32 [N]."""
    return strangeness(none, density, *_looked_at(images)).numpy()[:, 0]


def all_scores(
    images: RankedImages,
    none: NoneThreshold,
    density: ImageDensity | None,
    temperatures: Temperatures,
) -> dict[str, np.ndarray]:
    """Scores that are high for strangers, [N] each; the last one is served."""
    nearest = images.two_nearest().astype(np.float64)
    first, second = nearest[:, 0], nearest[:, -1]
    given = answer_probabilities(images, temperatures)
    seen, unseen = temperatures
    temperature = np.where(images.nearest_is_seen(), seen, unseen)
    scores = {
        "distance": first,
        "largest probability": -given,
        "energy": first + temperature * np.log(given),
        "lead over the second": first - second,
        "distance less lead": 2.0 * first - second,
    }
    if density is not None:
        scores["unlikeliness"] = density.unlikeliness(images.embeddings).numpy()[:, 0]
    return {**scores, "served": served_score(none, density, images)}


def auroc(known: np.ndarray, strangers: np.ndarray) -> float:
    """The probability that a stranger has the higher score; equal scores count half."""
    values = np.concatenate([known, strangers])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    above = ranks[len(known) :].sum() - len(strangers) * (len(strangers) + 1) / 2.0
    return float(above / (len(known) * len(strangers)))


def _looked_at(images: RankedImages) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    return images.embeddings, images.two_nearest(), images.doubt()


def with_doubts(images: RankedImages, model: Embedder) -> RankedImages:
    """With those of the model's image head, if it was trained on the seen classes."""
    head = model.image_classifier
    if head is None or head.units != np.count_nonzero(images.is_seen):
        return images
    return images._replace(doubts=doubts(head, images.embeddings).numpy())


def _weights(shares: Sequence[float], spread: float, values: np.ndarray) -> list[float]:
    """Weights of a term with these values that make it vary by shares of `spread`."""
    deviation = float(values.std())
    return [share * spread / deviation for share in shares] if deviation > 0 else [0.0]


def _rows(images: RankedImages, chosen: np.ndarray) -> RankedImages:
    return images._replace(
        embeddings=images.embeddings[chosen],
        distances=images.distances[chosen],
        own=images.own[chosen],
        doubts=None if images.doubts is None else images.doubts[chosen],
    )
