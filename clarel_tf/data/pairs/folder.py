"""A folder with the user's own data: finds its files and checks them against each other."""

import bisect
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from clarel_tf.data.pairs.features import check_features
from clarel_tf.data.pairs.splits import check_splits, make_splits, read_shares
from clarel_tf.data.pairs.table import read_rows
from clarel_tf.data.schema import alike
from clarel_tf.errors import ClarelError

_TABLES, _FEATURES, _SHARES = (".csv", ".jsonl"), (".npz",), "splits.json"


@dataclasses.dataclass(frozen=True)
class PairsFolder:
    """The facts about all N images of a folder; captions and features stay in the files.

    Attributes:
      tables, features: the files, in the order in which they are read.
      starts: number of the first image of each table.
      classes: the class of each image.
      splits: the split of each image, one of ROW_SPLITS.
      descriptions: sentences that describe a class and no image, by class.
    """

    tables: list[Path]
    features: list[Path]
    starts: list[int]
    classes: list[str]
    splits: list[str]
    descriptions: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def class_names(self) -> list[str]:
        return sorted({*self.classes, *self.descriptions})

    def has_split(self, name: str) -> bool:
        """True if an image is in the split, one of SPLITS; `train` is never empty."""
        return name == "trainval" or name in self.splits

    def splits_of_table(self, index: int) -> list[str]:
        """The splits of the images of table number `index`."""
        return self.splits[self.starts[index] : [*self.starts, len(self.splits)][index + 1]]


def read_folder(folder: Path) -> PairsFolder:
    """Reads every file of `folder` once, row by row, and checks it."""
    if not folder.is_dir():
        raise ClarelError(f"{folder} is not a folder; give the one with your table and features")
    tables = _find_files(folder, "table", _TABLES)
    features = _find_files(folder, "features", _FEATURES)
    number_of: dict[str, int] = {}
    classes: list[str] = []
    splits: list[str | None] = []
    starts: list[int] = []
    lines: list[int] = []
    has_captions: list[bool] = []
    descriptions: dict[str, list[str]] = {}
    first_place: dict[str, str] = {}  # of each class

    def place(number: int) -> str:
        return f"{tables[bisect.bisect(starts, number) - 1]}, line {lines[number]}"

    for path in tables:
        starts.append(len(lines))
        for row in read_rows(path):
            first_place.setdefault(row.class_name, f"{path}, line {row.line}")
            if not row.image_id:
                descriptions.setdefault(row.class_name, []).extend(row.captions)
                continue
            number = len(lines)
            lines.append(row.line)
            first = number_of.setdefault(row.image_id, number)
            if first != number:
                raise ClarelError(
                    f"{place(number)}: image {row.image_id!r} occurs already ({place(first)}); "
                    "give each image one row with all its captions"
                )
            # One string for all rows of a class: a table has many rows and few classes.
            classes.append(sys.intern(row.class_name))
            splits.append(row.split)
            has_captions.append(bool(row.captions))
    if not lines:
        raise ClarelError(f"{tables[0]} has no row with an image; there must be images to train on")
    _refuse_alike(first_place)
    whole = _whole_splits(folder, list(number_of), classes, splits, place)
    _check_captions(classes, whole, has_captions, descriptions, place)
    check_features(features, number_of, place)
    return PairsFolder(tables, features, starts, classes, whole, descriptions)


def _refuse_alike(first_place: dict[str, str]) -> None:
    """Raises ClarelError for two classes that look like one: most probably they are meant so."""
    names = list(first_place)
    for first, second in alike(names):
        raise ClarelError(
            f"{first_place[names[second]]}: class {names[second]!r} differs from "
            f"{names[first]!r} ({first_place[names[first]]}) only in case or spaces; write it in "
            "one way if it is one class, else rename one"
        )


def _check_captions(
    classes: Sequence[str],
    splits: Sequence[str],
    has_captions: Sequence[bool],
    descriptions: dict[str, list[str]],
    place: Callable[[int], str],
) -> None:
    """Raises ClarelError for an image without captions that no other captions can stand for.

    They come from the class's description or from other images of the class in the same split:
    never from test images for training, and never from validation images for `train`.
    """
    homes = list(zip(splits, classes, strict=True))
    told = {home for home, has in zip(homes, has_captions, strict=True) if has}
    for number, (split, name) in enumerate(homes):
        # Seen classes have their captions in `train`; in these splits, images are only asked about.
        if split in ("val_seen", "test_seen") or (split, name) in told or name in descriptions:
            continue
        raise ClarelError(
            f"{place(number)}: the image has no caption, and neither has any image of class "
            f"{name!r} in {split}; add a caption, or a row without 'image_id' that describes the "
            "class"
        )


def find_files(folder: Path) -> list[Path]:
    """The files of `folder` that a build reads: tables, features, and splits.json if it exists."""
    shares = folder / _SHARES
    found = _find_files(folder, "table", _TABLES) + _find_files(folder, "features", _FEATURES)
    return [*found, shares] if shares.exists() else found


def make_example(
    image_id: str, features: np.ndarray, captions: list[str], label: int, split: str
) -> dict[str, object]:
    """The example of an image of `split`; features are float32 [D]."""
    return {
        "image_id": image_id,
        "image_features": features,
        "captions": captions,
        "label": label,
        "in_test_seen": split == "test_seen",
        "image": b"",
    }


def make_description(sentences: list[str], label: int) -> dict[str, object]:
    """The example of a class that sentences describe; it has no image."""
    features = np.zeros(0, np.float32)
    return make_example("", features, sentences, label, "")


def _whole_splits(
    folder: Path,
    image_ids: list[str],
    classes: list[str],
    splits: Sequence[str | None],
    place: Callable[[int], str],
) -> list[str]:
    """The splits of the table if it has the column, otherwise splits from a seed."""
    shares_file = folder / _SHARES
    given = [split for split in splits if split is not None]
    if given and len(given) < len(splits):
        raise ClarelError(
            f"{place(splits.index(None))}: no split, but other rows have one "
            f"({place(splits.index(given[0]))}); give every row a split, or none"
        )
    if given and shares_file.exists():
        raise ClarelError(
            f"{shares_file} says how to make splits, but the table has the column 'split'; "
            "remove one of them"
        )
    whole = given or make_splits(image_ids, classes, read_shares(shares_file))
    check_splits(classes, whole, place)
    return whole


def _find_files(folder: Path, stem: str, suffixes: Sequence[str]) -> list[Path]:
    """The file `stem.suffix`, or its parts `stem-*.suffix` in the order of their names."""
    kinds: dict[str, list[Path]] = {}
    for suffix in suffixes:
        whole = folder / f"{stem}{suffix}"
        if whole.exists():
            kinds[whole.name] = [whole]
        parts = sorted(folder.glob(f"{stem}-*{suffix}"), key=lambda path: path.name)
        if parts:
            kinds[f"{stem}-*{suffix}"] = parts
    if len(kinds) > 1:
        raise ClarelError(f"{folder} has both {' and '.join(kinds)}; keep one of them")
    if not kinds:
        wanted = " or ".join(f"{stem}{suffix}" for suffix in suffixes)
        there = sorted(path.name for path in folder.iterdir())
        held = f"; it holds {', '.join(there[:5])}{', ...' if there[5:] else ''}" if there else ""
        raise ClarelError(
            f"{folder} has no {wanted} (nor parts of it such as {stem}-00001{suffixes[0]}){held}"
        )
    return next(iter(kinds.values()))
