"""Every measure of a trained model on the test splits, in one pass over the captions."""

from collections.abc import Sequence

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.embedded_splits import embed_split
from clarel_tf.decision.prototypes import CaptionScatter
from clarel_tf.evaluation.calibration import calibration_errors, reliability
from clarel_tf.evaluation.caption_draws import CaptionDraws
from clarel_tf.evaluation.class_measures import AnsweredImages, class_measures, confused_pairs
from clarel_tf.evaluation.empty_descriptions import Description, empty_descriptions
from clarel_tf.evaluation.examples import SplitExamples, TestedRule
from clarel_tf.evaluation.gzsl import seen_unseen_curve
from clarel_tf.evaluation.measures import (
    AveragePrecision,
    Measures,
    SeenUnseenCurve,
)
from clarel_tf.evaluation.new_classes import NewClassTrial, few_caption_draws
from clarel_tf.evaluation.ranked import RankedImages
from clarel_tf.evaluation.records import ScoresAtAlpha, Selection
from clarel_tf.evaluation.retrieval import (
    RetrievalRecall,
    average_precision_at,
)
from clarel_tf.evaluation.stored_classes import class_store, description_model
from clarel_tf.evaluation.strangers import stranger_measures, stranger_trials
from clarel_tf.evaluation.transfer import selected_for
from clarel_tf.evaluation.trust_records import NewClassMeasures
from clarel_tf.evaluation.zero_shot import EmbeddedQueries, Evaluation, queries_from
from clarel_tf.models.embedder import Embedder

_CURVE_POINTS = 300


def evaluate_fully(
    model: Embedder,
    splits: dict[str, Split],
    selection: Selection,
    class_names: Sequence[str],
    seed: int = 0,
    alpha_transfer: str = "value",
    stored: ClassStore | None = None,
) -> tuple[Measures, ClassStore]:
    """All measures, and what the run stores of the classes.

    Args:
      selection: what `select` gave on validation data.
      alpha_transfer: how that is carried over to this model (`transfer.py`).
      seed: of the caption draws and the examples.
      stored: what an earlier evaluation of this model gave.
    """
    seen, unseen, support = (splits[name] for name in ("test_seen", "test_unseen", "trainval"))
    order = [seen, unseen, support]
    labels = np.unique(np.concatenate([split.classes() for split in order]))
    caption_labels = np.concatenate([split.caption_labels() for split in order])
    width = model.embedding_size
    draws = CaptionDraws(caption_labels, labels, width, seed=seed)
    few = few_caption_draws(order, width, seed)
    scatter = CaptionScatter()
    recalls = {
        split.name: RetrievalRecall(model.embed_images(split.image_features))
        for split in (seen, unseen)
    }
    shown = [
        SplitExamples(model, split, split is seen, class_names, seed) for split in (seen, unseen)
    ]
    embedded = [
        embed_split(model, seen, [draws, few, scatter, recalls[seen.name], shown[0]]),
        embed_split(model, unseen, [draws, few, scatter, recalls[unseen.name], shown[1]]),
        embed_split(model, support, [draws, few, scatter]),
    ]
    queries = queries_from(*embedded, model=model, settings=selection.rule, stored=stored)
    selected = selected_for(queries, embedded[2], selection, alpha_transfer)
    alpha = selected.alpha
    evaluation = queries.evaluate()
    u, s = seen_unseen_curve(*evaluation)
    predicted = [
        images.predict(alpha) for images in (evaluation.seen_images, evaluation.unseen_images)
    ]
    answers = AnsweredImages.of_splits(seen, unseen, *predicted)
    classes = class_store(queries, embedded[2], scatter, selected, class_names, stored)
    assert classes.descriptions is not None and classes.density is not None  # of this version
    queries = queries.with_descriptions(classes.descriptions)
    probes = empty_descriptions([support.all_captions()], seed=seed)
    new_classes = {"all": _new_classes(queries, alpha, few, model, probes)}
    rows = {
        "all": _scores(evaluation, alpha),
        "leave_own_out": _scores(queries.evaluate(leave_own_out=True), alpha),
    }
    if not queries.rule.is_of_the_paper and selected.alpha_captions_alone is not None:
        alone, alpha_alone = queries.captions_alone(), selected.alpha_captions_alone
        rows["captions_alone"] = _scores(alone.evaluate(), alpha_alone)
        described = description_model(
            alone,
            embedded[2],
            alpha_alone,
            classes.caption_scatter,
            selected.descriptions_captions_alone,
        )
        alone = alone.with_descriptions(described)
        new_classes["captions_alone"] = _new_classes(alone, alpha_alone, few, model, probes)
    images = RankedImages.of_queries(queries, alpha)
    temperatures, none = selected.temperatures, selected.none_of_these
    trials = stranger_trials(model, queries, alpha, support.image_features)
    tested = TestedRule(model, queries, selected, classes.density, answers, support)
    measures = Measures(
        selected=selected,
        prototypes=rows,
        ap_at_50=_precision(queries),
        retrieval={name: found for name, one in recalls.items() if (found := one.result())},
        calibration=calibration_errors(images, temperatures),
        reliability=reliability(images, temperatures),
        strangers=stranger_measures(trials, none, classes.density, temperatures),
        captions_curve=draws.curve(queries, alpha),
        new_classes=new_classes,
        seen_unseen_curve=_thinned(u, s),
        confusions=confused_pairs(
            answers, support, queries.prototypes.classes[queries.is_seen], class_names
        ),
        examples=[
            example
            for kind in (1, 0)  # those of unseen classes first
            for example in shown[kind].images(tested, embedded[kind])
        ],
        classes=class_measures(answers, support.labels, queries.prototypes, class_names),
        caption_examples=[
            example for kind in (1, 0) for example in shown[kind].captions(model, embedded[kind])
        ],
    )
    return measures, classes


def _new_classes(
    queries: EmbeddedQueries,
    alpha: float,
    draws: CaptionDraws,
    model: Embedder,
    probes: Sequence[Description],
) -> NewClassMeasures:
    trial = NewClassTrial(queries, alpha)
    return NewClassMeasures(trial.real(draws), trial.empty(model, probes))


def _scores(evaluation: Evaluation, alpha: float) -> ScoresAtAlpha:
    return ScoresAtAlpha(alpha=alpha, **vars(evaluation.scores(alpha)))


def _precision(queries: EmbeddedQueries) -> AveragePrecision:
    images = np.concatenate([queries.seen.images, queries.unseen.images])
    labels = np.concatenate([queries.seen.labels, queries.unseen.labels])
    # A class that is known by sentences alone has no images to find.
    without_images = np.setdiff1d(queries.unseen.classes(), queries.unseen.labels)
    asked = ~np.isin(queries.prototypes.classes, without_images)
    means, classes = queries.prototypes.means()[asked], queries.prototypes.classes[asked]
    unseen = ~queries.is_seen[asked]
    return AveragePrecision(
        unseen=average_precision_at(
            queries.unseen.images, queries.unseen.labels, means[unseen], classes[unseen]
        ),
        all=average_precision_at(images, labels, means, classes),
    )


def _thinned(u: np.ndarray, s: np.ndarray) -> SeenUnseenCurve:
    """The curve with as many points as a plot can show; both ends are kept."""
    if not len(u):
        return SeenUnseenCurve([], [])
    index = np.unique(np.linspace(0, len(u) - 1, _CURVE_POINTS).round().astype(int))
    return SeenUnseenCurve(u[index].tolist(), s[index].tolist())
