"""The record of the raw files that a dataset was built from, for comparison with those of today.

`raw_files.json` is written in the folder of the unfinished build, which TFDS renames when it is
complete. So a dataset has either the whole note or, if an older version built it, none.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

NOTE = "raw_files.json"


@dataclasses.dataclass(frozen=True)
class RawFile:
    """One raw file, or a folder with all files below it.

    Attributes:
      stamp: sizes and times of the last change; equal stamps mean that nothing changed.
      sha256: of the contents.
    """

    stamp: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class RawFiles:
    """The files of one folder that a build reads.

    Attributes:
      folder: absolute path.
      files: by their path in the folder.
    """

    folder: str
    files: dict[str, RawFile]

    @classmethod
    def of(cls, folder: Path, paths: Iterable[Path]) -> "RawFiles":
        """Reads all of the files once."""
        named = {path.relative_to(folder).as_posix(): path for path in paths}
        # The stamp first: a change during the reading shows later.
        found = {name: RawFile(stamp(path), _sha256(path)) for name, path in named.items()}
        return cls(str(folder.resolve()), found)

    @classmethod
    def read(cls, built: Path) -> "RawFiles | None":
        """The note in the folder of a built dataset; None if there is none."""
        if not (built / NOTE).exists():
            return None
        try:
            note = json.loads((built / NOTE).read_text())
            noted = {name: RawFile(**values) for name, values in note["files"].items()}
            return cls(str(note["folder"]), noted)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ClarelError(
                f"cannot read {built / NOTE} ({type(error).__name__}); if it is damaged, delete "
                "it: the dataset is used without it, and changes of the raw files go unnoticed"
            ) from error

    def write(self, built: Any) -> None:
        """Writes the note; `built` may be a path of TFDS on a remote file system."""
        text = files.json_text(dataclasses.asdict(self))
        if "://" in os.fspath(built):
            (built / NOTE).write_text(text)
        else:
            files.write_text(Path(built) / NOTE, text)

    def changes(self, folder: Path, paths: Iterable[Path]) -> list[str]:
        """How the files that a build would read from `folder` differ from these, one text a file.

        Only files with another stamp are read.
        """
        now = {path.relative_to(folder).as_posix(): path for path in paths}
        found = [f"{name} is not there" for name in self.files if name not in now]
        for name, path in now.items():
            before = self.files.get(name)
            if before is None:
                found.append(f"{name} is new")
            elif not _is_same(before, path):
                found.append(f"{name} has other contents")
        return found

    def stamped(self, folder: Path) -> "RawFiles":
        """The same contents in `folder`, with the stamps that they have there."""
        stamps = {
            name: dataclasses.replace(one, stamp=stamp(folder / name))
            for name, one in self.files.items()
        }
        return RawFiles(str(folder.resolve()), stamps)


def stamp(path: Path) -> str:
    """The size and the time of the last change of a file, or a hash of those below a folder."""
    if not path.is_dir():
        return _stamp_of_file(path)
    digest = hashlib.sha256()
    for below in _below(path):
        digest.update(f"{below.relative_to(path).as_posix()}\0{_stamp_of_file(below)}\0".encode())
    return digest.hexdigest()


def _is_same(noted: RawFile, path: Path) -> bool:
    now = stamp(path)
    if now == noted.stamp:
        return True
    if not path.is_dir() and now.split()[0] != noted.stamp.split()[0]:
        return False  # of another size
    return _sha256(path) == noted.sha256


def _stamp_of_file(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    return f"{status.st_size} {status.st_mtime_ns}"


def _sha256(path: Path) -> str:
    try:
        if not path.is_dir():
            return files.sha256(path)
        digest = hashlib.sha256()
        for below in _below(path):
            digest.update(f"{below.relative_to(path).as_posix()}\0{files.sha256(below)}\0".encode())
        return digest.hexdigest()
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder, always in the same order."""
    for path, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(path) / name for name in sorted(names))
