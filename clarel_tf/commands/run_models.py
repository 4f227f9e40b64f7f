"""The model of a finished run that answers requests, with its classes and its backbone."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clarel_tf.errors import ClarelError
from clarel_tf.evaluation.records import FinalModel, Results
from clarel_tf.experiments.run_folder import RunFolder

if TYPE_CHECKING:  # modules that import TensorFlow
    from clarel_tf.decision.class_store import ClassStore
    from clarel_tf.images.backbones import Backbone


class RunModel(NamedTuple):
    """Files of a run that belong together.

    Attributes:
      path: of the model.
      results: of the tested model.
      final: the record of the model of all images, if `path` is that model.
      classes: stored with the model; None if an older version wrote the run.
    """

    path: Path
    results: Results
    final: FinalModel | None
    classes: "ClassStore | None"


def run_model(folder: RunFolder) -> RunModel:
    """The final model of a finished run, or else the tested one."""
    final = None
    if folder.final_path.exists():
        final = folder.read_final()
    elif folder.final.exists():
        print(
            f"{folder.final} is not finished, so the tested model is taken; the training "
            "command with --final=all finishes it",
            file=sys.stderr,
        )
    where = folder.final if final else folder.path
    classes = _stored_classes(where / folder.classes_path.name)
    if final and classes is None:
        raise ClarelError(
            f"{folder.final} has no classes.npz; delete {folder.final_path}, and the training "
            "command with --final=all makes both again"
        )
    return RunModel(where / "model.keras", folder.read_results(), final, classes)


def find_backbone(
    folder: RunFolder, name: str | None, weights: str | None
) -> tuple["Backbone | None", str]:
    """The network that made the features of a run, or None and the reason.

    A network that the user names must be that one.

    Args:
      name: `--backbone`, for a run whose network is a file.
      weights: `--weights`, for a model of keras.applications with weights of a file.
    """
    record, given = folder.data.backbone, name or weights
    if record is None:
        why = f"the run in {folder.path} does not record which network made its features"
        if given:
            raise ClarelError(
                f"--{'backbone' if name else 'weights'}={given}: {why}, so nobody can tell whether "
                "it was this one; build the dataset from photographs, or from a file of "
                "clarel-extract, and train again"
            )
        return None, why
    from clarel_tf.images.keras_applications import model_names
    from clarel_tf.images.loading import DEFAULT, load_backbone

    if not name and record.name not in (DEFAULT, *model_names()):
        return None, f"the features of the run are of {record}; give its path with --backbone"
    try:
        views = record.mirrored, record.cropped
        loaded = load_backbone(name or record.name, record.input_size, weights, *views)
        where = f"--backbone={loaded.record.name}" if given else loaded.record.name
        record.check_same(loaded.record, f"the run in {folder.path}", where)
    except ClarelError as error:
        if given:
            raise
        return None, str(error)
    return loaded, ""


def _stored_classes(path: Path) -> "ClassStore | None":
    from clarel_tf.decision.class_store import ClassStore

    if not path.exists():
        return None
    classes = ClassStore.load(path)
    return classes if classes.descriptions is not None else None  # of an older version
