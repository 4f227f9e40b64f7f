"""Answers about files of pictures: a few at a time, without those that cannot be read."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clarel_tf.errors import ClarelError
from clarel_tf.images.picture_files import list_pictures, read_decodable
from clarel_tf.images.progress import Progress, Tell
from clarel_tf.serving.answers import Answer, joined
from clarel_tf.serving.calls import BadPictures

_AT_ONCE = 16  # pictures of a request

Ask = Callable[[list[bytes]], Answer]


class FileAnswers(NamedTuple):
    """What is known of some files of pictures.

    Attributes:
      files: the N that have an answer.
      answer: has a row for each of them; empty if there are none.
      problems: a message for each of the other files.
    """

    files: list[str]
    answer: Answer
    problems: dict[str, str]


def find_pictures(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files among the paths, and the pictures in the folders and below them, each once."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise ClarelError(f"give a list of paths, not {os.fspath(paths)!r} alone")
    found: list[str] = []
    for given in paths:
        path = os.fspath(given)
        if os.path.isdir(path):
            found += (os.path.join(path, name) for name in list_pictures(Path(path)))
        elif os.path.lexists(path):
            found.append(path)
        else:
            raise ClarelError(f"the picture {path} does not exist")
    return list(dict.fromkeys(found))


def answers_of_files(
    ask: Ask, files: Sequence[str], tell: Tell | None = None
) -> Iterator[FileAnswers]:
    """Answers about files, some at a time.

    Args:
      ask: answers N pictures by their contents, or raises `BadPictures`.
      tell: gets lines about progress.
    """
    progress = Progress(len(files), tell) if tell else None
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        yield _answered(ask, some)
        if progress:
            progress.add(len(some))


def gathered(parts: Sequence[FileAnswers]) -> FileAnswers:
    """All parts as one; ClarelError if no file has an answer."""
    problems = {file: text for part in parts for file, text in part.problems.items()}
    files = [file for part in parts for file in part.files]
    if not files:
        raise ClarelError(no_picture(problems))
    return FileAnswers(files, joined([part.answer for part in parts if part.files]), problems)


def no_picture(problems: dict[str, str]) -> str:
    """What to say if no file can be read."""
    first = next(iter(problems.values()), "there is no file")
    return first if len(problems) < 2 else f"no picture can be read; the first: {first}"


def _answered(ask: Ask, files: Sequence[str]) -> FileAnswers:
    contents: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for file in files:
        try:
            contents[file] = read_decodable(Path(file))
        except ClarelError as error:
            problems[file] = str(error)
    while contents:
        try:
            return FileAnswers(list(contents), ask(list(contents.values())), problems)
        except BadPictures as error:
            names = list(contents)
            for row, problem in error.problems.items():
                problems[names[row]] = f"{names[row]} {problem}"
                del contents[names[row]]
    return FileAnswers([], {}, problems)
