"""Fits, on validation data, how far descriptions of new classes are trusted."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from clarel_tf.decision.descriptions import MOST_SHARE, description_energies
from clarel_tf.decision.embedded_splits import EmbeddedSplit
from clarel_tf.decision.selected import DescriptionSettings
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.empty_descriptions import empty_descriptions
from clarel_tf.evaluation.new_classes import NewClassTrial
from clarel_tf.evaluation.stored_classes import description_model
from clarel_tf.evaluation.trust_records import EmptyDescriptionPoint
from clarel_tf.evaluation.zero_shot import EmbeddedQueries
from clarel_tf.models.embedder import Embedder

_SHARES = (0.01, 0.015, 0.02, 0.03, 0.04, 0.06, MOST_SHARE)
# Percent of validation images that empty descriptions may take: the mean over the kinds, and the
# most of any kind and number of sentences. Half and three quarters of what is promised for the test
# (1 and 2 percent), because test classes and kinds differ from those of the fit.
_MOST_MEAN, _MOST_OF_ONE = 0.5, 1.5


def fit_descriptions(
    model: Embedder,
    queries: EmbeddedQueries,
    training: EmbeddedSplit,
    captions: Sequence[Sequence[bytes]],
    draws: CaptionDraws,
    alpha: float,
    scatter: float,
) -> DescriptionSettings:
    """The settings with the best recall and precision of unseen classes among the safe ones.

    A share is safe if empty descriptions of the run's own words take few validation images with it.
    If none is safe, the smallest share is used.

    Args:
      captions: of the training images.
      draws: few captions of each class, of the validation splits.
      scatter: as `CaptionScatter` gives it.
    """
    energies = description_energies(queries.prototypes, queries.is_seen, scatter)
    of_seen = float(energies[queries.is_seen].mean())
    ratio = float(np.median(energies[~queries.is_seen])) / of_seen if of_seen > 0 else 1.0
    settings = DescriptionSettings(share=_SHARES[0], typical_ratio=max(0.0, ratio))
    described = description_model(queries, training, alpha, scatter, settings)
    rule = queries.rule.with_descriptions(described)
    trial = NewClassTrial(queries._replace(rule=rule), alpha)
    probes = empty_descriptions(captions, foreign=False)
    best, best_share = -1.0, _SHARES[0]
    for share in _SHARES:
        here = trial.with_share(share)
        if not _is_safe(here.empty(model, probes)):
            continue
        value = float(np.mean([point.harmonic_mean for point in here.real(draws)]))
        if value > best:
            best, best_share = value, share
    return dataclasses.replace(settings, share=best_share)


def _is_safe(points: Sequence[EmptyDescriptionPoint]) -> bool:
    return mean_over_kinds(points) <= _MOST_MEAN and max(p.taken for p in points) <= _MOST_OF_ONE


def mean_over_kinds(points: Sequence[EmptyDescriptionPoint]) -> float:
    """Percent of images that empty descriptions take; every kind counts the same."""
    kinds: dict[str, list[float]] = {}
    for point in points:
        kinds.setdefault(point.kind, []).append(point.taken)
    return float(np.mean([np.mean(values) for values in kinds.values()]))
