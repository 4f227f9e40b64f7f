"""Which files of a user's folder a build reads: tables, features, pictures, splits.json."""

from collections.abc import Sequence
from pathlib import Path

from clarel_tf.data.pairs.pictures import IMAGES, picture_files
from clarel_tf.data.pairs.table import COLUMNS_OF_CLASSES, REQUIRED_COLUMNS, read_rows
from clarel_tf.errors import ClarelError

SHARES = "splits.json"
_TABLES, _FEATURES = (".csv", ".jsonl"), (".npz",)
_INSTEAD = "; for photographs see the README of datasets/pairs"


def find_files(folder: Path) -> list[Path]:
    """The files and folders in `folder` that a build reads."""
    tables, features = tables_and_features(folder)
    found = tables + features
    if not features:
        required = required_columns(folder, features)
        rows = (row for path in tables for row in read_rows(path, required))
        paths = [row.image for row in rows if row.image]
        if not paths and not (folder / IMAGES).is_dir():
            refuse_without_features(folder)
        found += picture_files(folder, paths)
    shares = folder / SHARES
    return [*found, shares] if shares.exists() else found


def tables_and_features(folder: Path) -> tuple[list[Path], list[Path]]:
    """The tables, and the files of features; one of them may be missing if there are pictures."""
    features = _find_files(folder, "features", _FEATURES, optional=True)
    has_folders = (folder / IMAGES).is_dir() and not features
    return _find_files(folder, "table", _TABLES, optional=has_folders), features


def refuse_without_features(folder: Path) -> None:
    """Raises ClarelError, which says what is missing."""
    _find_files(folder, "features", _FEATURES)


def required_columns(folder: Path, features: list[Path]) -> Sequence[str]:
    """The columns that a table must have."""
    is_of_classes = not features and (folder / IMAGES).is_dir()
    return COLUMNS_OF_CLASSES if is_of_classes else REQUIRED_COLUMNS


def _find_files(
    folder: Path, stem: str, suffixes: Sequence[str], optional: bool = False
) -> list[Path]:
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
    if not kinds and optional:
        return []
    if not kinds:
        wanted = " or ".join(f"{stem}{suffix}" for suffix in suffixes)
        there = sorted(path.name for path in folder.iterdir())
        held = f"; it holds {', '.join(there[:5])}{', ...' if there[5:] else ''}" if there else ""
        as_parts = f"nor parts of it such as {stem}-00001{suffixes[0]}"
        raise ClarelError(f"{folder} has no {wanted} ({as_parts}){held}{_INSTEAD}")
    return next(iter(kinds.values()))
