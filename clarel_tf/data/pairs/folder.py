"""A folder with the user's own data: reads its files and checks them against each other."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clarel_tf.data.pairs.features import check_features
from clarel_tf.data.pairs.found_files import (
    SHARES,
    refuse_without_features,
    required_columns,
    tables_and_features,
)
from clarel_tf.data.pairs.gathered_rows import GatheredRows
from clarel_tf.data.pairs.pictures import IMAGES, check_pictures
from clarel_tf.data.pairs.splits import check_splits, make_splits, read_shares
from clarel_tf.data.pairs.table import image_rows
from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord


@dataclasses.dataclass(frozen=True)
class PairsFolder:
    """The facts about all N images of a folder; captions and features stay in the files.

    Attributes:
      path: of the folder.
      tables, features: the files, in the order in which they are read.
      starts: number of the first image of each table.
      classes: the class of each image.
      splits: the split of each image, one of ROW_SPLITS.
      descriptions: sentences that describe a class and no image, by class.
      pictures: paths of pictures by image id, in the order of the images; None if there are
        features.
      place: tells where the table names an image; None if no table does.
      backbone: the network that made the files of features, if they say so.
    """

    path: Path
    tables: list[Path]
    features: list[Path]
    starts: list[int]
    classes: list[str]
    splits: list[str]
    descriptions: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    pictures: dict[str, str] | None = None
    place: Callable[[str], str] | None = None
    backbone: BackboneRecord | None = None

    @property
    def class_names(self) -> list[str]:
        return sorted({*self.classes, *self.descriptions})

    def has_split(self, name: str) -> bool:
        """True if an image is in the split, one of SPLITS; `train` is never empty."""
        return name == "trainval" or name in self.splits

    def splits_of_table(self, index: int) -> list[str]:
        """The splits of the images of table number `index`."""
        return self.splits[self.starts[index] : [*self.starts, len(self.splits)][index + 1]]

    def images(self) -> Iterator[tuple[str, str, list[str], str]]:
        """Id, class, captions and split of each image, one at a time."""
        if not self.tables:
            for image_id, name, split in zip(
                self.pictures or (), self.classes, self.splits, strict=True
            ):
                yield image_id, name, [], split
        for index, path in enumerate(self.tables):
            for row, split in zip(image_rows(path), self.splits_of_table(index), strict=True):
                yield row.image_id, row.class_name, row.captions, split


def read_folder(folder: Path) -> PairsFolder:
    """Reads every file of `folder` once, row by row, and checks it."""
    if not folder.is_dir():
        raise ClarelError(f"{folder} is not a folder; give the one with your table and features")
    tables, features = tables_and_features(folder)
    rows = GatheredRows(folder)
    for path in tables:
        rows.read_table(path, required_columns(folder, features))
    if not rows.has_images and not features and (folder / IMAGES).is_dir():
        rows.read_class_folders()
    elif not rows.has_images:
        raise ClarelError(f"{tables[0]} has no row with an image; there must be images to train on")
    elif rows.pictures is None and not features:
        refuse_without_features(folder)
    elif rows.pictures is not None and features:
        raise ClarelError(
            f"{folder} has {features[0].name}, and its table has the column 'image'; remove one of "
            "them"
        )
    if rows.pictures is not None:
        rows.read_class_texts()
    rows.refuse_alike_classes()
    whole = _whole_splits(folder, list(rows.number_of), rows.classes, rows.splits, rows.place)
    rows.check_captions(whole)
    backbone = None
    if features:
        backbone = check_features(features, rows.number_of, rows.place)
    elif rows.tables and rows.pictures is not None:
        check_pictures(folder, rows.pictures, rows.place_of)
    return PairsFolder(
        folder,
        rows.tables,
        features,
        rows.starts,
        rows.classes,
        whole,
        rows.descriptions,
        rows.pictures,
        rows.place_of if rows.tables else None,
        backbone,
    )


def _whole_splits(
    folder: Path,
    image_ids: list[str],
    classes: list[str],
    splits: Sequence[str | None],
    place: Callable[[int], str],
) -> list[str]:
    """The splits of the table if it has the column, otherwise splits from a seed."""
    shares_file = folder / SHARES
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
