"""Which run a version of an export is of, noted beside its classifier."""

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.storage import files
from clarel_tf.storage.records import from_json

_FILE = Path("assets.extra", "origin.json")  # a folder that loaders ignore
_CLASSIFIER = "prototype_classifier"


@dataclasses.dataclass(frozen=True)
class Origin:
    """The run that a version of an export is of.

    Attributes:
      run_dir: as it was named when the run was exported.
      dataset: with its config.
      model: fingerprint of the model file.
      classes: number of stored classes.
      class_names: hash of their names.
      backbone: the network that made the image features; None if the run does not know.
    """

    run_dir: str
    dataset: str
    model: str
    classes: int = 0
    class_names: str = ""
    backbone: BackboneRecord | None = None

    def with_classes(self, names: Iterable[str]) -> "Origin":
        """The same with the stored classes."""
        ordered = sorted(names)
        digest = hashlib.sha256("\0".join(ordered).encode("utf-8", "surrogatepass")).hexdigest()
        return dataclasses.replace(self, classes=len(ordered), class_names=digest[:16])

    def write(self, folder: Path) -> None:
        """Notes the origin in a folder with the three models, before they are published."""
        files.write_json(folder / _CLASSIFIER / _FILE, dataclasses.asdict(self))

    def __str__(self) -> str:
        return f"the run {self.run_dir} (dataset {self.dataset}, {self.classes} classes)"


def origin_of(export_dir: Path, version: int) -> Origin | None:
    """The origin of a version; None for versions that do not tell."""
    path = export_dir / _CLASSIFIER / str(version) / _FILE
    if not path.is_file():
        return None
    try:
        return from_json(Origin, files.read_json(path), path)
    except ClarelError:  # it is for a message only
        return None


def changed_run(before: Origin | None, old: int, now: Origin, new: int) -> str:
    """What to say if version `new` is of another run than version `old`; empty if it is not.

    The same dataset and classes are what a service expects of a model that was trained again.
    """
    if before is None:
        return f"Version {old} does not tell which run it is of; version {new} is of {now}."
    if before.model == now.model:
        return ""
    same_classes = before.class_names == now.class_names
    if same_classes and before.dataset == now.dataset:
        again = " as it was before" if before.run_dir == now.run_dir else ""
        return (
            f"Version {old} is of the run {before.run_dir}{again}, version {new} of the run "
            f"{now.run_dir}, with the same dataset and classes."
        )
    what = "another dataset" if same_classes else "other classes"
    return (
        f"warning: version {new} has {what} than version {old}: it is of {now}, version {old} is "
        f"of {before}, and a server answers with version {new} from now on. If that is not meant, "
        f"delete the folders {new} of the three models, and export to another --export_dir"
    )
