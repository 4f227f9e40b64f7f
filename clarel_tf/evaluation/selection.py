"""Selects alpha, temperatures and the rejection threshold on validation data.

`transfer.py` carries them over to the tested model.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.embedded_splits import embed_split, merged
from clarel_tf.decision.prototypes import CaptionScatter, own_class_distance
from clarel_tf.decision.selected import (
    ACCEPT_ALL,
    DescriptionSettings,
    NoneThreshold,
    RuleSettings,
)
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.alpha_choice import choose_alpha
from clarel_tf.evaluation.calibration import calibration_errors, fit_temperatures
from clarel_tf.evaluation.description_fit import fit_descriptions
from clarel_tf.evaluation.gzsl import best_alpha
from clarel_tf.evaluation.new_classes import few_caption_draws
from clarel_tf.evaluation.ranked import RankedImages, distance_scale
from clarel_tf.evaluation.records import GzslScores, Selection, ValidationScores, ZslScores
from clarel_tf.evaluation.strangers import fit_none_threshold, stranger_trials
from clarel_tf.evaluation.zero_shot import embed_queries, queries_from
from clarel_tf.models.embedder import Embedder


def select(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    settings: RuleSettings = RuleSettings(),
) -> Selection:
    """Selects alpha, temperatures and threshold; returns them with their scores.

    Alpha balances seen and unseen classes, so without images of one kind it stays 0. Temperatures
    and threshold come from the images that there are.

    Args:
      seen, unseen, support, settings: as for `embed_queries`; no split may be of the test.
    """
    _refuse_test_splits(seen, unseen, *support)
    if not (len(seen) or len(unseen)):
        return nothing_selected(settings)
    has_both = bool(len(seen) and len(unseen))
    splits = [seen, unseen, *support]
    few = few_caption_draws(splits, model.embedding_size)
    scatter = CaptionScatter()
    embedded = [embed_split(model, split, [few, scatter]) for split in splits]
    queries = queries_from(*embedded, model=model, settings=settings)
    caption_scatter = scatter.result(queries.prototypes)
    training = merged(embedded[2:])
    captions = [split.all_captions() for split in support]
    fit = functools.partial(
        fit_descriptions,
        model,
        training=training,
        captions=captions,
        draws=few,
        scatter=caption_scatter,
    )
    evaluation = queries.evaluate()
    alpha, interval = choose_alpha(*evaluation) if has_both else (0.0, None)
    images = RankedImages.of_queries(queries, alpha)
    temperatures = fit_temperatures(images)
    features = np.concatenate([split.image_features for split in support])
    trials = stranger_trials(model, queries, alpha, features)
    none, strangers = fit_none_threshold(trials, ImageDensity.fit(training.images), temperatures)
    descriptions = fit(queries=queries, alpha=alpha) if has_both else DescriptionSettings()
    by_captions, alpha_by_captions, interval_by_captions = evaluation, alpha, interval
    descriptions_by_captions = descriptions
    if not settings.is_of_the_paper:
        alone = queries.captions_alone()
        by_captions = alone.evaluate()
        if has_both:
            alpha_by_captions, interval_by_captions = choose_alpha(*by_captions)
            descriptions_by_captions = fit(queries=alone, alpha=alpha_by_captions)
    return Selection(
        **vars(settings),
        alpha=alpha,
        alpha_interval=interval,
        alpha_captions_alone=alpha_by_captions,
        alpha_captions_alone_interval=interval_by_captions,
        descriptions=descriptions,
        descriptions_captions_alone=descriptions_by_captions,
        temperature=temperatures[0],
        temperature_unseen=temperatures[1],
        none_of_these=none,
        distance_level=own_class_distance(embedded[2:], queries.prototypes),
        distance_scale=distance_scale(queries, training, alpha),
        strangers=strangers,
        validation=ValidationScores(
            **vars(evaluation.scores(alpha)),
            **vars(calibration_errors(images, temperatures)),
            zsl_captions_alone=ZslScores(by_captions.zsl()),
            gzsl_captions_alone=by_captions.gzsl(alpha_by_captions),
        ),
        alpha_curve=evaluation.alpha_curve() if has_both else [],
    )


def nothing_selected(settings: RuleSettings) -> Selection:
    """The selection without validation images: alpha 0, temperature 1, everything is accepted."""
    unknown, nan = GzslScores(math.nan, math.nan, math.nan), math.nan
    return Selection(
        **vars(settings),
        alpha=0.0,
        alpha_captions_alone=0.0,
        temperature=1.0,
        none_of_these=NoneThreshold(ACCEPT_ALL, nan, nan),
        validation=ValidationScores(
            zsl=ZslScores(nan),
            gzsl=unknown,
            gzsl_alpha0=unknown,
            ausuc=nan,
            calibration_error_before=nan,
            calibration_error_after=nan,
        ),
        alpha_curve=[],
    )


def validation_scores(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    settings: RuleSettings = RuleSettings(),
    captions: int = 2,
) -> dict[str, float]:
    """ZSL, and H at its best alpha, of a model that is still in training.

    Args:
      seen, unseen, support, settings: as for `select`.
      captions: of each image, to be quick; fewer captions make somewhat worse prototypes.
    """
    _refuse_test_splits(seen, unseen, *support)
    seen, unseen, *support = (
        dataclasses.replace(split, captions=[own[:captions] for own in split.captions])
        for split in (seen, unseen, *support)
    )
    evaluation = embed_queries(model, seen, unseen, support, settings).evaluate()
    alpha = best_alpha(evaluation.alpha_curve())
    scores = evaluation.gzsl(alpha)
    h0 = evaluation.gzsl(0.0).h
    return {"zsl": evaluation.zsl(), "h0": h0, "alpha": alpha, **vars(scores)}


def _refuse_test_splits(*splits: Split) -> None:
    for split in splits:
        if split.name.startswith("test"):
            raise ClarelError(
                f"alpha must not be chosen on {split.name!r}: a test split is for testing once"
            )
