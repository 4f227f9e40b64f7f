"""What a user's folder holds and a build does not use, and pictures that are very small."""

import collections
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from clarel_tf.data.pairs.folder import PairsFolder
from clarel_tf.data.pairs.pictures import CAPTIONS, IMAGES, is_text
from clarel_tf.errors import printable
from clarel_tf.images.picture_files import SUFFIXES, size_of
from clarel_tf.storage.files import is_of_system

_SMALL = 16  # pixels
_NAMED = 5


def remarks(folder: PairsFolder) -> list[str]:
    """One line about what was left out and one about small pictures, as far as there are any."""
    if folder.pictures is None:
        return []
    lines = [_left_out(folder), _small(folder)]
    return [printable(line) for line in lines if line]


def _left_out(folder: PairsFolder) -> str:
    """Such as `photos: left out 1 .heic, 2 class folders without pictures (crow, owl)`."""
    tops = {PurePosixPath(path).parts[0] for path in (folder.pictures or {}).values()}
    others = [
        name
        for top in sorted(tops)
        for name in _names_below(folder.path / top)
        if not name.lower().endswith(SUFFIXES)
    ]
    texts = [name for name in _names_in(folder.path / CAPTIONS) if not is_text(name)]
    found = [*_by_suffix(others), *(f"{one} in {CAPTIONS}/" for one in _by_suffix(texts))]
    if not folder.tables and (empty := _empty_classes(folder)):
        what = "class folder" if len(empty) == 1 else "class folders"
        found.append(f"{len(empty)} {what} without pictures ({_some(empty)})")
    return f"photos: left out {', '.join(found)}" if found else ""


def _small(folder: PairsFolder) -> str:
    """A warning that names pictures with a side below `_SMALL` pixels."""
    small = []
    for path in (folder.pictures or {}).values():
        size = size_of(folder.path / path)
        if size is not None and 0 < min(size) < _SMALL:
            small.append(f"{path} ({size[0]} x {size[1]})")
    if not small:
        return ""
    number = "1 picture has" if len(small) == 1 else f"{len(small)} pictures have"
    more = f", and {len(small) - _NAMED} more" if len(small) > _NAMED else ""
    return (
        f"photos: warning: {number} a side of less than {_SMALL} pixels, too few to show much: "
        f"{', '.join(small[:_NAMED])}{more}"
    )


def _names_below(folder: Path) -> Iterator[str]:
    """The names of all files in a folder and below it, without those that systems make."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (name for name in names if not _is_hidden(name))


def _names_in(folder: Path) -> list[str]:
    """The names of the files and folders in a folder, which may be missing."""
    names = os.listdir(folder) if folder.is_dir() else []
    return [name for name in names if not _is_hidden(name)]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or is_of_system(name)


def _empty_classes(folder: PairsFolder) -> list[str]:
    """The folders of `images` that are no class: they have no picture, and nothing describes it."""
    known = {*folder.classes, *folder.descriptions}
    here = folder.path / IMAGES
    return sorted(name for name in _names_in(here) if name not in known and (here / name).is_dir())


def _by_suffix(names: Sequence[str]) -> list[str]:
    """Such as `3 .heic`, the most frequent suffix first."""
    counts = collections.Counter(PurePosixPath(name).suffix for name in names)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"{count} {suffix or 'without a suffix'}" for suffix, count in order]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
