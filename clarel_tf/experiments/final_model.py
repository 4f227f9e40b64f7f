"""Trains the final model after the test, on every image of every class, for the export.

It has no test of its own, since no image is left. Alpha, temperature, threshold and the trust in
descriptions are carried over to it from validation, as they were to the tested model. Every class
with images is a seen one, so alpha matters only for classes without images and for new classes of
requests.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clarel_tf.data.split import Split
from clarel_tf.decision.class_store import ClassStore
from clarel_tf.decision.embedded_splits import embed_split
from clarel_tf.decision.prototypes import CaptionScatter
from clarel_tf.decision.selected import Selected
from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import FinalModel, Selection
from clarel_tf.evaluation.stored_classes import class_store
from clarel_tf.evaluation.transfer import selected_for
from clarel_tf.evaluation.zero_shot import queries_from
from clarel_tf.experiments.kept_vectors import keep_vectors
from clarel_tf.experiments.phases import Phase
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.experiments.training_phase import MakeTowers, train_phase
from clarel_tf.models.embedder import Embedder
from clarel_tf.reporting.final_report import OfferedClass, write_final_report
from clarel_tf.storage import checksums
from clarel_tf.training.distributed.distribution import Distribution


def train_final(
    folder: RunFolder,
    phase: Phase,
    class_names: Sequence[str],
    distribution: Distribution | None = None,
    make_towers: MakeTowers | None = None,
) -> FinalModel:
    """Trains the final model of a tested run, or continues, and writes the folder `final`."""
    folder.final.mkdir(exist_ok=True)
    model = train_phase(
        phase.config,
        phase.split,
        folder.final,
        phase.title,
        distribution,
        kept_vectors=_kept_vectors(folder, phase),
        make_towers=make_towers,
    )
    selected, classes = _decided(
        model, phase.split, folder.read_selection(), class_names, phase.config.alpha_transfer
    )
    classes.save(folder.final / folder.classes_path.name)
    final = FinalModel(
        **vars(selected),
        seed=phase.config.seed,
        steps=phase.config.training.steps,
        images=len(phase.split),
        classes=len(classes.names),
    )
    write_final_report(
        folder.final,
        final,
        folder.read_results(),
        _offered(classes, phase.split),
        phase.config,
        phase.split,
    )
    # Last of all: a folder with this file is finished.
    checksums.write_json(folder.final_path, dataclasses.asdict(final))
    return final


def _offered(classes: ClassStore, split: Split) -> list[OfferedClass]:
    """The classes for the report, with the first image of each."""
    labels, first, counts = np.unique(split.labels, return_index=True, return_counts=True)
    place = {label: i for i, label in enumerate(labels.tolist())}
    offered = []
    prototypes = classes.prototypes
    for name, label, sentences in zip(
        classes.names, prototypes.classes.tolist(), prototypes.counts.tolist(), strict=True
    ):
        i = place.get(label)
        image_id = None if i is None else str(split.image_ids[first[i]])
        offered.append(OfferedClass(name, 0 if i is None else int(counts[i]), sentences, image_id))
    return offered


def _kept_vectors(folder: RunFolder, phase: Phase) -> Path | None:
    """The word vectors of all captions, those of the test splits included."""
    if not phase.config.word_vectors:
        return None
    path = folder.final / folder.word_vectors_path.name
    if not path.exists() and not Path(phase.config.word_vectors).exists():
        raise ClarelError(
            f"the vector file {phase.config.word_vectors} does not exist, and the final model "
            "needs it for the words of the test captions; give its path with --word_vectors"
        )
    keep_vectors(path, phase.config.word_vectors, [phase.split])
    return path


def _decided(
    model: Embedder,
    split: Split,
    selection: Selection,
    class_names: Sequence[str],
    alpha_transfer: str,
) -> tuple[Selected, ClassStore]:
    """The selected values and the classes of a model that was trained on all images of `split`."""
    scatter = CaptionScatter()
    # Classes that are known by sentences alone are unseen.
    no_image = split.select(np.zeros(len(split), bool))
    unseen = dataclasses.replace(no_image, descriptions=split.descriptions_without_images())
    seen, described, embedded = (
        embed_split(model, part, [scatter])
        for part in (no_image, unseen, split.select(np.ones(len(split), bool)))
    )
    queries = queries_from(seen, described, embedded, model=model, settings=selection.rule)
    selected = selected_for(queries, embedded, selection, alpha_transfer)
    return selected, class_store(queries, embedded, scatter, selected, class_names)
