"""Writing files so that a killed process leaves the old file or the new one, never half of one."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError

LOCK = ".lock"


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which on success is flushed and renamed to `path`.

    The temporary name starts with a dot and ends like `path`, so that writers which look at the
    suffix (`.npz`, `.keras`) behave, and a name left by a killed process is easy to recognise.
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


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON with a final newline; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads a JSON file, naming the file when it is not one."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ClarelError(f"{path} is not valid JSON ({error}); it may be damaged") from error


def remove_partial_files(folder: Path) -> None:
    """Deletes what a killed writer left in `folder`."""
    for leftover in Path(folder).glob(".*.partial.*"):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def only_process(folder: Path, what: str) -> Iterator[None]:
    """Holds a lock that the operating system gives back when the process ends, however it ends.

    Args:
      what: the folder's role, for the message that another process gets.
    """
    with open(folder / LOCK, "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClarelError(f"another process is working in {what} {folder}") from None
        yield


def sha256(path: str | Path) -> str:
    """The SHA-256 of a whole file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def file_fingerprint(path: str | Path) -> str:
    """A hash of the size, the beginning and the end of a file, which may have gigabytes."""
    edge = 1 << 20
    try:
        with open(path, "rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            digest = hashlib.sha256(str(size).encode() + handle.read(edge))
            handle.seek(max(0, size - edge))
            digest.update(handle.read(edge))
    except OSError as error:
        raise ClarelError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()[:16]
