"""Reads members of public archives in place, or of the folders they unpack to; extracts nothing.

Archives are untrusted. A member is refused by name if its path leaves the folder or if it is larger
than any member of the public files. Nothing is written to disk, and the expanded size is bounded.
"""

import functools
import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from clarel_tf.errors import ClarelError, brief
from clarel_tf.storage import files
from clarel_tf.storage.expansion import BoundedReader, check_claims, most_bytes, open_member
from clarel_tf.storage.tar_members import TarReader

MAX_TEXT_BYTES = 1 << 20


class ZipMember(NamedTuple):
    """One member of a zip archive.

    Attributes:
      contents: the uncompressed bytes.
      compressed: its size in the archive, in bytes.
    """

    contents: bytes
    compressed: int


def read_zip_member(archive: Path, member: str) -> ZipMember:
    """Reads one member of a zip archive and verifies its checksum."""
    try:
        with files.open_regular(archive) as file, zipfile.ZipFile(file) as opened:
            check_claims(opened, archive, file.seek(0, os.SEEK_END))
            for name in opened.namelist():
                _refuse_climbing(archive, name)
            info = opened.getinfo(member)
            with open_member(opened, info, f"{archive}: {member}") as stream:
                return ZipMember(stream.read(), info.compress_size)
    except KeyError as error:
        raise ClarelError(f"{archive} has no member {member}; is it the public file?") from error
    except ClarelError:
        raise
    except Exception as error:  # zipfile raises many kinds of exceptions on damage
        raise ClarelError(_damaged(archive, error)) from error


Member = tuple[str, int, Callable[[], bytes]]


def iterate_members(archive: Path, folder: str, suffixes: tuple[str, ...]) -> Iterator[Member]:
    """Yields (path below `folder`, size, a function that reads it) for files of a tar archive.

    A file can be read until the next one is requested. Hidden files are left out.

    Args:
      suffixes: of the files, in lower case.
    """
    try:
        yield from _members(archive, folder, suffixes)
    except ClarelError:
        raise
    except Exception as error:  # gzip raises many kinds of exceptions on damage
        raise ClarelError(_damaged(archive, error)) from error


def iterate_texts(source: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields (path below `folder`, contents) of the `.txt` files of a tar archive or a folder.

    Args:
      source: a `.tar.gz` archive, or the folder that it was unpacked in.
      folder: where the texts are, such as `cvpr2016_cub/text_c10`.
    """
    texts = _texts_of_folder if source.is_dir() else _texts_of_archive
    try:
        yield from texts(source, folder)
    except ClarelError:
        raise
    except Exception as error:  # gzip raises many kinds of exceptions on damage, too
        raise ClarelError(_damaged(source, error)) from error


def _texts_of_folder(source: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted((source / folder).rglob("*.txt")):
        with files.open_regular(path) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise ClarelError(f"{path} is too large for a file of captions")
        yield path.relative_to(source / folder).as_posix(), data


def _texts_of_archive(source: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    for path, size, read in _members(source, folder, (".txt",)):
        if size > MAX_TEXT_BYTES:
            raise ClarelError(f"{source}: {folder}/{path} is too large for a file of captions")
        yield path, read()


def _members(archive: Path, folder: str, suffixes: tuple[str, ...]) -> Iterator[Member]:
    with files.open_regular(archive) as file, gzip.open(file) as expanded:
        most = most_bytes(os.fstat(file.fileno()).st_size)
        stream = io.BufferedReader(BoundedReader(expanded, archive, most), MAX_TEXT_BYTES)
        reader = TarReader(stream)
        for member in reader:
            _refuse_climbing(archive, member.name)
            path = PurePosixPath(member.name)
            is_wanted = member.is_file and path.suffix.lower() in suffixes
            if is_wanted and path.is_relative_to(folder) and not path.name.startswith("."):
                yield (
                    path.relative_to(folder).as_posix(),
                    member.size,
                    functools.partial(reader.read, member),
                )
        while stream.read(MAX_TEXT_BYTES):  # to the end, which is where the checksum is
            pass


def _refuse_climbing(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise ClarelError(f"{archive}: member {name!r} has a path outside the archive; refused")


def _damaged(archive: Path, error: BaseException) -> str:
    return f"{archive} is cut off or damaged ({brief(error)}); fetch it again"
