"""Checksums of the files of a run and of an export; they detect accidental damage.

`checksums.json` in a folder holds the SHA-256 of each file that this module wrote. It is written
before the file is renamed into place and accepts the old and the new contents until then, so a kill
between the two steps does not look like damage. Checksums do not detect forgery: an attacker who
can change a file can change its checksum too.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files
from clarel_tf.storage.records import without_nan

MANIFEST = "checksums.json"


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Like `files.written_aside`; also records the checksum."""
    with files.written_aside(path) as temporary:
        yield temporary
        _note(Path(path), files.sha256(temporary))


def write_text(path: Path, text: str) -> None:
    """Like `files.write_text`; also records the checksum."""
    with written_aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Like `files.write_json`; also records the checksum, and writes NaN as null."""
    write_text(path, files.json_text(without_nan(value)))


def read_json(path: Path, remedy: str) -> Any:
    """Like `files.read_json`; also verifies the checksum."""
    value = files.read_json(path)
    check(path, remedy)
    return value


def is_noted(path: Path) -> bool:
    """True if a checksum is recorded for the file."""
    return Path(path).name in _read(Path(path).parent)


def is_intact(path: Path) -> bool:
    """True if the file matches its recorded checksum, or has none."""
    noted = _read(Path(path).parent).get(Path(path).name)
    try:
        return noted is None or files.sha256(path) in noted
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error


def check(path: Path, remedy: str) -> None:
    """Raises ClarelError if the file does not match its recorded checksum.

    Args:
      remedy: what the user can do about it, for the message.
    """
    if not is_intact(path):
        raise ClarelError(
            f"{path} is damaged or was changed: its SHA-256 is not the one that "
            f"{Path(path).parent / MANIFEST} has for it; {remedy}"
        )


def write_tree(folder: Path, manifest: Path) -> None:
    """Flushes every file below `folder` and records its checksum in `manifest`, also below it."""
    sums = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path != manifest):
        sums[path.relative_to(folder).as_posix()] = [files.sha256(path)]
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
    files.write_json(manifest, sums)


def check_tree(folder: Path, manifest: Path, remedy: str) -> None:
    """Raises ClarelError if a file of `manifest` is missing or does not match its checksum."""
    if not manifest.exists():
        return  # written by a version without checksums
    for name, noted in _read(manifest.parent, manifest.name).items():
        path = folder / name
        if not path.is_file():
            raise ClarelError(f"{path} is missing, but {manifest} has its checksum; {remedy}")
        if files.sha256(path) not in noted:
            raise ClarelError(
                f"{path} is damaged: its SHA-256 is not the one in {manifest}; {remedy}"
            )


def _note(path: Path, new: str) -> None:
    sums = _read(path.parent)
    # Keep the checksum of the present contents: a kill may leave them in place.
    present = {files.sha256(path)} if path.exists() else set()
    sums[path.name] = [*present.intersection(sums.get(path.name, ())), new]
    files.write_json(path.parent / MANIFEST, sums)


def _read(folder: Path, name: str = MANIFEST) -> dict[str, list[str]]:
    path = folder / name
    if not path.exists():
        return {}
    sums = files.read_json(path)
    if not isinstance(sums, dict) or not all(isinstance(noted, list) for noted in sums.values()):
        raise ClarelError(
            f"{path} is damaged; delete it, and the files beside it are used without a check"
        )
    return sums
