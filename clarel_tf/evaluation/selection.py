"""What is chosen on validation data: alpha, the temperature and the "none of these" threshold."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.embedded_splits import embed_split
from clarel_tf.decision.probabilities import (
    ValidationDistances,
    fit_none_threshold,
    fit_temperature,
)
from clarel_tf.decision.prototypes import own_class_distance
from clarel_tf.decision.rule import RuleSettings
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.gzsl import area_under, choose_alpha, seen_unseen_curve
from clarel_tf.evaluation.zero_shot import EmbeddedQueries, embed_queries, queries_from
from clarel_tf.models.embedder import Embedder

# More distances than this are not needed to fit one number.
_MOST_DISTANCES = 50_000_000


def calibrate(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    settings: RuleSettings = RuleSettings(),
) -> dict[str, Any]:
    """Chooses everything that is chosen, and says what it was chosen by.

    Args:
      seen, unseen, support, settings: as for `embed_queries`; no split may be of the test.
    """
    _refuse_test_splits(seen, unseen, *support)
    embedded = [embed_split(model, split) for split in (seen, unseen, *support)]
    queries = queries_from(*embedded, model=model, settings=settings)
    evaluation = queries.evaluate()
    curve = evaluation.alpha_curve()
    alpha = choose_alpha(curve)
    distances = rescaled_distances(queries, alpha)
    temperature = fit_temperature(distances)
    by_captions, alpha_by_captions = evaluation, alpha
    if not settings.is_of_the_paper:
        by_captions = queries.captions_alone().evaluate()
        alpha_by_captions = choose_alpha(by_captions.alpha_curve())
    return {
        **settings._asdict(),
        "alpha": alpha,
        "alpha_captions_alone": alpha_by_captions,
        "temperature": temperature,
        "none_of_these": fit_none_threshold(distances)._asdict(),
        "distance_level": own_class_distance(embedded[2:], queries.prototypes),
        "validation": {
            "zsl": {"top1": evaluation.zsl()},
            "gzsl": evaluation.gzsl(alpha),
            "gzsl_alpha0": evaluation.gzsl(0.0),
            "zsl_captions_alone": {"top1": by_captions.zsl()},
            "gzsl_captions_alone": by_captions.gzsl(alpha_by_captions),
            "ausuc": area_under(*seen_unseen_curve(*evaluation)),
            **calibration_errors(distances, temperature),
        },
        "alpha_curve": curve,
    }


def carry_over(chosen: dict[str, Any], level: float, transfer: str) -> dict[str, Any]:
    """What was chosen with one model, for another that was trained like it on more images.

    The losses look at differences of distances. These have the same unit in both models, but their
    level is free, and it rises while training goes on: the mean image and the mean caption drift
    apart, which adds the same to all distances. With "value" everything stays as it was
    chosen, as in the paper. With "offset" that is kept which is a difference: alpha times the
    level, the head start of unseen classes, and the threshold's height above the level.

    Args:
      chosen: as `calibrate` returns it.
      level: `own_class_distance` of the other model's training images.
      transfer: "value" or "offset".
    """
    kept = {key: chosen[key] for key in ("alpha", "temperature", "none_of_these")}
    kept |= RuleSettings.of(chosen)._asdict()
    # Runs from before anything but captions could be asked do not name it.
    kept["alpha_captions_alone"] = chosen.get("alpha_captions_alone", chosen["alpha"])
    if transfer == "value":
        return kept
    before, none = chosen["distance_level"], chosen["none_of_these"]
    for name in ("alpha", "alpha_captions_alone"):
        kept[name] *= before / level
    kept["none_of_these"] = none | {"distance": none["distance"] + level - before}
    return kept


def validation_scores(
    model: Embedder,
    seen: Split,
    unseen: Split,
    support: Sequence[Split],
    settings: RuleSettings = RuleSettings(),
    captions: int = 2,
) -> dict[str, float]:
    """A look at a model that is still in training: ZSL, and H at the alpha that is best now.

    Args:
      seen, unseen, support, settings: as for `calibrate`.
      captions: of each image, to be quick; fewer captions make somewhat worse prototypes.
    """
    _refuse_test_splits(seen, unseen, *support)
    seen, unseen, *support = (
        dataclasses.replace(split, captions=[own[:captions] for own in split.captions])
        for split in (seen, unseen, *support)
    )
    evaluation = embed_queries(model, seen, unseen, support, settings).evaluate()
    alpha = choose_alpha(evaluation.alpha_curve())
    scores = evaluation.gzsl(alpha)
    return {"zsl": evaluation.zsl(), "h0": evaluation.gzsl(0.0)["h"], "alpha": alpha, **scores}


def _refuse_test_splits(*splits: Split) -> None:
    for split in splits:
        if split.name.startswith("test"):
            raise ClarelError(
                f"alpha must not be chosen on {split.name!r}: a test split is for testing once"
            )


def calibration_errors(distances: ValidationDistances, temperature: float) -> dict[str, float]:
    """Expected calibration error in percent, with temperature 1 and with the fitted one."""
    return {
        "calibration_error_before": distances.calibration_error(1.0),
        "calibration_error_after": distances.calibration_error(temperature),
    }


def rescaled_distances(
    queries: EmbeddedQueries, alpha: float, seed: int = 0
) -> ValidationDistances:
    """d_alpha of the query images, or of as many of them, drawn by seed, as are ever needed."""
    images = np.concatenate([queries.seen.images, queries.unseen.images])
    own = queries.prototypes.rows(np.concatenate([queries.seen.labels, queries.unseen.labels]))
    most = max(1, _MOST_DISTANCES // len(queries.prototypes.classes))
    if len(images) > most:
        chosen = np.random.default_rng(seed).permutation(len(images))[:most]
        images, own = images[chosen], own[chosen]
    distances = np.concatenate([block for _, block in queries.distance_blocks(images)])
    return ValidationDistances.rescaled(distances, own, queries.is_seen, alpha)
