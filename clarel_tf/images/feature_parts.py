"""`FeatureParts`, the features of an unfinished extraction, in a folder beside its output."""

import contextlib
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.images.feature_files import read_features, read_record, write_features
from clarel_tf.images.picture_sources import Stamp
from clarel_tf.storage import files, ownership
from clarel_tf.storage.array_files import read_npz

_OWN = re.compile(r"(part|jpegs)_\d{6}\.npz|stamps_\d{6}\.json")
_KEPT = 32  # parts in memory, of 2 to 6 MB each
WHAT = "the folder of unfinished features"


class Place(NamedTuple):
    """Where the features of a picture are."""

    part: int
    row: int


class FeatureParts:
    """Parts of features, each written once; what is written stays until `delete`.

    A part has the stamp of each picture, so that the features of a picture that has changed are not
    used. It may have small JPEG files of them too.

    Attributes:
      folder: `NAME.npz.parts` beside `NAME.npz`.
    """

    def __init__(self, folder: Path, record: BackboneRecord):
        """Reads which pictures are done; the caller holds the lock on the folder."""
        self.folder, self._record = folder, record
        files.remove_partial_files(self.folder)
        self._places: dict[str, tuple[Place, Stamp]] = {}
        numbers = [int(path.stem[5:]) for path in self.folder.glob("part_*.npz")]
        self._next = max(numbers, default=-1) + 1
        for number in sorted(numbers):
            self._read_part(number)
        # Archives and resumed runs have parts in another order than the pictures.
        self._read = functools.lru_cache(maxsize=_KEPT)(self._features_of)
        self._read_jpegs = functools.lru_cache(maxsize=_KEPT)(self._jpegs_of)

    def _read_part(self, number: int) -> None:
        path = self._path(number)
        with self._or_begin_anew(". Delete"):
            record = read_record(path)
            names, _, _ = read_features(path)
            stamps = files.read_json(self._stamps_path(number))
            if not isinstance(stamps, list) or len(stamps) != len(names):
                raise ClarelError(f"{self._stamps_path(number)} does not fit to {path}")
        with self._or_begin_anew(", or delete"):
            record.check_same(self._record, path, "this command")
        self._note(number, names, stamps)

    @contextlib.contextmanager
    def _or_begin_anew(self, join: str) -> Iterator[None]:
        """Adds the remedy to messages."""
        try:
            yield
        except ClarelError as error:
            raise ClarelError(f"{error}{join} {self.folder} to begin anew") from error

    def missing(self, stamps: Mapping[str, Stamp]) -> list[str]:
        """Those of the pictures that have no features yet, or have changed since."""
        return [
            name
            for name, stamp in stamps.items()
            if name not in self._places or self._places[name][1] != stamp
        ]

    def add(
        self, stamps: Mapping[str, Stamp], features: np.ndarray, jpegs: Sequence[bytes] = ()
    ) -> None:
        """Writes one part.

        Args:
          stamps: of n pictures.
          features: of the same pictures, float32 [n, D].
          jpegs: n small files, or none.
        """
        number, self._next = self._next, self._next + 1
        # The features last: a part without them is not read.
        files.write_json(self._stamps_path(number), list(stamps.values()))
        if jpegs:
            with files.written_aside(self._jpegs_path(number)) as temporary:
                ends = np.cumsum([len(jpeg) for jpeg in jpegs])
                np.savez(temporary, ends=ends, data=np.frombuffer(b"".join(jpegs), np.uint8))
        write_features(self._path(number), list(stamps), [features], self._record)
        self._note(number, list(stamps), list(stamps.values()))

    def features(self, name: str) -> np.ndarray:
        """The features of a picture, float32 [D]."""
        place, _ = self._places[name]
        return self._read(place.part)[place.row]

    def jpeg(self, name: str) -> bytes:
        """The small JPEG of a picture."""
        place, _ = self._places[name]
        return self._read_jpegs(place.part)[place.row]

    def rows(self, names: Sequence[str]) -> Iterator[np.ndarray]:
        """The features of pictures in this order, one by one, float32 [1, D]."""
        return (self.features(name)[None] for name in names)

    def delete(self) -> None:
        """Deletes the parts, and the folder."""
        ownership.delete_own(self.folder, _OWN, WHAT)
        self.folder.rmdir()

    def _note(self, number: int, names: Sequence[str], stamps: list[Stamp]) -> None:
        for row, (name, stamp) in enumerate(zip(names, stamps, strict=True)):
            self._places[name] = Place(number, row), stamp

    def _features_of(self, number: int) -> np.ndarray:
        return read_features(self._path(number))[1]

    def _jpegs_of(self, number: int) -> list[bytes]:
        with self._or_begin_anew(". Delete"):
            arrays = read_npz(self._jpegs_path(number), ("ends", "data"))
        starts = [0, *arrays["ends"].tolist()]
        data = arrays["data"].tobytes()
        return [data[start:end] for start, end in itertools.pairwise(starts)]

    def _path(self, number: int) -> Path:
        return self.folder / f"part_{number:06d}.npz"

    def _jpegs_path(self, number: int) -> Path:
        return self.folder / f"jpegs_{number:06d}.npz"

    def _stamps_path(self, number: int) -> Path:
        return self.folder / f"stamps_{number:06d}.json"


def make_folder(output: Path) -> Path:
    """Makes the folder of parts of an output."""
    folder = output.with_name(f"{output.name}.parts")
    ownership.make(folder, "features", WHAT)
    return folder
