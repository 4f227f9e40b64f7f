"""The features of a whole folder of pictures, in one file; continues after a kill."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbones import Backbone
from clarel_tf.images.extractor import Extractor
from clarel_tf.images.feature_files import read_features, write_features
from clarel_tf.images.feature_parts import WHAT, FeatureParts, make_folder
from clarel_tf.images.picture_files import list_pictures
from clarel_tf.storage import files

_PART = 512  # pictures whose features are kept in memory
_TELL_EVERY = 10.0  # seconds
_NAMED = 5  # broken pictures in the last message


def extract_folder(
    images: str | Path,
    output: str | Path,
    backbone: Backbone,
    skip_broken: bool = False,
    tell: Callable[[str], None] = print,
) -> list[str]:
    """Writes the features of all pictures below a folder, and returns the paths of the pictures.

    Broken pictures are told at once and refused at the end, when the features of all others are
    kept: after a correction, only the corrected ones remain to be done.

    Args:
      images: the folder.
      output: an `.npz` file, which `datasets/pairs` and the config `custom` of CUB can read.
      skip_broken: writes the file without them.
      tell: gets lines about progress and broken pictures.
    """
    images, output = Path(images), Path(output)
    if output.suffix != ".npz":
        raise ClarelError(f"output {output} must end in .npz")
    names = list_pictures(images)
    if output.exists():
        _check_finished(output, names, backbone)
        tell(f"{output} has the features of all {len(names):,} pictures already")
        return names
    with files.writing_in(output.parent, "the folder of the output"):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = make_folder(output)
        with files.only_process(folder, WHAT):
            parts = FeatureParts(folder, backbone.record)
            todo = parts.missing(images, names)
            if len(todo) < len(names):
                tell(f"Continues: {len(names) - len(todo):,} of {len(names):,} pictures are done")
            problems, broken = _extract(images, todo, backbone, parts, tell)
            _refuse(problems, skip_broken, whole=len(names))
            kept = [name for name in names if name not in broken]
            write_features(output, kept, parts.rows(kept), backbone.record)
            parts.delete()
    return kept


def _extract(
    images: Path,
    todo: list[str],
    backbone: Backbone,
    parts: FeatureParts,
    tell: Callable[[str], None],
) -> tuple[list[str], set[str]]:
    """Extracts pictures into parts; returns messages about broken ones, and their names."""
    names: list[str] = []
    blocks: list[np.ndarray] = []
    problems: list[str] = []
    good: set[str] = set()
    progress = _Progress(len(todo), tell)
    for found, features, messages in Extractor(backbone).batches(images, todo):
        names, blocks = names + found, [*blocks, features]
        good.update(found)
        problems += messages
        for message in messages:
            tell(f"broken: {message}")
        if len(names) >= _PART:
            parts.add(images, names, np.concatenate(blocks))
            names, blocks = [], []
        progress.add(len(found) + len(messages))
    if names:
        parts.add(images, names, np.concatenate(blocks))
    return problems, set(todo) - good


def _refuse(problems: list[str], skip_broken: bool, whole: int) -> None:
    if len(problems) == whole:
        raise ClarelError(f"no picture can be read; the first: {problems[0]}")
    if problems and not skip_broken:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise ClarelError(
            f"{len(problems)} of {whole} pictures cannot be read: "
            f"{'; '.join(problems[:_NAMED])}{more}. Correct or remove them and give the same "
            "command again, which continues; or leave them out with --skip_broken"
        )


def _check_finished(output: Path, names: list[str], backbone: Backbone) -> None:
    """Raises ClarelError unless a file has the features of these pictures by this backbone."""
    its_names, _, record = read_features(output)
    record.check_same(backbone.record, output, "this command")
    if its_names != names:
        raise ClarelError(
            f"{output} exists, with the features of {len(its_names)} pictures, which are not the "
            f"{len(names)} of the folder; name another file, or delete it"
        )


class _Progress:
    """Tells how many pictures are done, and the remaining time."""

    def __init__(self, whole: int, tell: Callable[[str], None]):
        self._whole, self._tell, self._done = whole, tell, 0
        self._started = self._told = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._told < _TELL_EVERY and self._done < self._whole:
            return
        self._told = now
        rate = self._done / max(now - self._started, 1e-9)
        left = round((self._whole - self._done) / rate)
        hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
        self._tell(
            f"{self._done:,} of {self._whole:,} pictures, {rate:.0f} a second, "
            f"{hours}:{minutes:02d}:{seconds:02d} left"
        )
