"""Marks in the folders that the programs made, and deletion by file name only.

A folder is ours only if it has the mark. In such a folder only files with names that the programs
write are deleted. If the folder holds any other file, nothing is deleted.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.storage import files

MARK = ".clarel_tf.json"
_SHOWN = 5  # names in a message


def claim(
    folder: Path, kind: str, what: str, is_older: Callable[[Path], bool] | None = None
) -> None:
    """Marks a folder as ours; raises ClarelError if it is not empty and has no mark.

    Args:
      kind: what the folder is for, such as "run".
      what: the folder's role, for the message.
      is_older: tells whether a folder was made by a version without marks.
    """
    check_claim(folder, kind, what, is_older)
    if kind_of(folder) is None:
        write_mark(folder, kind)


def make(
    folder: Path, kind: str, what: str, is_older: Callable[[Path], bool] | None = None
) -> None:
    """Makes a folder if it does not exist, and claims it."""
    check_claim(folder, kind, what, is_older)
    with files.writing_in(folder, what):
        folder.mkdir(parents=True, exist_ok=True)
        claim(folder, kind, what, is_older)


def check_claim(
    folder: Path, kind: str, what: str, is_older: Callable[[Path], bool] | None = None
) -> None:
    """Raises ClarelError where `claim` would; writes nothing."""
    if folder.exists() and not folder.is_dir():
        raise ClarelError(f"{what} {folder} is a file, not a folder")
    if not folder.exists():
        return
    found = kind_of(folder)
    if found is not None and found != kind:
        raise ClarelError(
            f"{what} {folder} is marked as {found!r}, not {kind!r}; name another folder"
        )
    if found is None:
        present = [item.name for item in folder.iterdir() if not _is_of_a_killed_start(item)]
        if present and not (is_older and is_older(folder)):
            raise ClarelError(
                f"{what} {folder} is not empty, and was not made by clarel_tf: it holds "
                f"{_listed(present)}; name a new folder"
            )


def write_mark(folder: Path, kind: str, **more: Any) -> None:
    """Marks a folder as ours.

    Args:
      more: further values to store in the mark, ready for JSON.
    """
    files.write_json(folder / MARK, {"made_by": "clarel_tf", "kind": kind, **more})


def read_mark(folder: Path) -> dict[str, Any]:
    """The contents of a folder's mark; empty without a mark."""
    try:
        mark = files.read_json(folder / MARK)
    except ClarelError:
        return {}
    return mark if isinstance(mark, dict) and mark.get("made_by") == "clarel_tf" else {}


def kind_of(folder: Path) -> str | None:
    """The kind of folder that the mark states; None without a mark."""
    mark = read_mark(folder)
    return str(mark.get("kind")) if mark else None


@contextlib.contextmanager
def marked_while_used(folder: Path, kind: str) -> Iterator[None]:
    """Marks a folder, and locks the mark while the block runs."""
    write_mark(folder, kind)
    with open(folder / MARK, "rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_abandoned(folder: Path, kind: str) -> bool:
    """True if the folder was marked by `marked_while_used` and that process has ended."""
    if kind_of(folder) != kind:
        return False
    try:
        with open(folder / MARK, "rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_ours(name: str, own: re.Pattern[str]) -> bool:
    """True if the path, relative to the folder, is that of a file that the programs write.

    Args:
      own: matches the whole path of each file that belongs to this kind of folder, and of each
        folder that may be empty, with a slash at its end.
    """
    last = name.rpartition("/")[2]
    return bool(own.fullmatch(name)) or last in (MARK, files.LOCK) or files.is_partial(last)


def refuse_others(folder: Path, own: re.Pattern[str], what: str) -> None:
    """Raises ClarelError if the folder holds anything that the programs do not write."""
    others = [name for name in _paths_below(folder) if not is_ours(name, own)]
    if others:
        raise ClarelError(
            f"{what} {folder} holds {_listed(others)}, not written by clarel_tf; nothing was "
            "deleted. Move that elsewhere, or name a new folder"
        )


def delete_own(folder: Path, own: re.Pattern[str], what: str, keep: Iterable[str] = ()) -> None:
    """Deletes the files that the programs wrote, by name, and folders that become empty.

    Args:
      keep: names directly in `folder` that stay.
    """
    refuse_others(folder, own, what)
    kept = set(keep)
    for name in _paths_below(folder):
        if name not in kept and not name.endswith("/"):
            (folder / name).unlink()
    for path, _, _ in os.walk(folder, topdown=False):
        if Path(path) != folder and not os.listdir(path):
            os.rmdir(path)


def move_aside(folder: Path) -> Path:
    """Renames a folder, puts an empty one in its place, and returns the new path.

    The new name is `NAME.old-1`, or the first such number that is free.
    """
    folder = folder.resolve()
    if Path.cwd().is_relative_to(folder):
        raise ClarelError(
            f"{folder} is the current folder, so it cannot be moved aside; cd .. first"
        )
    number = 1
    while os.path.lexists(target := folder.with_name(f"{folder.name}.old-{number}")):
        number += 1
    os.rename(folder, target)
    folder.mkdir()
    return target


def _paths_below(folder: Path) -> list[str]:
    """Relative paths of files, links and empty folders below `folder`; folders end in a slash.

    Links are not followed; they are listed as links.
    """
    found = []
    for path, folders, names in os.walk(folder):
        relative = Path(path).relative_to(folder)
        links = [name for name in names + folders if os.path.islink(os.path.join(path, name))]
        found += [(relative / name).as_posix() for name in names if name not in links]
        found += [f"{(relative / name).as_posix()} (a link)" for name in links]
        if not names and not folders and relative.parts:
            found.append(relative.as_posix() + "/")
    return sorted(found)


def _is_of_a_killed_start(item: Path) -> bool:
    """True for a file that a process killed at its start can leave in a folder without a mark."""
    if item.name == files.LOCK:
        return item.is_file() and item.stat().st_size == 0
    return files.is_partial(item.name) and item.name.endswith(MARK)


def _listed(names: list[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
