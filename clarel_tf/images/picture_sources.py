"""Where pictures are: `FolderPictures` and `TarPictures`, a tar archive that is read in place."""

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from clarel_tf.errors import ClarelError
from clarel_tf.images.picture_files import SUFFIXES, read_picture
from clarel_tf.storage.archives import iterate_members

MAX_MEMBER_BYTES = 16 << 20  # the largest picture of the public archives has less than 1 MB
Stamp = list[int]  # equal stamps mean that nothing changed


class Picture(NamedTuple):
    """A picture that has not been read yet.

    Attributes:
      name: its id.
      where: for messages: "WHERE is damaged".
      read: returns the contents of its file.
    """

    name: str
    where: str
    read: Callable[[], bytes]


class PictureSource(Protocol):
    """A collection of pictures, each known by its name."""

    def stamps(self) -> dict[str, Stamp]:
        """All pictures in their order, each with its stamp."""
        ...

    def pictures(self, names: Collection[str]) -> Iterator[Picture]:
        """Those of the pictures with these names, in the order in which they are best read."""
        ...


class FolderPictures:
    """Pictures that are files of their own."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, str] | Iterable[str],
        place: Callable[[str], str] | None = None,
    ):
        """Takes note of the pictures; reads nothing.

        Args:
          files: relative paths; by the names of the pictures if these are others.
          place: where the user mentions the picture of a name, for messages.
        """
        self._folder, self._place = Path(os.fspath(folder)), place
        self._files = dict(files) if isinstance(files, Mapping) else {name: name for name in files}

    def stamps(self) -> dict[str, Stamp]:
        return {name: self._stamp(name) for name in self._files}

    def pictures(self, names: Collection[str]) -> Iterator[Picture]:
        wanted = set(names)
        return (self._picture(name) for name in self._files if name in wanted)

    def _picture(self, name: str) -> Picture:
        path = self._folder / self._files[name]
        return Picture(name, self._where(name), lambda: read_picture(path))

    def _where(self, name: str) -> str:
        path = str(self._folder / self._files[name])
        return f"{self._place(name)}: {path}" if self._place else path

    def _stamp(self, name: str) -> Stamp:
        """Size and time of the last change."""
        try:
            found = (self._folder / self._files[name]).stat()
        except OSError as error:
            raise ClarelError(f"cannot read {self._where(name)}: {error.strerror}") from error
        return [found.st_size, found.st_mtime_ns]


class TarPictures:
    """Pictures in a `.tar.gz` archive, read from its beginning to its end; nothing is unpacked."""

    def __init__(self, archive: Path, folder: str):
        """Takes note of the archive; reads nothing.

        Args:
          folder: where the pictures are in it; their names are relative to it.
        """
        self._archive, self._folder = archive, folder

    def stamps(self) -> dict[str, Stamp]:
        changed = self._archive.stat().st_mtime_ns
        found: dict[str, Stamp] = {}
        for name, size, _ in self._members():
            if name in found:
                raise ClarelError(f"{self._where(name)} occurs twice")
            if size > MAX_MEMBER_BYTES:
                raise ClarelError(
                    f"{self._where(name)} has {size >> 20} MB; at most {MAX_MEMBER_BYTES >> 20} "
                    "are read"
                )
            found[name] = [size, changed]
        return dict(sorted(found.items()))

    def pictures(self, names: Collection[str]) -> Iterator[Picture]:
        wanted = set(names)
        for name, size, read in self._members():
            if name in wanted and size <= MAX_MEMBER_BYTES:
                # Now, because the archive goes on.
                yield Picture(name, self._where(name), functools.partial(bytes, read()))

    def _members(self) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
        return iterate_members(self._archive, self._folder, SUFFIXES)

    def _where(self, name: str) -> str:
        return f"{self._archive}: {self._folder}/{name}"
