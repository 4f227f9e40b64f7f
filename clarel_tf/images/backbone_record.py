"""`BackboneRecord`, which network made some features, stored beside them."""

import dataclasses
import json
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.storage import records

RESIZING = "whole picture squeezed to a square, bicubic, antialiased"


@dataclasses.dataclass(frozen=True)
class BackboneRecord:
    """All that features depend on besides the picture; features of two records do not mix.

    Attributes:
      name: of the network.
      weights_sha256: of the file of weights; of all arrays for a model of keras.applications; of
        all files for a SavedModel.
      input_size: height and width of the pixels that the network gets.
      preprocessing: what it does to them.
      mirrored: the features are the mean over the picture and its mirror image.
      feature_width: numbers for each picture.
      resizing: how a picture gets to the input size.
      cropped: the network saw the middle of the picture, seven eighths of its height and width.
    """

    name: str
    weights_sha256: str
    input_size: int
    preprocessing: str
    mirrored: bool
    feature_width: int
    resizing: str = RESIZING
    cropped: bool = False  # records of older versions lack it

    def __str__(self) -> str:
        views = ", cropped" * self.cropped + ", mirrored" * self.mirrored
        return f"{self.name} at {self.input_size} pixels{views}"

    def to_json(self) -> str:
        """The record as one line, for an array of strings in a file of features."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str, where: Any) -> "BackboneRecord":
        """The record that `to_json` wrote.

        Args:
          where: the file, for messages.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ClarelError(f"{where}: the record of the backbone is damaged") from error
        return records.from_json(cls, values, where)

    def check_same(self, other: "BackboneRecord", mine: Any, its: Any) -> None:
        """Raises ClarelError if the features of two records do not mix.

        Args:
          mine, its: where the features of this record and of the other are, for the message.
        """
        mine_values, its_values = dataclasses.asdict(self), dataclasses.asdict(other)
        different = [
            f"{name} {mine_values[name]!r} and {its_values[name]!r}"
            for name in mine_values
            if mine_values[name] != its_values[name]
        ]
        if different:
            raise ClarelError(
                f"the features of {mine} and of {its} come from different backbones: "
                f"{'; '.join(different)}. Make both with the same one"
            )
