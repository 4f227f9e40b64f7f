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
      files: files and folders, by their path in the folder.
      below: the files below each of these folders, by their path in it, without those of file
        managers; a note of an older version lacks them.
    """

    folder: str
    files: dict[str, RawFile]
    below: dict[str, dict[str, RawFile]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, paths: Iterable[Path]) -> "RawFiles":
        """Reads all of the files once."""
        found, below = {}, {}
        for path in paths:
            name = path.relative_to(folder).as_posix()
            if not path.is_dir():
                found[name] = _read(path)
                continue
            inside = {part: _read(path / part) for part in _below(path)}
            found[name] = RawFile(
                _digest({part: file.stamp for part, file in inside.items()}),
                _digest({part: file.sha256 for part, file in inside.items()}),
            )
            below[name] = {part: file for part, file in inside.items() if _counts(part)}
        return cls(str(folder.resolve()), found, below)

    @classmethod
    def read(cls, built: Path) -> "RawFiles | None":
        """The note in the folder of a built dataset; None if there is none."""
        if not (built / NOTE).exists():
            return None
        try:
            note = json.loads((built / NOTE).read_text())
            noted = {name: RawFile(**values) for name, values in note["files"].items()}
            below = {
                name: {part: RawFile(*text.rsplit(" ", 1)) for part, text in inside.items()}
                for name, inside in note.get("below", {}).items()
            }
            return cls(str(note["folder"]), noted, below)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ClarelError(
                f"cannot read {built / NOTE} ({type(error).__name__}); if it is damaged, delete "
                "it: the dataset is used without it, and changes of the raw files go unnoticed"
            ) from error

    def write(self, built: Any) -> None:
        """Writes the note; `built` may be a path of TFDS on a remote file system."""
        note = dataclasses.asdict(dataclasses.replace(self, below={}))
        note["below"] = {  # one line a file, because there may be very many
            name: {part: f"{file.stamp} {file.sha256}" for part, file in inside.items()}
            for name, inside in self.below.items()
        }
        text = files.json_text(note)
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
            if name not in self.files:
                found.append(f"{name} is new")
            elif stamp(path) != self.files[name].stamp:
                found += self._changes_of(name, path)
        return found

    def _changes_of(self, name: str, path: Path) -> list[str]:
        """How a file or folder with another stamp differs."""
        if name in self.below and path.is_dir():
            return [f"{name}/{change}" for change in _changes_below(self.below[name], path)]
        if _is_same(self.files[name], path):
            return []
        unknown = " (an older version built it, so it is not known in which files)"
        return [f"{name} has other contents" + (unknown if path.is_dir() else "")]

    def stamps(self) -> dict[str, str]:
        """The stamp of each single file, by its path in the folder."""
        single = {name: one.stamp for name, one in self.files.items() if name not in self.below}
        for name, inside in self.below.items():
            single |= {f"{name}/{part}": file.stamp for part, file in inside.items()}
        return single

    def stamped(self, folder: Path) -> "RawFiles":
        """The same contents in `folder`, with the stamps that they have there."""

        def now(one: RawFile, path: Path) -> RawFile:
            return dataclasses.replace(one, stamp=stamp(path))

        found = {name: now(one, folder / name) for name, one in self.files.items()}
        below = {
            name: {part: now(one, folder / name / part) for part, one in inside.items()}
            for name, inside in self.below.items()
        }
        return RawFiles(str(folder.resolve()), found, below)


def stamps_of(folder: Path, paths: Iterable[Path]) -> dict[str, str]:
    """As `RawFiles.stamps`, of the files as they are now; none is read."""
    found: dict[str, str] = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            found |= {
                f"{name}/{part}": stamp(path / part) for part in _below(path) if _counts(part)
            }
        else:
            found[name] = stamp(path)
    return found


def stamp(path: Path) -> str:
    """The size and the time of the last change of a file, or a hash of those below a folder."""
    if not path.is_dir():
        return _stamp_of_file(path)
    return _digest({part: _stamp_of_file(path / part) for part in _below(path)})


def _changes_below(before: dict[str, RawFile], folder: Path) -> list[str]:
    """How the files below a folder differ from those noted, one text a file."""
    now = {part for part in _below(folder) if _counts(part)}
    found = [f"{part} is not there" for part in before if part not in now]
    found += [f"{part} is new" for part in sorted(now - before.keys())]
    for part, file in before.items():
        if part in now and not _is_same(file, folder / part):
            found.append(f"{part} has other contents")
    return found


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
        return _digest({part: files.sha256(path / part) for part in _below(path)})
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error


def _read(path: Path) -> RawFile:
    """Of one file; the stamp first, so that a change during the reading shows later."""
    return RawFile(_stamp_of_file(path), _sha256(path))


def _digest(values: dict[str, str]) -> str:
    """One hash of all values and their names."""
    digest = hashlib.sha256()
    for name, value in values.items():
        digest.update(f"{name}\0{value}\0".encode())
    return digest.hexdigest()


def _below(folder: Path) -> Iterator[str]:
    """The relative paths of all files below a folder, always in the same order."""
    for path, folders, names in os.walk(folder):
        folders.sort()
        yield from ((Path(path) / name).relative_to(folder).as_posix() for name in sorted(names))


def _counts(part: str) -> bool:
    """False for a file that a file manager made."""
    return not any(files.is_of_system(name) for name in part.split("/"))
