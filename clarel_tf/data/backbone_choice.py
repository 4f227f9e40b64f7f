"""`backbone.json` among the raw files of a dataset: the network that embeds its photographs."""

import dataclasses
from pathlib import Path

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbones import Backbone
from clarel_tf.images.loading import DEFAULT, load_backbone
from clarel_tf.storage import files, records

FILE = "backbone.json"


@dataclasses.dataclass(frozen=True)
class BackboneChoice:
    """What `load_backbone` needs; the default without `backbone.json`.

    Attributes:
      backbone: a name, or the path of a `.keras` file or a SavedModel.
      input_size: height and width of the pixels; None is the default of `load_backbone`.
      weights: path of a file of weights for a model of keras.applications.
      mirrored: takes the mean over the features of a picture and of its mirror image.
      cropped: shows the network only the middle of a picture.
    """

    backbone: str = DEFAULT
    input_size: int | None = None
    weights: str | None = None
    mirrored: bool = True
    cropped: bool = False

    def load(self, folder: Path) -> Backbone:
        """The backbone; paths are relative to `folder`."""
        local = folder / self.backbone
        name = str(local) if local.exists() else self.backbone
        weights = None if self.weights is None else folder / self.weights
        return load_backbone(name, self.input_size, weights, self.mirrored, self.cropped)

    def files(self, folder: Path) -> list[Path]:
        """`backbone.json` and the files in `folder` that it names, as far as they are there."""
        names = [FILE, self.backbone, *([self.weights] if self.weights else [])]
        paths = [folder / name for name in names]
        return [path for path in paths if path.exists() and path.is_relative_to(folder)]


def read_choice(folder: Path) -> BackboneChoice:
    """The choice in a folder of raw files."""
    path = folder / FILE
    if not path.exists():
        return BackboneChoice()
    values = files.read_json(path)
    known = [field.name for field in dataclasses.fields(BackboneChoice)]
    for key in values if isinstance(values, dict) else ():
        if key not in known:
            raise ClarelError(f"{path}: unknown key {key!r}; the keys are {', '.join(known)}")
    return records.from_json(BackboneChoice, values, path)
