"""Checksums of the files of a run and of an export, so that a flipped byte does not go unnoticed.

`checksums.json` in a folder has the SHA-256 of each file that was written through here. It is
written before the file itself appears, and meanwhile allows the old contents as well as the new: a
process that is killed between the two leaves nothing that looks like damage. They tell accidents,
not forgeries: who can change a file can change its checksum too.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

MANIFEST = "checksums.json"


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """As `files.written_aside`, and notes the checksum of what was written."""
    with files.written_aside(path) as temporary:
        yield temporary
        _note(Path(path), files.sha256(temporary))


def write_text(path: Path, text: str) -> None:
    """As `files.write_text`, and notes the checksum."""
    with written_aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """As `files.write_json`, and notes the checksum."""
    write_text(path, files.json_text(value))


def read_json(path: Path, remedy: str) -> Any:
    """As `files.read_json`, and compares the checksum."""
    value = files.read_json(path)
    check(path, remedy)
    return value


def is_noted(path: Path) -> bool:
    """True for a file whose checksum was noted when it was written."""
    return Path(path).name in _read(Path(path).parent)


def is_intact(path: Path) -> bool:
    """Whether a file is as it was written; one that was written without a checksum is."""
    noted = _read(Path(path).parent).get(Path(path).name)
    try:
        return noted is None or files.sha256(path) in noted
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error


def check(path: Path, remedy: str) -> None:
    """Refuses a file that is not as it was written.

    Args:
      remedy: what the user can do about it.
    """
    if not is_intact(path):
        raise ClarelError(
            f"{path} is damaged or was changed: its SHA-256 is not the one that "
            f"{Path(path).parent / MANIFEST} has for it; {remedy}"
        )


def write_tree(folder: Path, manifest: Path) -> None:
    """Notes every file below `folder` in `manifest`, which is below it too, and flushes them."""
    sums = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path != manifest):
        sums[path.relative_to(folder).as_posix()] = [files.sha256(path)]
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
    files.write_json(manifest, sums)


def check_tree(folder: Path, manifest: Path, remedy: str) -> None:
    """Refuses a folder in which a file of `manifest` is missing or not as it was written."""
    if not manifest.exists():
        return  # made before there were checksums
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
    # What is there now may still be there when this process is killed.
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
            f"{path} is damaged; delete it, and the files beside it are believed as they are"
        )
    return sums
