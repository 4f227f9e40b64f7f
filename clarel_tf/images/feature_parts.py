"""`FeatureParts`, the features of an unfinished extraction, in a folder beside its output."""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.images.feature_files import read_features, read_record, write_features
from clarel_tf.storage import files, ownership

_OWN = re.compile(r"part_\d{6}\.npz|stamps_\d{6}\.json")
WHAT = "the folder of unfinished features"


class Place(NamedTuple):
    """Where the features of a picture are."""

    part: int
    row: int


class FeatureParts:
    """Parts of features, each written once; what is written stays until `delete`.

    A part has the size and the time of each picture, so that the features of a picture that has
    changed are not used.

    Attributes:
      folder: `NAME.npz.parts` beside `NAME.npz`.
    """

    def __init__(self, folder: Path, record: BackboneRecord):
        """Reads which pictures are done; the caller holds the lock on the folder."""
        self.folder, self._record = folder, record
        files.remove_partial_files(self.folder)
        self._places: dict[str, tuple[Place, list[int]]] = {}
        numbers = [int(path.stem[5:]) for path in self.folder.glob("part_*.npz")]
        self._next = max(numbers, default=-1) + 1
        for number in sorted(numbers):
            self._check_record(self._path(number))
            names, _, _ = read_features(self._path(number))
            self._note(number, names, files.read_json(self._stamps_path(number)))
        # Resumed runs can have parts in another order than the pictures.
        self._read = functools.lru_cache(maxsize=8)(self._features_of)

    def _check_record(self, path: Path) -> None:
        try:
            read_record(path).check_same(self._record, path, "this command")
        except ClarelError as error:
            raise ClarelError(f"{error}, or delete {self.folder} to begin anew") from error

    def missing(self, images: Path, names: Sequence[str]) -> list[str]:
        """Those of the pictures that have no features yet, or have changed since."""
        return [
            name
            for name in names
            if name not in self._places or self._places[name][1] != _stamp(images / name)
        ]

    def add(self, images: Path, names: Sequence[str], features: np.ndarray) -> None:
        """Writes one part."""
        number, self._next = self._next, self._next + 1
        stamps = [_stamp(images / name) for name in names]
        # The stamps first: a part without them is not read.
        files.write_json(self._stamps_path(number), stamps)
        write_features(self._path(number), names, [features], self._record)
        self._note(number, names, stamps)

    def rows(self, names: Sequence[str]) -> Iterator[np.ndarray]:
        """The features of pictures in this order, one by one, float32 [1, D]."""
        for name in names:
            place, _ = self._places[name]
            yield self._read(place.part)[place.row : place.row + 1]

    def delete(self) -> None:
        """Deletes the parts, and the folder."""
        ownership.delete_own(self.folder, _OWN, WHAT)
        self.folder.rmdir()

    def _note(self, number: int, names: Sequence[str], stamps: list[list[int]]) -> None:
        for row, (name, stamp) in enumerate(zip(names, stamps, strict=True)):
            self._places[name] = Place(number, row), stamp

    def _features_of(self, number: int) -> np.ndarray:
        return read_features(self._path(number))[1]

    def _path(self, number: int) -> Path:
        return self.folder / f"part_{number:06d}.npz"

    def _stamps_path(self, number: int) -> Path:
        return self.folder / f"stamps_{number:06d}.json"


def make_folder(output: Path) -> Path:
    """Makes the folder of parts of an output."""
    folder = output.with_name(f"{output.name}.parts")
    ownership.make(folder, "features", WHAT)
    return folder


def _stamp(path: Path) -> list[int]:
    """Size and time of the last change; equal stamps mean that nothing changed."""
    try:
        found = path.stat()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    return [found.st_size, found.st_mtime_ns]
