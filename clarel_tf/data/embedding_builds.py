"""Base of the builders that embed photographs; an interrupted build continues."""

import contextlib
import os
from pathlib import Path
from typing import Any

from clarel_tf.data.backbone_choice import read_choice
from clarel_tf.data.builders import MarkedBuild
from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.images.embedding import embed, refuse_broken
from clarel_tf.images.feature_parts import WHAT, FeatureParts, make_folder
from clarel_tf.images.loading import load_backbone
from clarel_tf.images.picture_sources import PictureSource
from clarel_tf.storage import files

NOTE = "backbone.json"  # in the folder of a built dataset
_REMEDY = "Correct or remove them and give the same command again, which continues"


class EmbeddingBuild(MarkedBuild):
    """A builder that makes features of photographs, or is given features with their record.

    The features of a build that was killed stay in `features.parts` beside the dataset's folder,
    and the next build continues with them. A finished dataset has the record of the backbone in
    `backbone.json`.

    Attributes:
      made_by: the record of the features of this build, if it is known.
    """

    made_by: BackboneRecord | None = None
    _parts: FeatureParts | None = None
    _building: contextlib.ExitStack

    def embed(self, source: PictureSource, manual_dir: Path | None = None) -> FeatureParts:
        """The features and small JPEG files of all pictures of a source; ClarelError if one is bad.

        Args:
          manual_dir: may have a `backbone.json`; None is for datasets without raw files.
        """
        if "://" in os.fspath(self.data_path):
            raise ClarelError(
                f"{self.data_path}: datasets of photographs are built on a local disk, where a "
                "build that was stopped can continue; build it there, then copy it"
            )
        backbone = read_choice(manual_dir).load(manual_dir) if manual_dir else load_backbone()
        folder = make_folder(Path(self.data_path).parent / "features")
        self._building.enter_context(files.only_process(folder, WHAT))
        parts = FeatureParts(folder, backbone.record)
        names, problems = embed(source, parts, backbone, _tell, with_jpegs=True)
        refuse_broken(problems, len(names) + len(problems), _REMEDY)
        self._parts, self.made_by = parts, backbone.record
        return parts

    def download_and_prepare(self, **kwargs: Any) -> None:
        """As `MarkedBuild`; deletes the parts of features once the dataset is complete."""
        with contextlib.ExitStack() as self._building:
            super().download_and_prepare(**kwargs)
            if self._parts is not None:
                self._parts.delete()
                self._parts = None

    def _download_and_prepare(self, dl_manager: Any, *args: Any, **kwargs: Any) -> None:
        super()._download_and_prepare(dl_manager, *args, **kwargs)
        if self.made_by is not None:
            (self.data_path / NOTE).write_text(self.made_by.to_json() + "\n")


def record_of(built: Any) -> BackboneRecord | None:
    """The record of the backbone of a built dataset, if it has one.

    Args:
      built: folder of the dataset, a path of TFDS.
    """
    path = built / NOTE
    if not path.exists():
        return None
    return BackboneRecord.from_json(path.read_text(), path)


def _tell(line: str) -> None:
    print(line, flush=True)
