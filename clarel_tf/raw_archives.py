"""Reads members of public archives in place, or of the folders they unpack to; extracts nothing.

Archives are untrusted: a member that climbs out of its folder, or that is larger than anything the
public files hold, is refused by name, and nothing is ever written to disk. What a small file can
expand to is bounded as well.
"""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from clarel_tf.errors import ClarelError

MAX_MATRIX_BYTES = 8 << 30  # the largest public feature file has a few hundred megabytes
MAX_TEXT_BYTES = 1 << 20
MAX_ARCHIVE_BYTES = 4 << 30  # of captions; the public ones have less than a hundredth of it


def read_zip_member(archive: Path, member: str) -> io.BytesIO:
    """The contents of one member of a zip archive, checked against its checksum."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                _refuse_climbing(archive, name)
            info = opened.getinfo(member)
            if info.file_size > MAX_MATRIX_BYTES:
                raise ClarelError(f"{archive}: member {member} claims {info.file_size} bytes")
            return io.BytesIO(opened.read(info))
    except KeyError as error:
        raise ClarelError(f"{archive} has no member {member}; is it the public file?") from error
    except ClarelError:
        raise
    except Exception as error:  # zipfile has no list of what damage raises
        raise ClarelError(_damaged(archive, error)) from error


def iterate_texts(source: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields (path below `folder`, contents) of the `.txt` files of a tar archive or a folder.

    Args:
      source: a `.tar.gz` archive, or the folder that it was unpacked in.
      folder: where the texts are, such as `cvpr2016_cub/text_c10`.
    """
    if source.is_dir():
        for path in sorted((source / folder).rglob("*.txt")):
            if path.stat().st_size > MAX_TEXT_BYTES:
                raise ClarelError(f"{path} is too large for a file of captions")
            yield path.relative_to(source / folder).as_posix(), path.read_bytes()
        return
    try:
        with (
            gzip.open(source) as stream,
            tarfile.open(fileobj=_Bounded(source, stream), mode="r:") as archive,
        ):
            for member in archive:
                _refuse_climbing(source, member.name)
                path = PurePosixPath(member.name)
                is_text = member.isfile() and path.suffix == ".txt"
                if not is_text or not path.is_relative_to(folder):
                    continue
                if member.size > MAX_TEXT_BYTES:
                    raise ClarelError(f"{source}: {path} is too large for a file of captions")
                yield path.relative_to(folder).as_posix(), archive.extractfile(member).read()
            # To the end, which is where the checksum is; tarfile stops before it.
            while archive.fileobj.read(MAX_TEXT_BYTES):
                archive.fileobj.seek(archive.fileobj.tell())
    except ClarelError:
        raise
    except Exception as error:  # nor has tarfile
        raise ClarelError(_damaged(source, error)) from error


class _Bounded:
    """A stream that refuses to be read in large pieces or far on, whatever headers claim."""

    def __init__(self, name: Path, stream: gzip.GzipFile):
        self._name, self._stream = name, stream

    def read(self, size: int) -> bytes:
        if size > 2 * MAX_TEXT_BYTES:
            raise ClarelError(f"{self._name}: a member claims {size} bytes; refused")
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        if position > MAX_ARCHIVE_BYTES:
            raise ClarelError(f"{self._name} expands to more than {MAX_ARCHIVE_BYTES} bytes")
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()


def _refuse_climbing(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise ClarelError(f"{archive}: member {name!r} climbs out of the archive; refused")


def _damaged(archive: Path, error: BaseException) -> str:
    return f"{archive} is cut off or damaged ({error}); fetch it again"
