"""Writes files atomically (temporary file, then rename); reads regular files only."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from clarel_tf.errors import ClarelError

LOCK = ".lock"
_PARTIAL = re.compile(r"\.\d+\.partial\..+", re.DOTALL)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Errors of a disk. TensorFlow raises its own exceptions and repeats only the text.
_DISK_TROUBLE = tuple(
    os.strerror(code)
    for code in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
    )
)


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success the file is flushed and renamed to `path`.

    The temporary name starts with a dot, so that leftovers of a killed process are recognised, and
    has the suffix of `path`, which some writers look at (`.npz`, `.keras`).
    """
    path = Path(path)
    temporary = path.with_name(f".{os.getpid()}.partial.{path.name}")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes `text` as UTF-8, all of it or nothing."""
    with written_aside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(value: Any) -> str:
    """`value` as indented JSON with a final newline; NaN and infinity are refused."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON, all of it or nothing."""
    write_text(path, json_text(value))


def open_regular(path: str | Path) -> BinaryIO:
    """Opens a file for reading bytes; folders, pipes, sockets and devices are refused by name.

    Reading a pipe can block for ever, and a device may never end. Raises OSError if the file cannot
    be opened.

    Args:
      path: a path with "://" is on a remote file system (TFDS) and is not checked.
    """
    if not isinstance(path, str) and "://" in os.fspath(path):
        return path.open("rb")
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except ValueError as error:  # a NUL character, or half of a surrogate pair
        raise ClarelError(f"{os.fspath(path)!r} cannot be the name of a file") from error
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something special")
        raise ClarelError(f"{path} is {what}, not a file; give the name of a regular file")
    return open(path, "rb")


def read_regular(path: str | Path) -> bytes:
    """The contents of a file that `open_regular` opens."""
    with open_regular(path) as handle:
        return handle.read()


def read_json(path: Path) -> Any:
    """The contents of a JSON file; ClarelError names the file if it is not valid JSON."""
    try:
        return json.loads(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    except RecursionError as error:
        raise ClarelError(
            f"{path} nests lists or objects too deeply; no file of this project does"
        ) from error
    except ValueError as error:
        raise ClarelError(f"{path} is not valid JSON ({error}); it may be damaged") from error


def free_name(path: Path) -> Path:
    """`path`, or `path-2`, `path-3`, ..., whichever is free."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def is_of_system(name: str) -> bool:
    """True for names of files and folders that file managers put into folders of the user."""
    known = (".ds_store", "__macosx", "thumbs.db", "desktop.ini")
    return name.startswith("._") or name.lower() in known


def is_partial(name: str) -> bool:
    """True if the name is that of a temporary file of `written_aside`."""
    return bool(_PARTIAL.fullmatch(name))


def remove_partial_files(folder: Path) -> None:
    """Deletes temporary files that a killed process left in `folder`."""
    for leftover in Path(folder).iterdir():
        if is_partial(leftover.name):
            leftover.unlink(missing_ok=True)


def disk_trouble(error: BaseException) -> str | None:
    """The disk error behind an exception, as text, or None."""
    if isinstance(error, OSError):
        return " ".join(str(error).split())
    if type(error).__module__.startswith("tensorflow"):
        return next((words for words in _DISK_TROUBLE if words in str(error)), None)
    # TFDS wraps these errors in its own.
    return None if error.__cause__ is None else disk_trouble(error.__cause__)


@contextlib.contextmanager
def writing_in(folder: Path, what: str) -> Iterator[None]:
    """Turns errors of a full or read-only disk, or missing permission, into one ClarelError.

    Args:
      what: the folder's role, for the message.
    """
    try:
        yield
    except ClarelError:
        raise
    except Exception as error:
        trouble = disk_trouble(error)
        if trouble is None:
            raise
        raise ClarelError(
            f"cannot write to {what} {folder}: {trouble}. Complete files are kept: free some space "
            "or grant permission, then give the same command again to continue"
        ) from error


@contextlib.contextmanager
def only_process(folder: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Holds a lock on a folder; the operating system releases it when the process ends.

    Args:
      what: the folder's role, for the message in the other process.
      wait: wait for the other process instead of raising.
    """
    with open(folder / LOCK, "a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another process is working in {what} {folder}"
            if not wait:
                raise ClarelError(message) from None
            print(f"{message}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def sha256(path: str | Path) -> str:
    """The SHA-256 of a whole file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_regular(path) as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def file_fingerprint(path: str | Path) -> str:
    """A hash of the size, the beginning and the end of a file; fast for files of gigabytes."""
    edge = 1 << 20
    try:
        with open_regular(path) as handle:
            size = os.fstat(handle.fileno()).st_size
            digest = hashlib.sha256(str(size).encode() + handle.read(edge))
            handle.seek(max(0, size - edge))
            digest.update(handle.read(edge))
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()[:16]
