"""What a run stores of the classes of a model: everything that the decision rule needs of them."""

from collections.abc import Sequence

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.descriptions import (
    MOST_REFERENCES,
    DescriptionModel,
    ReferenceRivals,
    description_energies,
)
from clarel_tf.decision.embedded_splits import EmbeddedSplit, embed_split
from clarel_tf.decision.prototypes import CaptionScatter
from clarel_tf.decision.rule import rescaled
from clarel_tf.decision.selected import DescriptionSettings, Selected
from clarel_tf.decision.strangers import ImageDensity
from clarel_tf.evaluation.zero_shot import EmbeddedQueries, queries_from
from clarel_tf.models.embedder import Embedder


def class_store(
    queries: EmbeddedQueries,
    training: EmbeddedSplit,
    scatter: CaptionScatter,
    selected: Selected,
    class_names: Sequence[str],
    stored: ClassStore | None = None,
) -> ClassStore:
    """The classes of a model by their names, with all inputs of the rule.

    Args:
      queries: the classes and the rule, without a `DescriptionModel`.
      training: the training split.
      scatter: of the captions of all classes.
      class_names: by label.
      stored: what an earlier evaluation gave; only what it lacks is computed.
    """
    caption_scatter = stored.caption_scatter if stored else scatter.result(queries.prototypes)
    density = stored.density if stored else None
    return ClassStore(
        names=[class_names[label] for label in queries.prototypes.classes],
        prototypes=queries.prototypes,
        is_seen=queries.is_seen,
        caption_scatter=caption_scatter,
        discriminants=queries.rule.discriminants,
        descriptions=description_model(
            queries, training, selected.alpha, caption_scatter, selected.descriptions
        ),
        density=density or ImageDensity.fit(training.images),
    )


def embedded_classes(
    model: Embedder, splits: dict[str, Split], class_names: Sequence[str], selected: Selected
) -> ClassStore:
    """The same for a model that nobody has evaluated: embeds the test splits and `trainval`."""
    scatter = CaptionScatter()
    order = ("test_seen", "test_unseen", "trainval")
    embedded = [embed_split(model, splits[name], [scatter]) for name in order]
    queries = queries_from(*embedded, model=model, settings=selected.rule)
    return class_store(queries, embedded[2], scatter, selected, class_names)


def description_model(
    queries: EmbeddedQueries,
    training: EmbeddedSplit,
    alpha: float,
    scatter: float,
    settings: DescriptionSettings,
    seed: int = 0,
) -> DescriptionModel:
    """The inputs of the rule for classes of a request.

    Args:
      queries: the stored classes and the rule.
      training: the training split; a sample of its images are the references.
      scatter: as `CaptionScatter` gives it.
    """
    chosen = np.random.default_rng(seed).permutation(len(training.labels))[:MOST_REFERENCES]
    references = training.images[np.sort(chosen)]
    own = queries.prototypes.rows(training.labels[np.sort(chosen)])
    blocks = [block for _, block in queries.distance_blocks(references)]
    distances = rescaled(np.concatenate(blocks), queries.is_seen.astype("f4"), np.float32(alpha))
    rivals = ReferenceRivals.none(len(own)).among_more(distances, np.arange(len(distances.T)), own)
    energies = description_energies(queries.prototypes, queries.is_seen, scatter)
    return DescriptionModel(
        queries.prototypes.means()[queries.is_seen].mean(axis=0),
        references,
        ReferenceRivals(*(part.numpy() for part in rivals)),
        max(0.0, settings.typical_ratio * float(energies[queries.is_seen].mean())),
        scatter,
        settings.share,
        own.astype(np.int32),
    )
