"""Collects the rows of all tables, or the pictures of all class folders, and checks them."""

import bisect
import sys
from collections.abc import Sequence
from pathlib import Path

from clarel_tf.data.pairs.pictures import and_also, class_pictures, class_texts
from clarel_tf.data.pairs.table import Row, read_rows
from clarel_tf.data.schema import alike
from clarel_tf.errors import ClarelError


class GatheredRows:
    """Collects images and descriptions, file by file; captions of images stay in the files.

    Attributes:
      tables: those with images.
      starts: number of the first image of each table.
      number_of: the number of each image, by its id.
      classes: the class of each image.
      splits: the split of each image, as far as the tables give it.
      descriptions: sentences that describe a class and no image, by class.
      first_place: where each class occurs first.
      pictures: paths of pictures by image id; None if there are none.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self.tables: list[Path] = []
        self.starts: list[int] = []
        self.number_of: dict[str, int] = {}
        self.classes: list[str] = []
        self.splits: list[str | None] = []
        self.descriptions: dict[str, list[str]] = {}
        self.first_place: dict[str, str] = {}
        self.pictures: dict[str, str] | None = None
        self._lines: list[int] = []
        self._has_captions: list[bool] = []

    @property
    def has_images(self) -> bool:
        return bool(self.classes)

    def place(self, number: int) -> str:
        """Where image number i is."""
        if not self.tables:
            return str(self._folder / list((self.pictures or {}).values())[number])
        return f"{self.tables[bisect.bisect(self.starts, number) - 1]}, line {self._lines[number]}"

    def place_of(self, image_id: str) -> str:
        """Where the image of an id is."""
        return self.place(self.number_of[image_id])

    def read_table(self, path: Path, required: Sequence[str]) -> None:
        """Reads all rows of a table.

        Args:
          required: columns that it must have.
        """
        self.tables.append(path)
        self.starts.append(len(self.classes))
        for row in read_rows(path, required):
            self.first_place.setdefault(row.class_name, f"{path}, line {row.line}")
            if not row.image_id:
                self.descriptions.setdefault(row.class_name, []).extend(row.captions)
                continue
            self._lines.append(row.line)
            number = self._add(row.image_id, row.class_name, row.split, bool(row.captions))
            self._add_picture(row, number)

    def read_class_folders(self) -> None:
        """Takes the pictures of the folders `images/<class>`; the tables have no images."""
        self.tables, self.starts, self.pictures = [], [], {}
        for image_id, class_name, path in class_pictures(self._folder):
            self.first_place.setdefault(class_name, str(self._folder / path))
            self._add(image_id, class_name, None, False)
            self.pictures[image_id] = path

    def read_class_texts(self) -> None:
        """Takes the sentences of `captions/<class>.txt` as descriptions."""
        for path, class_name, sentences in class_texts(self._folder):
            self.first_place.setdefault(class_name, str(path))
            self.descriptions.setdefault(class_name, []).extend(sentences)

    def refuse_alike_classes(self) -> None:
        """Raises ClarelError for two classes that look like one: most probably they are."""
        names, places = list(self.first_place), self.first_place
        for first, second in alike(names):
            raise ClarelError(
                f"{places[names[second]]}: class {names[second]!r} differs from "
                f"{names[first]!r} ({places[names[first]]}) only in case or spaces; write it in "
                "one way if it is one class, else rename one"
            )

    def check_captions(self, splits: Sequence[str]) -> None:
        """Raises ClarelError for an image without captions that no other captions can stand for.

        They come from the class's description or from other images of the class in the same split:
        never from test images for training, and never from validation images for `train`.

        Args:
          splits: of each image.
        """
        homes = list(zip(splits, self.classes, strict=True))
        told = {home for home, has in zip(homes, self._has_captions, strict=True) if has}
        untold: dict[str, int] = {}  # by class: its first image without captions
        for number, (split, name) in enumerate(homes):
            # Seen classes have their captions in `train`; here, images are only asked about.
            if split in ("val_seen", "test_seen"):
                continue
            if (split, name) not in told and name not in self.descriptions:
                untold.setdefault(name, number)
        if not untold:
            return
        name, number = next(iter(untold.items()))
        file = "" if self.pictures is None else f", or the file captions/{name}.txt,"
        raise ClarelError(
            f"{self.place(number)}: the image has no caption, and neither has any image of "
            f"class {name!r} in {splits[number]}; add a caption, or a row without 'image_id'{file} "
            "that describes the class"
            + and_also([repr(other) for other in untold][1:], "classes that lack captions too")
        )

    def _add(self, image_id: str, class_name: str, split: str | None, has_captions: bool) -> int:
        number = len(self.classes)
        first = self.number_of.setdefault(image_id, number)
        if first != number:
            raise ClarelError(
                f"{self.place(number)}: image {image_id!r} occurs already ({self.place(first)}); "
                "give each image one row with all its captions"
            )
        # One string for all images of a class: there are many images and few classes.
        self.classes.append(sys.intern(class_name))
        self.splits.append(split)
        self._has_captions.append(has_captions)
        return number

    def _add_picture(self, row: Row, number: int) -> None:
        """Notes the picture of a row; either all images have one, or none."""
        if number == 0 and row.image:
            self.pictures = {}
        if (self.pictures is None) == bool(row.image):
            told = "names a picture" if row.image else "names no picture in 'image'"
            raise ClarelError(
                f"{self.place(number)}: the row {told}, unlike the first one "
                f"({self.place(0)}); name the pictures of all images, or of none"
            )
        if self.pictures is not None:
            self.pictures[row.image_id] = row.image
